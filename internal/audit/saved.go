package audit

import "time"

// SchemaSaved is the schema of Saved.
const SchemaSaved = "loadline/apply/1"

// Saved is what scaled before a change, so that it can be put back (tts-bench apply --rollback).
type Saved struct {
	Schema    string    `json:"schema"`
	RunID     string    `json:"run_id"`
	At        time.Time `json:"at"`
	Region    string    `json:"region"`
	URL       string    `json:"endpoint_url,omitempty"` // "": AWS
	Endpoint  string    `json:"endpoint"`
	Variant   string    `json:"variant"`
	Component string    `json:"component,omitempty"`
	Plan      string    `json:"plan"` // whose alarms it may have made; "": none
	Before    Scaling   `json:"before"`

	Schedules []Schedule `json:"schedules,omitempty"` // that go with the target; they are for people to put back
}

// Name is the name of its file.
func (s Saved) Name() string { return "apply-" + s.RunID + ".json" }

// Package artifact is the records that commands hand to each other: versioned JSON with the settings, the target and the
// fingerprint of what was measured, so that a later command can refuse to pair what does not belong together.
//
// It decides what a record must hold to be believed, what its file is called, and which records pair. It reads the files
// of the published toolchain too (published.go says what becomes of each of their figures). Bytes come in and go out;
// files are opened and written by package store.
//
//	ladder, err := artifact.ReadQMax(data)
//	warnings, err := artifact.Pair("the ladder", ladder.Fingerprint, "the scale-out", scaleOut.Fingerprint, false)
package artifact

import (
	"fmt"
	"time"

	"loadline/internal/ladder"
)

// Schemas of the records this version writes.
const (
	SchemaQMax   = "loadline/qmax/1"
	SchemaTTotal = "loadline/ttotal/1"
	SchemaPlan   = "loadline/plan/1"
	SchemaFreeze = "loadline/freeze/1"
)

// Header opens every record.
type Header struct {
	Schema      string         `json:"schema"`
	RunID       string         `json:"run_id"` // ULID
	CreatedAt   time.Time      `json:"created_at"`
	Tool        string         `json:"tool"`     // name and version
	Settings    map[string]any `json:"settings"` // effective flags
	Target      Target         `json:"target"`
	Fingerprint Fingerprint    `json:"fingerprint"`
}

// Target is what was measured: a SageMaker variant, or an HTTP endpoint by URL. No account id, no secret.
type Target struct {
	Model     string `json:"model"`
	Endpoint  string `json:"endpoint,omitempty"`
	Variant   string `json:"variant,omitempty"`
	Component string `json:"component,omitempty"` // inference component: what scales is its copies
	URL       string `json:"url,omitempty"`       // without user, password and query
	Transport string `json:"transport"`           // response-stream, invoke, raw, …
	Payload   string `json:"payload"`             // audio, json, bytes
}

// Fingerprint is what must be equal for two measurements to belong together. QueueBound stands apart: it is not compared.
type Fingerprint struct {
	Region       string            `json:"region"`
	InstanceType string            `json:"instance_type"`
	ImageDigest  string            `json:"image_digest"`  // hex, without "sha256:"
	ContainerEnv map[string]string `json:"container_env"` // null: not known
	QueueBound   *int              `json:"queue_bound"`   // MAX_QUEUE_DEPTH; 0 unbounded, null not known

	// NoRegion: the record was read from a format that carries no region, as published files are. That is not the same as
	// a region that could not be read: two such records pair without one.
	NoRegion bool `json:"no_region,omitempty"`

	// Copy is what one copy of the inference component has; left out for a variant, and in records from before it was read.
	Copy *Copy `json:"copy,omitempty"`
}

// Copy is the part of an instance that one copy of an inference component has, as its specification asks for it. 0: not
// asked for.
type Copy struct {
	CPUs         float64 `json:"cpus"`
	Accelerators float64 `json:"accelerators"`
	MinMemoryMB  int     `json:"min_memory_mb"`
	MaxMemoryMB  int     `json:"max_memory_mb"`
}

// String is what a copy has, as people read it.
func (c Copy) String() string {
	s := fmt.Sprintf("%g cores, %g accelerators, %d MB", c.CPUs, c.Accelerators, c.MinMemoryMB)
	if c.MaxMemoryMB != 0 {
		s += fmt.Sprintf(" to %d MB", c.MaxMemoryMB)
	}
	return s
}

// Corpus is what was spoken.
type Corpus struct {
	ID        string  `json:"id"` // name, or file name and 8 hex of its hash
	Texts     int     `json:"texts"`
	CharsMean float64 `json:"chars_mean"`
	CharsP95  float64 `json:"chars_p95"` // 0: not known
	Seed      int64   `json:"seed"`
}

// Price of one instance. A nil *Price is an unknown one, printed so, never as 0.
type Price struct {
	PerHour float64 `json:"per_hour"`
	Source  string  `json:"source"`
	Date    string  `json:"date"`
}

// QMax is the record of one search or ladder.
type QMax struct {
	Header

	SLOMS      float64 `json:"slo_ms"`
	Percentile float64 `json:"percentile"` // 95
	SLOOn      string  `json:"slo_on"`     // first-audio, first-audible, total

	QMax        *int                `json:"q_max"` // null: no rung was certified
	Certificate *ladder.Certificate `json:"certificate"`
	Bracket     ladder.Bracket      `json:"bracket"`
	Verdict     string              `json:"verdict"` // certified | published schedule: bracketed … | none
	Reason      string              `json:"reason,omitempty"`
	Cliff       bool                `json:"cliff"`         // the step from pass to fail is a cliff, not a slope
	PerRun      []*int              `json:"q_max_per_run"` // --runs; null for a run without an answer

	Rungs []ladder.Rung `json:"rungs"`

	Mu            ladder.Interval `json:"mu_rps"`
	SMean         *float64        `json:"s_mean_s"` // whole response at N = 1
	SP95          *float64        `json:"s_p95_s"`
	FirstAudioAt1 *float64        `json:"first_audio_p95_at_1_ms"`
	ProbePair     []int           `json:"probe_pair"` // [p, p/2]
	Corpus        Corpus          `json:"corpus"`
	CharsPerS     float64         `json:"chars_per_s"` // at Q_max

	Frozen         bool     `json:"frozen"`
	InstanceCounts []int    `json:"instance_counts"` // distinct counts seen
	Price          *Price   `json:"price"`
	RequestLog     string   `json:"request_log,omitempty"` // file beside this one
	Complete       bool     `json:"complete"`              // false: stopped early, or still being measured
	Warnings       []string `json:"warnings,omitempty"`
}

// Freeze is what was changed on an endpoint and how to put it back; written before the first change.
type Freeze struct {
	Schema    string    `json:"schema"`
	RunID     string    `json:"run_id"`
	CreatedAt time.Time `json:"created_at"`
	Owner     string    `json:"owner"` // user@host pid
	Command   string    `json:"command"`
	Region    string    `json:"region"`
	Endpoint  string    `json:"endpoint"`
	Variant   string    `json:"variant"`
	URL       string    `json:"endpoint_url,omitempty"` // a local endpoint's, so that thaw finds it
	// Component is the inference component whose copies were pinned: counts and bounds are of copies then.
	Component string `json:"component,omitempty"`

	CloneOf   string `json:"clone_of,omitempty"` // the whole endpoint is a temporary clone of this one, and is to be deleted
	HadTarget bool   `json:"had_target"`         // a scalable target was registered
	Suspended struct {
		Out   bool `json:"out"`
		In    bool `json:"in"`
		Sched bool `json:"sched"`
	} `json:"suspended"`
	Min     int `json:"min"`
	Max     int `json:"max"`
	Desired int `json:"desired"`
}

// Scales is the id under which Application Auto Scaling knows what the target scales by, and the scalable dimension: the
// instances of a variant, or the copies of an inference component.
func (t Target) Scales() (resource, dimension string) {
	if t.Component != "" {
		return "inference-component/" + t.Component, CopyCount
	}
	return "endpoint/" + t.Endpoint + "/variant/" + t.Variant, InstanceCount
}

// The scalable dimensions of SageMaker that are planned for.
const (
	InstanceCount = "sagemaker:variant:DesiredInstanceCount"
	CopyCount     = "sagemaker:inference-component:DesiredCopyCount"
)

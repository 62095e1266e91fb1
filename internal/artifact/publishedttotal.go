package artifact

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// stageOrder is the order in which the stages of a scale-out happen: it settles equal timestamps.
var stageOrder = []string{
	"load_applied", "desired_set", "instance_logging", "container_started", "weights_fetched", "framework_init",
	"weights_ready", "warmup_done", "ready", "in_service", "traffic_recovered",
}

type publishedScaleOut struct {
	Model     string          `json:"model_name"`
	Endpoint  string          `json:"endpoint"`
	RunID     string          `json:"run_id"`
	Trigger   string          `json:"trigger"`
	Config    publishedConfig `json:"deployed_config"`
	Total     float64         `json:"t_total_s"`
	Planning  float64         `json:"t_total_with_policy_bound_s"`
	PolicyLag float64         `json:"policy_lag_bound_s"`
	Bounded   bool            `json:"t_total_bounded"`
	From      int             `json:"from_instances"`
	To        int             `json:"to_instances"`
	Timeline  []struct {
		Stage   string    `json:"stage"`
		At      time.Time `json:"at"`
		Bounded bool      `json:"bounded"`
		Source  string    `json:"source"`
		Note    *string   `json:"note"`
	} `json:"timeline"`
	Missing []string `json:"missing_stages"`
	Notes   []string `json:"notes"`
}

// publishedTTotal takes the stages with their times and lists them again in the order in which they happen; the
// durations follow from that. The probe's own warm-up stays among them where the file has it, and is marked: then they
// add up to more than the total.
func publishedTTotal(data []byte) (*TTotal, error) {
	const what = "a scale-out of the published toolchain"
	var f publishedScaleOut
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if len(f.Timeline) < 2 {
		return nil, errors.New(what + " without stages")
	}
	t := &TTotal{
		Header: Header{
			Schema: SchemaTTotal, RunID: f.RunID, Tool: publishedTool,
			Settings: map[string]any{"from_instances": f.From, "to_instances": f.To},
			Target:   Target{Model: f.Model, Endpoint: f.Endpoint, Payload: "audio"},
		},
		Trigger: f.Trigger, TTotal: f.Total, Runs: []float64{f.Total}, Bounded: f.Bounded,
		Detection: f.PolicyLag, DetectionSource: "published bound", Planning: f.Planning,
		Notes: append([]string{"read from the published format: the transport is not in it"}, f.Notes...),
	}
	note := func(format string, a ...any) { t.Notes = append(t.Notes, fmt.Sprintf(format, a...)) }
	t.fingerprint(f.Config, note)
	for _, s := range f.Timeline {
		st := Stage{Name: s.Stage, At: s.At.UTC(), Bounded: s.Bounded, Source: s.Source}
		if s.Note != nil {
			st.Note = *s.Note
		}
		t.Timeline = append(t.Timeline, st)
	}
	slices.SortStableFunc(t.Timeline, func(a, b Stage) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(rank(a.Name), rank(b.Name)))
	})
	t.CreatedAt = t.Timeline[0].At
	for i, to := range t.Timeline[1:] {
		from := t.Timeline[i]
		d := Duration{From: from.Name, To: to.Name, Seconds: to.At.Sub(from.At).Seconds(), Bounded: from.Bounded || to.Bounded}
		if f.Total > 0 {
			d.Share = d.Seconds / f.Total
		}
		t.Durations = append(t.Durations, d)
	}
	if call := slices.IndexFunc(t.Timeline, func(s Stage) bool { return s.Name == "desired_set" }); call > 0 {
		t.ListsProbeWarmup = true
		note("what came before the clock's start is listed among the durations: they add up to %.2f s, the total is %.2f s",
			t.Timeline[len(t.Timeline)-1].At.Sub(t.Timeline[0].At).Seconds(), f.Total)
	}
	for _, m := range f.Missing {
		note("stage %s was not seen", m)
	}
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("%s that cannot be true: %w", what, err)
	}
	return t, nil
}

// rank is the place of a stage in the order; one that is not known comes last.
func rank(stage string) int {
	if i := slices.Index(stageOrder, stage); i >= 0 {
		return i
	}
	return len(stageOrder)
}

package freeze

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/artifact"
	"loadline/internal/exit"
)

// idle is a variant that nothing stands against.
func idle() Variant {
	zero, none := 0, 0.0
	return Variant{
		Region: "us-east-1", Endpoint: "tts", Name: "primary", Status: InService, Desired: 1, Current: 1, Containers: 1,
		Fingerprint: artifact.Fingerprint{QueueBound: &zero}, Target: &Target{Min: 1, Max: 9}, Tags: map[string]string{}, Invocations: &none,
	}
}

func bound(n int) func(*Variant) { return func(v *Variant) { v.Fingerprint.QueueBound = &n } }

func TestRefuse(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Variant)
		o      Options
		want   []string // parts of the message; none: not refused
	}{
		{name: "idle", change: func(*Variant) {}},
		{name: "another run's record", change: func(v *Variant) { v.Tags[TagKey] = "out=0/in=0/sched=0/min=1/max=9/desired=3" },
			want: []string{"another run", "tts-bench thaw --endpoint tts"}},
		{name: "count changing", change: func(v *Variant) { v.Desired = 3 }, want: []string{"count is changing (desired 3, current 1)"}},
		{name: "updating", change: func(v *Variant) { v.Status, v.Desired = "Updating", 3 }, want: []string{"it is Updating"}},
		{name: "failed", change: func(v *Variant) { v.Status = "Failed" }, want: []string{"it is Failed"}},
		{name: "no instance", change: func(v *Variant) { v.Desired, v.Current = 0, 0 }, want: []string{"no instance"}},
		{name: "bounded", change: bound(50), want: []string{"beyond 50", "--probe-depth", "MAX_QUEUE_DEPTH=0"}},
		{name: "bounded, probed", change: bound(50), o: Options{ProbeDepth: true}},
		{name: "bound unknown", change: func(v *Variant) { v.BadBound = `MAX_QUEUE_DEPTH="many"` }, o: Options{ProbeDepth: true}, want: []string{`MAX_QUEUE_DEPTH="many"`}},
		{name: "async", change: func(v *Variant) { v.Async = true }, want: []string{"asynchronous"}},
		{name: "serverless", change: func(v *Variant) { v.Serverless = true }, want: []string{"serverless"}},
		{name: "components", change: func(v *Variant) { v.Components = true }, want: []string{"inference components"}},
		{name: "several containers", change: func(v *Variant) { v.Containers = 2 }, want: []string{"2 containers"}},
		{name: "two reasons", change: func(v *Variant) { v.Async, v.Status = true, "Updating" }, want: []string{"asynchronous", "Updating"}},
		{name: "many instances are a matter of consent", change: func(v *Variant) { v.Desired, v.Current = 3, 3 }},
		{name: "no freeze, scaling active", change: func(*Variant) {}, o: Options{NoFreeze: true}, want: []string{"up to 9"}},
		{name: "no freeze, scale-out suspended", change: func(v *Variant) { v.Target.Suspended.Out = true }, o: Options{NoFreeze: true}},
		{name: "no freeze, no target", change: func(v *Variant) { v.Target = nil }, o: Options{NoFreeze: true}},
		{name: "an endpoint of components", change: func(v *Variant) { v.Components = true }, want: []string{"--component NAME"}},
		{name: "a component without copies", change: func(v *Variant) { v.Component, v.Desired, v.Current = "voice", 0, 0 }, want: []string{"it has no copy", "inference component voice"}},
		{name: "copies change", change: func(v *Variant) { v.Component, v.Desired = "voice", 3 }, want: []string{"its copy count is changing"}},
		{name: "no freeze, copies", change: func(v *Variant) { v.Target, v.Component, v.Desired, v.Current = nil, "voice", 3, 3 }, o: Options{NoFreeze: true}, want: []string{"Q_max is per copy"}},
		{name: "no freeze, many instances", change: func(v *Variant) { v.Target, v.Desired, v.Current = nil, 3, 3 }, o: Options{NoFreeze: true}, want: []string{"3 instances"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := idle()
			tt.change(&v)
			err := Refuse(v, tt.o)
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("got %v, want refused: %t", err, tt.want != nil)
			}
			if err == nil {
				return
			}
			if exit.Code(err) != exit.No {
				t.Errorf("exit code %d, want %d", exit.Code(err), exit.No)
			}
			for _, part := range append(tt.want, "endpoint tts, variant primary") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestConsent(t *testing.T) {
	some := 12.0
	tests := []struct {
		name   string
		change func(*Variant)
		want   string // part of the one question; "": nothing is asked
	}{
		{"idle", func(*Variant) {}, ""},
		{"traffic", func(v *Variant) { v.Invocations = &some }, "12 requests in the last 10 minutes"},
		{"traffic unknown", func(v *Variant) { v.Invocations = nil }, "could not be read"},
		{"three instances", func(v *Variant) { v.Desired, v.Current = 3, 3 }, "3 instances"},
		{"production", func(v *Variant) { v.Tags["Environment"] = "Production" }, "Environment = Production"},
		{"production flag", func(v *Variant) { v.Tags["production"] = "true" }, "production = true"},
		{"staging", func(v *Variant) { v.Tags["env"] = "staging" }, ""},
		{"copies", func(v *Variant) { v.Component, v.Desired, v.Current = "voice", 3, 3 }, "3 copies"},
		{"neighbours", func(v *Variant) { v.Component, v.Neighbours = "voice", []string{"chat"} }, "share its instances (chat)"},
		{"tags unknown", func(v *Variant) { v.Tags = nil }, "tags could not be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := idle()
			tt.change(&v)
			got := Consent(v)
			switch {
			case tt.want == "" && got != nil:
				t.Errorf("asks %q", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("asks %q, want %q", got, tt.want)
			}
		})
	}
}

func TestStill(t *testing.T) {
	v := idle()
	v.Desired, v.Current, v.Target.Suspended.In = 3, 3, true // someone had suspended scale-in before us
	rec := Record(v)

	frozen := v
	frozen.Desired, frozen.Current, frozen.Target = 1, 1, &Target{Min: 1, Max: 9, Suspended: All}
	if got := Still(rec, frozen); len(got) != 2 {
		t.Errorf("frozen: %q, want scaling and count", got)
	}
	if got := Still(rec, v); got != nil {
		t.Errorf("put back: %q", got)
	}

	moved := v // scaling is active again and has already asked for five
	moved.Desired, moved.Current = 5, 5
	if got := Still(rec, moved); got != nil {
		t.Errorf("scaler owns the count: %q", got)
	}
	moved.Target = &Target{Min: 1, Max: 9, Suspended: All}
	if got := Still(rec, moved); len(got) != 2 {
		t.Errorf("nobody owns the count: %q", got)
	}
	updating := v
	updating.Status, updating.Current = "Updating", 1
	if got := Still(rec, updating); len(got) != 1 {
		t.Errorf("updating: %q", got)
	}
	gone := v // deregistered by someone else: not ours to put back
	gone.Target = nil
	if got := Still(rec, gone); got != nil {
		t.Errorf("target gone: %q", got)
	}
}

func TestTag(t *testing.T) {
	v := idle()
	v.Desired = 3
	rec := Record(v)
	if got, want := Tag(rec, 0), "out=0/in=0/sched=0/min=1/max=9/desired=3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := Tag(rec, 1), "out=0/in=0/sched=0/min=1/max=9/desired=3/variant=primary"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	rec.Component = "voice"
	if got, want := Tag(rec, 0), "out=0/in=0/sched=0/min=1/max=9/desired=3/component=voice"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	v.Target = nil
	back, err := ParseTag(Tag(Record(v), 0))
	if err != nil || back.HadTarget || back.Desired != 3 {
		t.Errorf("no target: %+v, %v", back, err)
	}
	for _, bad := range []string{"", "out=0", "out=2/in=0/sched=0/min=1/max=9/desired=3", "out=0/in=0/sched=0/min=9/max=1/desired=3",
		"out=0/in=0/sched=0/min=1/max=9/desired=3/component=", "out=0/in=0/sched=0/min=1/max=9/desired=3/component=a/component=b",
		"out=0/in=0/sched=0/min=1/max=9/desired=x", "out=0/out=0/in=0/sched=0/min=1/max=9/desired=3", "out=0/in=0/sched=0/min=1/max=9/desired=3/extra=1"} {
		if _, err := ParseTag(bad); err == nil {
			t.Errorf("%q is taken for a record", bad)
		}
	}
}

func FuzzParseTag(f *testing.F) {
	f.Add("out=0/in=0/sched=0/min=1/max=9/desired=3")
	f.Add("out=1/in=0/sched=1/min=0/max=0/desired=1/variant=b")
	f.Add("out=0/in=0/sched=0/min=0/max=4/desired=2/variant=b/component=voice")
	f.Fuzz(func(t *testing.T, s string) {
		rec, err := ParseTag(s)
		if err != nil {
			return
		}
		siblings := 0
		if rec.Variant != "" {
			siblings = 1
		}
		again, err := ParseTag(Tag(rec, siblings))
		if err != nil {
			t.Fatalf("%q reads as %+v, which does not read back: %v", s, rec, err)
		}
		if diff := cmp.Diff(rec, again); diff != "" {
			t.Errorf("%q: %s", s, diff)
		}
	})
}

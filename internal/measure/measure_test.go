package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/ladder"
	"loadline/internal/sample"
)

// endpoint is a fleet, its records and its counter, writing down what is done to it.
type endpoint struct {
	state                      freeze.Variant
	did                        []string
	record                     *artifact.Freeze
	failSave, failPin, failFix error
	onFreeze                   func()
	grows                      time.Time // from then on it has three instances; never when zero
}

func newEndpoint(desired int) *endpoint {
	return &endpoint{state: freeze.Variant{Endpoint: "tts", Name: "primary", Status: freeze.InService, Desired: desired, Current: desired,
		Target: &freeze.Target{Min: 1, Max: 9}, Tags: map[string]string{}}}
}

func (e *endpoint) SaveFreeze(rec artifact.Freeze) error {
	e.did = append(e.did, "save")
	e.record = &rec
	return e.failSave
}

func (e *endpoint) DropFreeze() error {
	e.did = append(e.did, "drop")
	e.record = nil
	return nil
}

func (e *endpoint) Freeze(ctx context.Context, rec artifact.Freeze, pin int) error {
	e.did = append(e.did, "suspend")
	e.state.Target.Suspended = freeze.All
	if e.onFreeze != nil {
		e.onFreeze()
	}
	if e.failPin != nil {
		return e.failPin
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.did = append(e.did, "pin")
	e.state.Desired, e.state.Current = pin, pin
	return nil
}

func (e *endpoint) Restore(ctx context.Context, rec artifact.Freeze) error {
	if e.failFix != nil {
		return e.failFix
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e.did = append(e.did, "restore")
	e.state.Target.Suspended = freeze.Before(rec)
	e.state.Desired, e.state.Current = rec.Desired, rec.Desired
	return nil
}

func (e *endpoint) Activate(ctx context.Context, desired int) error {
	rec := freeze.Record(e.state)
	rec.Suspended = artifact.Freeze{}.Suspended
	if desired > 0 {
		rec.Desired = desired
	}
	return e.Restore(ctx, rec)
}

func (e *endpoint) State(context.Context) (freeze.Variant, error) { return e.state, nil }

func (e *endpoint) Take(component string) { e.state.Component = component }

func (e *endpoint) Count(context.Context) (string, int, int, error) {
	if !e.grows.IsZero() && time.Now().After(e.grows) {
		return e.state.Status, 3, 3, nil
	}
	return e.state.Status, e.state.Desired, e.state.Current, nil
}

func TestFrozen(t *testing.T) {
	whole := []string{"save", "suspend", "pin", "body", "restore", "drop"}
	tests := []struct {
		name string
		set  func(e *endpoint, cancel context.CancelFunc)
		body func(cancel context.CancelFunc) error
		did  []string
		code int
		says string
	}{
		{name: "done", did: whole},
		{name: "body fails", body: func(context.CancelFunc) error { return errors.New("no") }, did: whole, code: exit.No, says: "no"},
		{name: "body panics", body: func(context.CancelFunc) error { panic("bug") }, did: whole, says: "bug"},
		{name: "ended while measuring", body: func(cancel context.CancelFunc) error { cancel(); return nil }, did: whole},
		{name: "record not kept", set: func(e *endpoint, _ context.CancelFunc) { e.failSave = errors.New("disk full") },
			did: []string{"save"}, code: exit.No, says: "nothing was changed"},
		{name: "pin fails", set: func(e *endpoint, _ context.CancelFunc) { e.failPin = errors.New("no capacity") },
			did: []string{"save", "suspend", "restore", "drop"}, code: exit.No, says: "no capacity"},
		{name: "ended while pinning", set: func(e *endpoint, cancel context.CancelFunc) { e.onFreeze = cancel },
			did: []string{"save", "suspend", "restore", "drop"}, code: exit.Unknown, says: "interrupted"},
		{name: "not put back", set: func(e *endpoint, _ context.CancelFunc) {
			e.failFix = errors.New("still changed: desired count: 1, was 3")
		},
			did: whole[:4], code: exit.No, says: "tts-bench thaw --endpoint tts --variant primary"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			e := newEndpoint(3)
			if tt.set != nil {
				tt.set(e, cancel)
			}
			var fault any
			err := func() (err error) {
				defer func() { fault = recover() }()
				return Frozen(ctx, e, e, freeze.Record(e.state), 1, func(context.Context) error {
					e.did = append(e.did, "body")
					if tt.body != nil {
						return tt.body(cancel)
					}
					return nil
				})
			}()
			if !slices.Equal(e.did, tt.did) {
				t.Errorf("did %q, want %q", e.did, tt.did)
			}
			if exit.Code(err) != tt.code {
				t.Errorf("exit code %d (%v), want %d", exit.Code(err), err, tt.code)
			}
			if said := fmt.Sprint(err, fault); !strings.Contains(said, tt.says) {
				t.Errorf("%q does not say %q", said, tt.says)
			}
			if kept := e.record != nil; kept != (e.failFix != nil || e.failSave != nil) {
				t.Errorf("record kept: %t", kept)
			}
		})
	}
}

func TestThaw(t *testing.T) {
	frozen := func() *endpoint {
		e := newEndpoint(3)
		e.state.Target.Suspended = freeze.All
		e.state.Desired, e.state.Current = 1, 1
		return e
	}
	rec := freeze.Record(newEndpoint(3).state)
	ofVoice := rec
	ofVoice.Component = "voice"
	tests := []struct {
		name      string
		e         *endpoint
		kept      *artifact.Freeze
		tag       string
		desired   int
		says      string
		component string // whose copies were put back
		code      int
		count     int
	}{
		{name: "record", e: frozen(), kept: &rec, says: "put back from the freeze record: desired count 3, scaling active, 1 to 9", count: 3},
		{name: "record, all as it was", e: newEndpoint(3), kept: &rec, says: "nothing was changed any more", count: 3},
		{name: "tag", e: frozen(), tag: "out=0/in=0/sched=0/min=1/max=9/desired=3", says: "put back from the tag", count: 3},
		{name: "tag of a sibling", e: newEndpoint(1), tag: "out=0/in=0/sched=0/min=1/max=9/desired=3/variant=other", says: "nothing to do", count: 1},
		{name: "tag of a component", e: frozen(), tag: "out=0/in=0/sched=0/min=1/max=9/desired=3/component=voice", says: "put back from the tag", component: "voice", count: 3},
		{name: "record of a component", e: frozen(), kept: &ofVoice, says: "put back from the freeze record", component: "voice", count: 3},
		{name: "tag damaged", e: frozen(), tag: "desired", code: exit.Unknown, says: "--restore-capacity", count: 1},
		{name: "nothing", e: newEndpoint(3), says: "nothing is suspended: nothing to do", count: 3},
		{name: "suspended without a record", e: frozen(), says: "active again; the count is left at 1", count: 1},
		{name: "suspended, count given", e: frozen(), desired: 3, says: "active again, and the count is set from 1 to 3", count: 3},
		{name: "count given", e: newEndpoint(1), desired: 3, says: "the count is set from 1 to 3", count: 3},
		{name: "count against the record", e: frozen(), kept: &rec, desired: 5, code: exit.Misused, says: "the count was 3", count: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.tag != "" {
				tt.e.state.Tags[freeze.TagKey] = tt.tag
			}
			did, err := Thaw(t.Context(), tt.e, tt.e, tt.kept, tt.desired)
			if exit.Code(err) != tt.code {
				t.Fatalf("exit code %d (%v), want %d", exit.Code(err), err, tt.code)
			}
			if said := fmt.Sprint(did, err); !strings.Contains(said, tt.says) {
				t.Errorf("%q does not say %q", said, tt.says)
			}
			if tt.e.state.Desired != tt.count {
				t.Errorf("count %d, want %d", tt.e.state.Desired, tt.count)
			}
			if tt.e.state.Component != tt.component {
				t.Errorf("put back %q, want %q", tt.e.state.Component, tt.component)
			}
			delete(tt.e.state.Tags, freeze.TagKey) // awsfleet takes it off
			if err == nil {
				if did, err := Thaw(t.Context(), tt.e, tt.e, nil, 0); err != nil || !strings.Contains(did, "nothing to do") {
					t.Errorf("a second time: %q, %v", did, err)
				}
			}
		})
	}
}

// bench is a closed loop under a fake clock: every request takes n times 10 ms.
type bench struct {
	start time.Time
	seq   int
	held  []int
	idled int
}

func (b *bench) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (b *bench) Hold(ctx context.Context, rung, n int, observe func(sample.Request) bool) (sample.Client, error) {
	b.held = append(b.held, n)
	for {
		began := sample.Since(time.Since(b.start))
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return sample.Client{InFlight: float64(n)}, err
		}
		r := sample.New(b.seq)
		b.seq++
		r.Rung, r.Started = rung, max(0, began-sample.Nanos(n*10_000_000))
		r.FirstAudio = sample.Since(time.Since(b.start))
		r.End, r.Outcome = r.FirstAudio, sample.OK
		if observe(r) {
			return sample.Client{InFlight: float64(n)}, nil
		}
	}
}

func (b *bench) Idle(ctx context.Context, observe func(sample.Request)) error { b.idled++; return nil }

// steps is a searcher that takes 20 samples at each of its rungs.
type steps struct {
	list     []ladder.Probe
	run      int
	rungs    []ladder.Rung
	samples  int
	evidence []ladder.Evidence
}

func (s *steps) Next() (ladder.Probe, bool) {
	if len(s.rungs) == len(s.list) {
		return ladder.Probe{}, false
	}
	p := s.list[len(s.rungs)]
	p.Index = len(s.rungs)
	return p, true
}

func (s *steps) Add(sample.Request) bool {
	s.samples++
	return s.list[len(s.rungs)].Hold == 0 && s.samples == 20
}

func (s *steps) Close(e ladder.Evidence) ladder.Rung {
	p := s.list[len(s.rungs)]
	r := ladder.Rung{Run: s.run, Index: len(s.rungs), N: p.N, Samples: s.samples, Valid: true, Verdict: ladder.Pass,
		StartedNS: int64(e.Began), EndedNS: int64(e.Ended)}
	s.samples = 0
	s.rungs, s.evidence = append(s.rungs, r), append(s.evidence, e)
	return r
}

func (s *steps) Replay(r ladder.Rung) error {
	if want := s.list[len(s.rungs)].N; r.N != want {
		return fmt.Errorf("it held %d, %d is due", r.N, want)
	}
	s.rungs = append(s.rungs, r)
	return nil
}

func (s *steps) Result() ladder.Result {
	r := ladder.Result{Verdict: ladder.None, Rungs: s.rungs}
	if n := len(s.rungs); n > 0 {
		r.Verdict, r.QMax = ladder.Certified, &s.rungs[n-1].N
	}
	return r
}

// paper is a journal that remembers what it was given.
type paper struct {
	saves    int
	rungs    []int
	requests int
}

func (p *paper) Save(doc *artifact.QMax, requests []sample.Request) error {
	p.saves++
	p.rungs = append(p.rungs, len(doc.Rungs))
	p.requests += len(requests)
	return nil
}

type quiet struct{}

func (quiet) Show(time.Time, string) {}
func (quiet) Note(string)            {}

// config is a measurement of three rungs of e under a fake clock; call it inside a bubble.
func config(e *endpoint) (Config, *bench, *steps, *paper) {
	b, j := &bench{start: time.Now()}, &paper{}
	s := &steps{list: []ladder.Probe{{N: 1}, {N: 8}, {N: 4}}}
	doc := &artifact.QMax{SLOMS: 300, Percentile: 95, SLOOn: string(sample.OnFirstAudio)}
	rec := freeze.Record(e.state)
	return Config{
		Doc: doc, Searcher: func(int) (ladder.Searcher, error) { return s, nil }, Runs: 1, Prober: b, Start: b.start,
		Journal: j, Progress: quiet{}, Freeze: &rec, Fleet: e, Records: e, Counter: e,
	}, b, s, j
}

func TestQMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(3)
		c, b, s, j := config(e)
		s.list[1].Idle = 30 * time.Second
		doc, err := QMax(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if !doc.Complete || !doc.Frozen || len(doc.Rungs) != 3 || *doc.QMax != 4 || doc.Verdict != string(ladder.Certified) {
			t.Errorf("got %+v", doc)
		}
		if !slices.Equal(b.held, []int{1, 8, 4}) || b.idled != 1 {
			t.Errorf("held %v, idled %d times", b.held, b.idled)
		}
		if !slices.Equal(j.rungs, []int{1, 2, 3, 3}) || j.requests != 60 {
			t.Errorf("saved at %v rungs, %d requests", j.rungs, j.requests)
		}
		for i, ev := range s.evidence {
			if !slices.Equal(ev.Counts, []int{1, 1}) || ev.Ended <= ev.Began {
				t.Errorf("rung %d: evidence %+v", i, ev)
			}
		}
		if !slices.Equal(doc.InstanceCounts, []int{1}) || e.state.Desired != 3 || e.record != nil {
			t.Errorf("counts %v; left at %d, record %v", doc.InstanceCounts, e.state.Desired, e.record)
		}
	})
}

// TestBound: a few refusals among many stay within the objective, but what the gate does not admit is not held.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, s, _ := config(newEndpoint(1))
		s.list = []ladder.Probe{{N: 1}, {N: 53}}
		c.Bound = 50
		doc, err := QMax(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if *doc.QMax != 50 || len(doc.Warnings) != 1 || s.list[1].N != 53 {
			t.Errorf("Q_max %d, warnings %q", *doc.QMax, doc.Warnings)
		}
	})
}

// TestCountDuring is B7: the count is read while a rung lasts, and a change is evidence against it.
func TestCountDuring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(1)
		c, _, s, _ := config(e)
		s.list = []ladder.Probe{{N: 8, Hold: 40 * time.Second}}
		e.grows = time.Now().Add(10 * time.Second)
		doc, err := QMax(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.evidence[0].Counts; !slices.Equal(got, []int{1, 1, 3, 3, 3}) {
			t.Errorf("counts %v", got)
		}
		if !slices.Equal(doc.InstanceCounts, []int{1, 3}) {
			t.Errorf("counts %v", doc.InstanceCounts)
		}
	})
}

func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(1)
		c, b, _, j := config(e)
		c.Closed = []ladder.Rung{{N: 1}, {N: 8, Index: 1}}
		doc, err := QMax(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.held, []int{4}) || len(doc.Rungs) != 3 || j.requests != 20 {
			t.Errorf("held %v, %d rungs, %d requests", b.held, len(doc.Rungs), j.requests)
		}

		c, _, _, _ = config(newEndpoint(1))
		c.Closed = []ladder.Rung{{N: 2}}
		if _, err := QMax(t.Context(), c); exit.Code(err) != exit.Misused || !strings.Contains(err.Error(), "resume") {
			t.Errorf("a rung that does not fit: %v", err)
		}
	})
}

func TestStops(t *testing.T) {
	tests := []struct {
		name  string
		set   func(c *Config, s *steps, cancel context.CancelFunc)
		code  int
		says  string
		rungs int
	}{
		{"interrupted", func(_ *Config, s *steps, cancel context.CancelFunc) {
			s.list[1].Hold = time.Hour
			time.AfterFunc(5*time.Second, cancel)
		}, exit.Unknown, "interrupted", 1},
		{"cost, adaptive", func(c *Config, s *steps, _ context.CancelFunc) {
			s.list[1].MaxHold = time.Hour
			s.list[1].Hold = 0
			c.Spend = 300 * time.Millisecond
		}, exit.Unknown, "cost limit", 1},
		{"cost, before a rung that it would cut", func(c *Config, s *steps, _ context.CancelFunc) {
			s.list[1].Hold = time.Hour
			c.Spend = time.Minute
		}, exit.Unknown, "would go beyond it", 1},
		{"alarm at the start", func(c *Config, _ *steps, _ context.CancelFunc) {
			c.Alarms = func(context.Context) ([]string, error) { return []string{"5xx"}, nil }
		}, exit.No, `before anything was changed: ["5xx"]`, 0},
		{"alarm on the way", func(c *Config, s *steps, _ context.CancelFunc) {
			s.list[1].Hold = time.Hour
			looks := 0
			c.Alarms = func(context.Context) ([]string, error) {
				if looks++; looks > 3 {
					return []string{"5xx"}, nil
				}
				return nil, nil
			}
		}, exit.No, `firing: ["5xx"]`, 1},
		{"alarms out of sight", func(c *Config, s *steps, _ context.CancelFunc) {
			s.list[1].Hold = time.Hour
			looks := 0
			c.Alarms = func(context.Context) ([]string, error) {
				if looks++; looks > 1 {
					return nil, errors.New("access denied")
				}
				return nil, nil
			}
		}, exit.Unknown, "cannot be read any more", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				e := newEndpoint(3)
				c, _, s, j := config(e)
				tt.set(&c, s, cancel)
				doc, err := QMax(ctx, c)
				if exit.Code(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.says) {
					t.Errorf("exit code %d, %v; want %d, %q", exit.Code(err), err, tt.code, tt.says)
				}
				if doc.Complete || len(doc.Rungs) != tt.rungs {
					t.Errorf("complete: %t, %d rungs, want %d", doc.Complete, len(doc.Rungs), tt.rungs)
				}
				if e.state.Desired != 3 || e.state.Target.Suspended != (freeze.Flags{}) || e.record != nil {
					t.Errorf("not put back: %+v, record %v", e.state, e.record)
				}
				if kept := j.saves > 0; kept != (tt.rungs > 0) {
					t.Errorf("kept: %t, of %d rungs", kept, tt.rungs)
				}
			})
		})
	}
}

// late publishes CloudWatch's view of eight held requests some time after the fact.
type late struct {
	start time.Time
	after time.Duration
	reads int
}

func (l *late) Read(_ context.Context, metrics []Metric, from, to time.Time) (map[Metric][]Point, error) {
	l.reads++
	out := map[Metric][]Point{}
	for _, m := range metrics {
		for p := from.Truncate(m.Period); p.Before(to); p = p.Add(m.Period) {
			if m.Name == "ConcurrentRequestsPerModel" && time.Since(p.Add(m.Period)) >= l.after {
				out[m] = append(out[m], Point{At: p, Value: 8})
			}
		}
	}
	return out, nil
}

func TestAwaitCloudWatch(t *testing.T) {
	tests := []struct {
		after  time.Duration
		joined bool
		warns  string
	}{
		{30 * time.Second, true, ""},
		{time.Hour, false, "had not published"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			e := newEndpoint(1)
			c, _, s, _ := config(e)
			s.list = []ladder.Probe{{N: 8, Hold: 40 * time.Second}}
			c.Metrics = &late{after: tt.after}
			doc, err := QMax(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if got := doc.Rungs[0].CW; (got != nil) != tt.joined || got != nil && (!got.Squared || *got.Ratio != 1) {
				t.Errorf("published after %s: joined %+v", tt.after, got)
			}
			if got := strings.Join(doc.Warnings, "\n"); !strings.Contains(got, tt.warns) || tt.warns == "" && got != "" {
				t.Errorf("published after %s: warns %q, want %q", tt.after, got, tt.warns)
			}
		})
	}
}

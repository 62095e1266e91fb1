package measure

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/arrival"
	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/openloop"
	"loadline/internal/proof"
	"loadline/internal/queueing"
	"loadline/internal/sample"
)

// provenFleet is instances of 20 a second and a queue bound, with a policy that adds what the load needs, some time after it sees
// it. Requests are served on paper when they are sent: the clock only has to pass.
type provenFleet struct {
	*endpoint
	start    time.Time
	bound    int
	sees     time.Duration // from the release to the decision; 0: never
	takes    time.Duration // from there to service
	dead     bool          // it completes nothing
	released atomic.Int64  // on the clock; 0: not yet
	runaway  bool
}

func (f *provenFleet) Run(ctx context.Context) error                    { <-ctx.Done(); return nil }
func (f *provenFleet) Idle(context.Context, func(sample.Request)) error { return nil }
func (f *provenFleet) Settle(context.Context, int) error                { return nil }
func (f *provenFleet) Show(time.Time, string)                           {}
func (f *provenFleet) Note(string)                                      {}
func (f *provenFleet) Count(context.Context) (string, int, int, error) {
	return f.state.Status, f.state.Desired, f.state.Current, nil
}

func (f *provenFleet) Release(context.Context) error {
	f.released.Store(time.Now().UnixNano())
	return nil
}

// acts says whether the policy was let go so long ago.
func (f *provenFleet) acts(after time.Duration, now time.Time) bool {
	at := f.released.Load()
	return f.sees > 0 && at != 0 && now.Sub(time.Unix(0, at)) >= after
}

func (f *provenFleet) Scale(_ context.Context, n int) (time.Time, error) {
	f.state.Desired, f.state.Current = n, n
	return time.Now(), nil
}

func (f *provenFleet) Fired(context.Context, time.Time) (alarm, decision time.Time, err error) {
	at := time.Unix(0, f.released.Load())
	return at, at.Add(f.sees), nil
}

func (f *provenFleet) Look(context.Context) (Look, error) {
	l := Look{Status: freeze.InService, Desired: f.state.Desired, Current: f.state.Current}
	if f.acts(f.sees, time.Now()) {
		if l.Desired++; f.runaway {
			l.Desired = 40
		}
	}
	return l, nil
}

// Hold is n in flight at one instance, in turns of its queue: what is beyond the bound is refused at once.
func (f *provenFleet) Hold(ctx context.Context, rung, n int, observe func(sample.Request) bool) (sample.Client, error) {
	for i := 0; ; i++ {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return sample.Client{InFlight: float64(n)}, err
		}
		r := sample.New(i)
		r.Rung, r.End = rung, sample.Since(time.Since(f.start))
		r.Started, r.FirstAudio, r.Outcome = r.End-sample.Since(time.Duration(min(n, f.bound))*50*time.Millisecond), r.End, sample.OK
		if f.dead {
			r.Outcome = sample.Timeout
		}
		observe(r)
		if n > f.bound {
			r.Started, r.FirstAudio, r.Outcome = r.End-sample.Since(5*time.Millisecond), sample.None, sample.Rejected
			observe(r)
		}
	}
}

// open serves arrivals: each instance is one server, the one that is free first is asked, and the growth of a release counts
// from when it is in service.
func (f *provenFleet) open(ctx context.Context, rung, seq int, at []time.Duration, observe func(sample.Request)) (openloop.Sent, error) {
	const service = 50 * time.Millisecond
	origin := time.Now()
	free := make([]time.Time, f.state.Current, 64)
	for i := range free {
		free[i] = origin
	}
	grown := false
	for i, due := range at {
		now := origin.Add(due)
		if err := pause(ctx, time.Until(now)); err != nil {
			return openloop.Sent{}, err
		}
		if !grown && f.acts(f.sees+f.takes, now) {
			free, grown = append(free, now), true
		}
		best := 0
		for k := range free {
			if free[k].Before(free[best]) {
				best = k
			}
		}
		r := sample.New(seq + i)
		r.Rung, r.Intended = rung, sample.Since(now.Sub(f.start))
		r.Started, r.End, r.Outcome = r.Intended, r.Intended, sample.Rejected
		if wait := free[best].Sub(now); wait < time.Duration(f.bound)*service {
			free[best] = now.Add(max(0, wait) + service)
			r.End = sample.Since(free[best].Sub(f.start))
			r.FirstAudio, r.Outcome = r.End, sample.OK
		}
		if f.dead {
			r.FirstAudio, r.Outcome = sample.None, sample.Timeout
		}
		observe(r)
	}
	return openloop.Sent{Origin: sample.Since(origin.Sub(f.start)), Planned: len(at)}, pause(ctx, time.Second)
}

// proving is a proof of a plan that gives an instance this rate.
func (f *provenFleet) proving(t *testing.T, rate float64) Proving {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	step, err := openloop.NewStep(0, rate/20, openloop.Server{Chain: queueing.Chain{Mu: []float64{20}, Stages: 32}, Most: 20}, time.Minute, rng)
	if err != nil {
		t.Fatal(err)
	}
	const begins, lasts = time.Minute, 8 * time.Minute
	base := 2 * rate
	surge := arrival.Profile{{At: 0, Rate: 0.8 * base}, {At: begins, Rate: 0.8 * base}, {At: begins, Rate: 1.25 * base}, {At: begins + lasts, Rate: 1.25 * base}}
	return Proving{
		Doc: &artifact.Proof{SLOMS: 3000, Percentile: 95, SLOOn: string(sample.OnFirstAudio), SurgeRatio: 1.25,
			Checks: []proof.Check{{Name: proof.Deployed, Verdict: capacity.OK}}},
		Step: &step, Queue: &QueueLoad{Below: 45, Above: 62, Bound: 50, Hold: 10 * time.Second, Prompt: 300 * time.Millisecond},
		Surge: &SurgeLoad{Instances: 2, Most: 9, At: surge.Poisson(rng), Begins: begins, Lasts: lasts, Align: time.Minute, Within: 4*time.Minute + 30*time.Second, Epsilon: 0.01},
		Open:  f.open, Prober: f, Start: f.start, Idle: time.Second, Poll: 10 * time.Second, Progress: f,
		Freeze: freeze.Record(f.state), Fleet: f, Records: f, Counter: f, Scaler: f, Policy: f,
	}
}

func TestProve(t *testing.T) {
	whole := func(v capacity.Verdict) string { return strings.Repeat(string(v)+" ", 7) }
	for _, tt := range []struct {
		name string
		rate float64
		set  func(*provenFleet, *Proving)
		want string // verdicts
		code int
		says string
	}{
		{"flow: it holds", 14, nil, whole(capacity.OK), exit.OK, "from 2 to 3 instances"},
		{"slots: more than an instance completes", 26, nil, "ok stop ok ok not_checked not_checked not_checked ", exit.OK, "refused"},
		{"a policy that sees five times as late", 14, func(f *provenFleet, c *Proving) { f.sees = 7 * time.Minute }, "ok ok ok ok stop ok ok ", exit.OK, "after 420 s"},
		{"a policy that sees nothing", 14, func(f *provenFleet, c *Proving) { f.sees = 0 }, "ok ok ok ok stop ok ok ", exit.OK, "do not see this load"},
		{"no more than one instance, and a surge beyond it", 17.5, func(f *provenFleet, c *Proving) { f.sees = 0 }, "ok ok ok ok stop stop stop ", exit.OK, "late or not served"},
		{"an unbounded queue", 14, func(f *provenFleet, c *Proving) { f.bound = 1000 }, "ok ok ok stop not_checked not_checked not_checked ", exit.OK, "not bounded as planned"},
		{"nothing is completed", 14, func(f *provenFleet, c *Proving) { f.dead = true }, "ok stop stop stop not_checked not_checked not_checked ", exit.OK, "no request of"},
		{"a part", 14, func(f *provenFleet, c *Proving) { c.Step, c.Surge = nil, nil }, "ok not_checked ok ok not_checked not_checked not_checked ", exit.OK, "not asked for"},
		{"more than is allowed", 14, func(f *provenFleet, c *Proving) { f.runaway = true }, "ok ok ok ok ", exit.No, "asked for 40"},
		{"money", 14, func(f *provenFleet, c *Proving) { c.Price, c.MaxCost = 3600, 200 }, "ok ok ok ok ", exit.Unknown, "cost limit"},
		{"alarm", 14, func(f *provenFleet, c *Proving) { c.Alarms = firesAfter(2 * time.Minute) }, "ok ok ok ok ", exit.No, "alarm"},
		{"alarm before", 14, func(f *provenFleet, c *Proving) { c.Alarms = firesAfter(0) }, "ok ", exit.No, "before anything was changed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &provenFleet{endpoint: newEndpoint(5), start: time.Now(), bound: 50, sees: 210 * time.Second, takes: 2 * time.Minute}
				c := f.proving(t, tt.rate)
				if tt.set != nil {
					tt.set(f, &c)
				}
				doc, err := Prove(t.Context(), c)
				got, said := "", ""
				for _, check := range doc.Checks {
					got += string(check.Verdict) + " "
					said += check.Detail + "\n"
				}
				if err != nil {
					said += err.Error()
				}
				if got != tt.want || exit.Code(err) != tt.code || !strings.Contains(said, tt.says) {
					t.Errorf("%s, exit %d: want %s, %d, %q\n%s", got, exit.Code(err), tt.want, tt.code, tt.says, said)
				}
				if doc.Complete != (err == nil) || doc.Verdict != proof.Together(doc.Checks) {
					t.Errorf("complete %v, verdict %s", doc.Complete, doc.Verdict)
				}
				if f.state.Desired != 5 || f.state.Target.Suspended != (freeze.Flags{}) || f.record != nil {
					t.Errorf("left at %d instances, %s", f.state.Desired, f.state.Target.Suspended)
				}
			})
		})
	}
}

// An interrupt in the middle of the surge puts the fleet back.
func TestProveInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &provenFleet{endpoint: newEndpoint(5), start: time.Now(), bound: 50, sees: 210 * time.Second, takes: 2 * time.Minute}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop := time.AfterFunc(6*time.Minute, cancel)
		defer stop.Stop()
		doc, err := Prove(ctx, f.proving(t, 14))
		if !errors.Is(err, context.Canceled) || exit.Code(err) != exit.Unknown || doc.Complete || len(doc.Checks) != 4 {
			t.Errorf("%v, complete %v, %d checks", err, doc.Complete, len(doc.Checks))
		}
		if f.state.Desired != 5 || f.record != nil {
			t.Errorf("left at %d instances", f.state.Desired)
		}
	})
}

package measure

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/openloop"
	"loadline/internal/queueing"
	"loadline/internal/sample"
)

// ratesConfig is two steps against a serial server of 20 a second that obeys the schedule.
func ratesConfig(t *testing.T, e *endpoint) (c RatesConfig, saved *int) {
	t.Helper()
	saved = new(int)
	c = RatesConfig{
		Doc:      &artifact.Rates{SLOMS: 3000, Percentile: 95, SLOOn: string(sample.OnFirstAudio)},
		Idle:     time.Second,
		Start:    time.Now(),
		Progress: quiet{},
		Save:     func(_ *artifact.Rates, requests []sample.Request) error { *saved += len(requests); return nil },
		Freeze:   &artifact.Freeze{RunID: "X", Desired: 3}, Fleet: e, Records: e, Counter: e,
	}
	server := openloop.Server{Chain: queueing.Chain{Mu: []float64{20}, Stages: 32}, Most: 20}
	for i, share := range []float64{0.5, 0.8} {
		p, err := openloop.NewStep(i, share, server, time.Minute, rand.New(rand.NewPCG(1, uint64(i))))
		if err != nil {
			t.Fatal(err)
		}
		c.Steps = append(c.Steps, p)
	}
	c.Open = func(ctx context.Context, rung, seq int, at []time.Duration, observe func(sample.Request)) (openloop.Sent, error) {
		origin := sample.Since(time.Since(c.Start))
		free := sample.Nanos(0)
		for i, due := range at {
			r := sample.New(seq + i)
			r.Rung, r.Outcome = rung, sample.OK
			r.Intended = origin + sample.Since(due)
			r.Started = r.Intended
			free = max(free, r.Started) + sample.Since(50*time.Millisecond)
			r.End = free
			r.FirstAudio = r.End - 1
			observe(r)
		}
		if err := pause(ctx, at[len(at)-1]+time.Second); err != nil {
			return openloop.Sent{}, err
		}
		return openloop.Sent{Origin: origin, Planned: len(at)}, nil
	}
	return c, saved
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(3)
		c, saved := ratesConfig(t, e)
		doc, err := Rates(t.Context(), c)
		if err != nil || !doc.Complete || !doc.Frozen || len(doc.Rungs) != 2 || *saved != len(c.Steps[0].At)+len(c.Steps[1].At) {
			t.Fatalf("%v; complete %v, frozen %v, %d rungs, %d requests", err, doc.Complete, doc.Frozen, len(doc.Rungs), *saved)
		}
		for i, share := range []float64{0.5, 0.8} {
			r := doc.Rungs[i]
			if !r.Valid || r.Verdict != "pass" || math.Abs(*r.Adjusted-*r.Fixed) > 0.05**r.Fixed || r.Share != share {
				t.Errorf("at %g: %s %s, adjusted %.3f, M/D/1 %.3f", share, r.Verdict, r.Cause, *r.Adjusted, *r.Fixed)
			}
		}
	})
}

// Whatever ends the run early, the endpoint is put back and what was measured is kept.
func TestRatesStops(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*RatesConfig)
		err    error
	}{
		"interrupted":  {nil, context.Canceled},
		"spent":        {func(c *RatesConfig) { c.Spend = 80 * time.Second }, ErrSpent},
		"alarm":        {func(c *RatesConfig) { c.Alarms = firesAfter(80 * time.Second) }, ErrAlarm},
		"alarm before": {func(c *RatesConfig) { c.Alarms = firesAfter(0) }, ErrAlarm},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEndpoint(3)
				cfg, _ := ratesConfig(t, e)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.change != nil {
					c.change(&cfg)
				} else {
					stop := time.AfterFunc(80*time.Second, cancel)
					defer stop.Stop()
				}
				doc, err := Rates(ctx, cfg)
				want := 1
				if name == "alarm before" {
					want = 0
				}
				if !errors.Is(err, c.err) || doc.Complete || len(doc.Rungs) != want {
					t.Errorf("%v, complete %v, %d rungs", err, doc.Complete, len(doc.Rungs))
				}
				if e.state.Desired != 3 {
					t.Errorf("left at %d instances", e.state.Desired)
				}
			})
		})
	}
}

// firesAfter is an alarm that fires some time from the first look on.
func firesAfter(d time.Duration) func(context.Context) ([]string, error) {
	var first time.Time
	return func(context.Context) ([]string, error) {
		if first.IsZero() {
			first = time.Now()
		}
		if time.Since(first) >= d {
			return []string{"slo"}, nil
		}
		return nil, nil
	}
}

// The ratio of an open-loop rung is of the mean of the maxima; a server that saw other traffic is flagged.
func TestJoinRate(t *testing.T) {
	const ten = 10 * time.Second
	r := openloop.Rung{Mean: 2}
	s := span{at(10), at(40)}
	got := joinRate(r, s, map[Metric][]Point{
		concurrencyMax: points(0, ten, 99, 4, 6, 8, 99), concurrencyMean: points(0, ten, 9, 2, 2.5, 2, 9),
	})
	if got == nil || *got.Ratio != 3 || *got.ConcurrencyMax != 8 || !got.Squared || got.Periods != 3 {
		t.Fatalf("%+v", got)
	}
	if got = joinRate(r, s, map[Metric][]Point{concurrencyMax: points(0, ten, 9, 9, 9, 9), concurrencyMean: points(0, ten, 9, 9, 9, 9)}); got.Squared {
		t.Errorf("9 on average squares with 2: %+v", got)
	}
	if got = joinRate(r, s, nil); got != nil {
		t.Errorf("nothing published: %+v", got)
	}
}

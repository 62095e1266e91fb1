package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/arrival"
	"loadline/internal/sample"
)

func poisson(t *testing.T, rate float64, d time.Duration) (arrival.Profile, []time.Duration) {
	p, err := arrival.Constant(rate, d)
	if err != nil {
		t.Fatal(err)
	}
	return p, p.Poisson(rand.New(rand.NewPCG(3, 0)))
}

func TestOpenSendsByTheScheduleAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, at := poisson(t, 50, 20*time.Second)
		f := &fake{serve: func(seq int) (time.Duration, sample.Outcome) { return time.Duration(seq%7) * time.Second, sample.OK }}
		var got []sample.Request
		sent, err := Open(t.Context(), config(f), 3, at, func(r sample.Request) { got = append(got, r) })
		if err != nil || sent.Invalid != "" || sent.Started != len(at) || sent.Planned != len(at) || sent.Dropped != 0 {
			t.Fatalf("%+v, %v", sent, err)
		}
		checkWhole(t, got, len(at))
		starts := make([]time.Duration, len(at))
		for _, r := range got {
			starts[r.Seq] = (r.Started - sent.Origin).Duration()
			if r.Rung != 3 || r.Worker != -1 {
				t.Fatalf("%+v", r)
			}
		}
		if !slices.Equal(starts, at) {
			t.Error("requests were not started at their times")
		}
		if fit := p.Fit(starts); fit.P < 0.01 {
			t.Errorf("starts do not follow the law: %v", fit)
		}
		if sent.Peak < 120 || sent.Peak > 200 { // 50 a second for 3 s each
			t.Errorf("%d at most in flight", sent.Peak)
		}
	})
}

// A limit on concurrency hides the wait in front of it from whoever counts from the send. Here it is latency.
func TestConcurrencyCapShowsAsLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, service = 8, 500 * time.Millisecond
		_, at := poisson(t, 20, 60*time.Second) // 16 a second is all that the slots let through
		var got []sample.Request
		sent, err := Open(t.Context(), config(&fake{serve: steady(service), slots: make(chan struct{}, slots)}), 0, at,
			func(r sample.Request) { got = append(got, r) })
		if err != nil {
			t.Fatal(err)
		}
		// The dumb version: each arrival takes the slot that is free first.
		free := make([]time.Duration, slots)
		var want []float64
		for _, a := range at {
			i := slices.Index(free, slices.Min(free))
			free[i] = max(free[i], a) + service
			if took := free[i] - a; took <= 10*time.Second { // the deadline
				want = append(want, took.Seconds())
			}
		}
		var lat, held []float64
		for _, r := range got {
			if r.Outcome == sample.OK {
				lat = append(lat, r.Latency(sample.OnTotal, sample.FromIntended))
				held = append(held, (r.End - r.Conn).Duration().Seconds())
			}
		}
		slices.Sort(lat)
		slices.Sort(want)
		if a, b := lat[len(lat)*99/100], want[len(want)*99/100]; a < 0.95*b || a > 1.05*b || b < 4*service.Seconds() {
			t.Errorf("p99 from the intended start %g s, a queue of its own says %g s", a, b)
		}
		if slices.Max(held) > 0.51 {
			t.Errorf("the server took %g s", slices.Max(held))
		}
		if sent.Client.ConnWaitP99 < 2 || sent.Client.InFlight > slots+0.1 {
			t.Errorf("client: %+v", sent.Client)
		}
	})
}

func TestCapIsInvalidNotSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, at := poisson(t, 100, 10*time.Second)
		cfg := config(&fake{serve: steady(time.Second)})
		cfg.MaxStreams = 60
		var got []sample.Request
		sent, err := Open(t.Context(), cfg, 0, at, func(r sample.Request) { got = append(got, r) })
		if err != nil {
			t.Fatal(err)
		}
		if sent.Dropped == 0 || sent.Dropped+sent.Started != len(at) || sent.Started != len(got) || sent.Peak != 60 {
			t.Errorf("%+v of %d", sent, len(at))
		}
		if !strings.Contains(sent.Invalid, "arrivals were not sent") {
			t.Errorf("invalid: %q", sent.Invalid)
		}
		for _, r := range got {
			if r.Started != r.Intended {
				t.Fatalf("request %d was sent %v late", r.Seq, r.Started-r.Intended)
			}
		}
	})
}

func TestOpenEndsWhateverTheTransportDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{serve: steady(time.Second), deaf: func(seq int) bool { return seq%10 == 0 }, unhear: make(chan struct{})}
		cfg := config(f)
		cfg.Deadline, cfg.Grace = 2*time.Second, time.Second
		_, at := poisson(t, 10, 10*time.Second)
		var got []sample.Request
		sent, err := Open(t.Context(), cfg, 0, at, func(r sample.Request) { got = append(got, r) })
		if err == nil || !strings.Contains(err.Error(), "kept") {
			t.Errorf("the transport kept requests and the run says %v", err)
		}
		checkWhole(t, got, len(at))
		if len(sent.Client.Faults) != 1 {
			t.Errorf("faults: %v", sent.Client.Faults)
		}
		close(f.unhear)
	})
}

func TestOpenStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, at := poisson(t, 10, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		n := 0
		sent, err := Open(ctx, config(&fake{serve: steady(time.Second)}), 0, at, func(sample.Request) { n++ })
		if !errors.Is(err, context.DeadlineExceeded) || sent.Started < 20 || n >= sent.Started {
			t.Errorf("%d of %+v observed, %v", n, sent, err)
		}
	})
}

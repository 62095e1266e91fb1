package load

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/corpus"
	"loadline/internal/sample"
)

// fake answers after a time of its own, in the fake clock of a bubble.
type fake struct {
	serve  func(seq int) (time.Duration, sample.Outcome)
	slots  chan struct{}      // connections; nil: one for each request
	deaf   func(seq int) bool // this request ignores its context
	unhear chan struct{}      // until this closes

	mu       sync.Mutex
	now, max int
	sent     int
}

// counts is how many requests it has, had at most at once, and had in all.
func (f *fake) counts() (now, most, sent int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, f.max, f.sent
}

func (f *fake) Policy() string { return "fake" }
func (f *fake) Close() error   { return nil }

func (f *fake) Do(ctx context.Context, c Call, rec *sample.Request) {
	if f.slots != nil {
		f.slots <- struct{}{}
		defer func() { <-f.slots }()
	}
	f.mu.Lock()
	f.now++
	f.max = max(f.max, f.now)
	f.sent++
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.now--; f.mu.Unlock() }()

	rec.Conn, rec.Reused = c.Clock(), true
	if f.deaf != nil && f.deaf(rec.Seq) {
		<-f.unhear
	}
	d, outcome := f.serve(rec.Seq)
	if sleep(ctx, d) {
		rec.FirstAudio, rec.Outcome = c.Clock(), outcome
	} else {
		rec.Outcome, rec.Cause = sample.Timeout, "deadline"
	}
	rec.End = c.Clock()
}

func steady(d time.Duration) func(int) (time.Duration, sample.Outcome) {
	return func(int) (time.Duration, sample.Outcome) { return d, sample.OK }
}

func pipe() (net.Conn, net.Conn, error) { a, b := net.Pipe(); return a, b, nil }

func config(t Transport) Config {
	return Config{Transport: t, Deadline: 10 * time.Second, Echo: pipe, Seed: 1,
		Texts: func(seq int) corpus.Text {
			return corpus.Text{ID: sample.TextID{Corpus: "test", Index: seq}, Chars: 25}
		}}
}

// running starts the loop; stop ends it and is its error.
func running(t *testing.T, cfg Config) (c *Closed, stop func() error) {
	c = NewClosed(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return c, func() error { cancel(); return <-ended }
}

// until says done at the n-th request and keeps them all.
func until(n int, got *[]sample.Request) func(sample.Request) bool {
	seen := 0
	return func(r sample.Request) bool {
		*got = append(*got, r)
		seen++
		return seen == n
	}
}

func TestHoldKeepsNInFlightAndChangesByTheDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{serve: steady(100 * time.Millisecond)}
		c, stop := running(t, config(f))
		var got []sample.Request
		for rung, n := range []int{4, 8, 2} {
			client, err := c.Hold(t.Context(), rung, n, until(200, &got))
			if err != nil {
				t.Fatal(err)
			}
			// Joining and leaving take a service time at most; the rest of the rung holds n exactly.
			if want := float64(n); math.Abs(client.InFlight-want) > 0.06*8 {
				t.Errorf("rung %d: %.2f in flight, want %g", rung, client.InFlight, want)
			}
			if client.LatenessP99 > 0 || client.Reused != 1 || client.BackingOff != 0 {
				t.Errorf("rung %d: %+v", rung, client)
			}
			if rung == 1 { // 4 joined, the first at once, each after another quarter of a service time
				var joined []time.Time
				for _, r := range got[200:] {
					if r.Worker >= 4 && r.Rung == 1 && len(joined) < 4 {
						joined = append(joined, c.Start.Add(r.Started.Duration()))
					}
				}
				for i := 1; i < 4; i++ {
					if gap := joined[i].Sub(joined[i-1]); gap < 20*time.Millisecond || gap > 30*time.Millisecond {
						t.Errorf("worker %d joined %v after the one before", 4+i, gap)
					}
				}
			}
		}
		if err := c.Idle(t.Context(), func(r sample.Request) { got = append(got, r) }); err != nil {
			t.Fatal(err)
		}
		now, most, sent := f.counts()
		if now != 0 || most != 8 {
			t.Errorf("idle with %d in flight, %d before; want 0 and 8", now, most)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		got = append(got, c.Rest()...)
		checkWhole(t, got, sent)
		byEnd := func(a, b sample.Request) int { return int(a.End - b.End) }
		if !slices.IsSortedFunc(got, byEnd) {
			t.Error("not in order of completion")
		}
		for _, r := range got {
			if r.Text.Index != r.Seq || r.Chars != 25 {
				t.Fatalf("request %d spoke text %+v", r.Seq, r.Text)
			}
		}
	})
}

// checkWhole: every request that was sent is there once.
func checkWhole(t *testing.T, got []sample.Request, sent int) {
	t.Helper()
	seen := make([]bool, sent)
	for _, r := range got {
		if seen[r.Seq] {
			t.Fatalf("request %d handed over twice", r.Seq)
		}
		seen[r.Seq] = true
	}
	if i := slices.Index(seen, false); i >= 0 || len(got) != sent {
		t.Errorf("%d of %d requests handed over; first missing: %d", len(got), sent, i)
	}
}

// A gate that turns requests away at once is not hammered, and the pauses are neither lateness nor load.
func TestRefusedWorkersBackOff(t *testing.T) {
	for _, c := range []struct {
		outcome sample.Outcome
		after   time.Duration
		most    int // requests of 10 workers in 30 s
		least   int
	}{
		{sample.Rejected, 0, 10 * 60, 10 * 20},
		{sample.Throttled, 300 * time.Millisecond, 10 * 60, 10 * 15},
		{sample.ServerError, time.Millisecond, 10 * 60, 10 * 20},
		{sample.ServerError, 200 * time.Millisecond, 10*150 + 10, 10*150 - 10}, // slow failures pace themselves
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{serve: func(int) (time.Duration, sample.Outcome) { return c.after, c.outcome }}
			l, stop := running(t, config(f))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			client, err := l.Hold(ctx, 0, 10, func(sample.Request) bool { return false })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if _, _, n := f.counts(); n > c.most || n < c.least {
				t.Errorf("%s after %v: %d requests, want %d to %d", c.outcome, c.after, n, c.least, c.most)
			}
			if client.LatenessP99 != 0 {
				t.Errorf("%s: lateness %g s", c.outcome, client.LatenessP99)
			}
			if sum := client.InFlight + client.BackingOff; math.Abs(sum-10) > 0.1 {
				t.Errorf("%s after %v: %.2f in flight and %.2f backing off, want 10 together", c.outcome, c.after, client.InFlight, client.BackingOff)
			}
			stop()
		})
	}
}

func TestSuccessEndsTheBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{serve: func(seq int) (time.Duration, sample.Outcome) {
			if seq%2 == 0 {
				return 0, sample.Rejected
			}
			return 50 * time.Millisecond, sample.OK
		}}
		c, stop := running(t, config(f))
		var got []sample.Request
		c.Hold(t.Context(), 0, 1, until(1000, &got))
		if took := got[999].End.Duration(); took > 40*time.Second {
			t.Errorf("500 refusals between 500 successes took %v: the pause grew", took)
		}
		stop()
	})
}

// A transport that ignores its context hangs neither the rung nor the run.
func TestDeafTransportIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{serve: steady(100 * time.Millisecond), deaf: func(seq int) bool { return seq == 5 }, unhear: make(chan struct{})}
		cfg := config(f)
		cfg.Deadline, cfg.Grace = time.Second, 2*time.Second
		c, stop := running(t, cfg)
		var got []sample.Request
		client, err := c.Hold(t.Context(), 0, 4, until(400, &got))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(got, func(r sample.Request) bool { return r.Seq == 5 })
		if i < 0 || got[i].Outcome != sample.ClientFault || !strings.Contains(got[i].Cause, "2s after the deadline") {
			t.Fatalf("request 5: %+v", got[max(i, 0)])
		}
		if after := (got[i].End - got[i].Started).Duration(); after < 3*time.Second || after > 4*time.Second {
			t.Errorf("given up after %v, want 3 to 3.5 s", after)
		}
		if client.Faults[got[i].Cause] != 1 {
			t.Errorf("faults: %v", client.Faults)
		}
		c.Hold(t.Context(), 1, 4, until(400, &got))
		workers := map[int]bool{}
		for _, r := range got[len(got)-100:] {
			workers[r.Worker] = true
		}
		if len(workers) != 4 {
			t.Errorf("workers after it: %v, want 4", workers)
		}
		if err := stop(); err == nil || !strings.Contains(err.Error(), "kept 1 requests") {
			t.Errorf("the run says %v", err)
		}
		close(f.unhear) // the lost goroutine ends, without a word
		synctest.Wait()
		if rest := c.Rest(); slices.ContainsFunc(rest, func(r sample.Request) bool { return r.Seq == 5 }) {
			t.Error("request 5 is handed over twice")
		}
	})
}

func TestSlowRequestsEndAtTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := running(t, config(&fake{serve: steady(time.Hour)}))
		var got []sample.Request
		c.Hold(t.Context(), 0, 3, until(6, &got))
		for _, r := range got {
			if took := (r.End - r.Started).Duration(); r.Outcome != sample.Timeout || took != 10*time.Second {
				t.Errorf("%s after %v", r.Outcome, took)
			}
		}
		if err := stop(); err != nil { // what is in flight is cut, and is no sample
			t.Error(err)
		}
		if rest := c.Rest(); len(rest) > 0 {
			t.Errorf("cut requests were handed over: %v", rest)
		}
	})
}

// What completes while nobody observes is handed over by the next call, as of the rung that it was sent in.
func TestNothingIsLostBetweenHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{serve: steady(100 * time.Millisecond)}
		c, stop := running(t, config(f))
		var got []sample.Request
		c.Hold(t.Context(), 0, 2, until(10, &got))
		sleep(t.Context(), 1001*time.Millisecond)
		client, _ := c.Hold(t.Context(), 1, 2, until(40, &got))
		if got[15].Rung != 0 || got[len(got)-1].Rung != 1 {
			t.Errorf("rungs %d and %d, want 0 and 1", got[15].Rung, got[len(got)-1].Rung)
		}
		if math.Abs(client.InFlight-2) > 0.05 {
			t.Errorf("%.2f in flight, want 2", client.InFlight)
		}
		c.Idle(t.Context(), func(r sample.Request) { got = append(got, r) })
		stop()
		_, _, sent := f.counts()
		checkWhole(t, got, sent)
	})
}

// A caller that is kept from running finds all that completed meanwhile, even past the end of its time.
func TestSlowObserverLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := running(t, config(&fake{serve: steady(100 * time.Millisecond)}))
		ctx, cancel := context.WithTimeout(t.Context(), 1050*time.Millisecond)
		defer cancel()
		n := 0
		_, err := c.Hold(ctx, 0, 1, func(sample.Request) bool {
			if n++; n == 1 {
				sleep(t.Context(), time.Second)
			}
			return false
		})
		if n < 10 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d of 10 observed, %v", n, err)
		}
		stop()
	})
}

// Requests that wait for a connection are not in flight at the server: the count says so (and so does the wait).
func TestConnectionCapShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := running(t, config(&fake{serve: steady(100 * time.Millisecond), slots: make(chan struct{}, 10)}))
		var got []sample.Request
		client, _ := c.Hold(t.Context(), 0, 50, until(2000, &got))
		if math.Abs(client.InFlight-10) > 0.5 || client.ConnWaitP99 < 0.3 {
			t.Errorf("%.2f in flight, connection wait p99 %g s; want 10 and 0.4", client.InFlight, client.ConnWaitP99)
		}
		stop()
	})
}

func TestMisuseIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := config(&fake{serve: steady(time.Second)})
		for say, change := range map[string]func(*Config){
			"no transport": func(c *Config) { c.Transport = nil },
			"no texts":     func(c *Config) { c.Texts = nil },
			"deadline":     func(c *Config) { c.Deadline = 0 },
			"canary": func(c *Config) {
				c.Echo = func() (net.Conn, net.Conn, error) { return nil, nil, errors.New("no sockets") }
			},
		} {
			cfg := ok
			change(&cfg)
			c, stop := running(t, cfg)
			_, held := c.Hold(t.Context(), 0, 1, nil)
			for _, err := range []error{held, stop(), c.Idle(t.Context(), nil), second(Open(t.Context(), cfg, 0, nil, nil))} {
				if err == nil || !strings.Contains(err.Error(), say) {
					t.Errorf("%s: %v", say, err)
				}
			}
		}
		c, stop := running(t, ok)
		for _, n := range []int{0, -1, 100_001} {
			if _, err := c.Hold(t.Context(), 0, n, nil); err == nil {
				t.Errorf("held %d", n)
			}
		}
		stop()
		if _, err := c.Hold(t.Context(), 0, 1, nil); err == nil || !strings.Contains(err.Error(), "ended") {
			t.Errorf("hold after the end: %v", err)
		}
		if err := c.Run(t.Context()); err == nil {
			t.Error("ran twice")
		}
		if _, err := Open(t.Context(), ok, 0, []time.Duration{2, 1}, nil); err == nil {
			t.Error("took a schedule that runs backwards")
		}
	})
}

func second[T any](_ T, err error) error { return err }

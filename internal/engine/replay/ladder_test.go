package replay

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/corpus"
	"loadline/internal/serve"
)

// rung is what a closed loop of n callers saw.
type rung struct {
	x             float64 // completions a second
	p50, p95, p99 float64 // of the first sound, ms
	mean          float64
}

// heard is a response writer that notes when the first sound came, and drops it.
type heard struct {
	header http.Header
	status int
	first  time.Time
}

func (h *heard) Header() http.Header { return h.header }

func (h *heard) WriteHeader(status int) { h.status = status }

func (h *heard) Write(b []byte) (int, error) {
	if h.first.IsZero() && len(b) > 44 {
		h.first = time.Now()
	}
	return len(b), nil
}

func (h *heard) Flush() {}

// climb holds n requests for warm, and then for window, against a server of its own, on the bubble's clock.
func climb(t *testing.T, p Profile, n int, window time.Duration) rung {
	e, err := New(p, uint64(n))
	if err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(serve.Config{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-s.Ready()
	clips, _ := corpus.Named(corpus.Clips)
	clips.Shuffle(1)
	var seq atomic.Int64
	var mu sync.Mutex
	var ms []float64
	start := time.Now().Add(time.Duration(4*n) * p.Mean(25))
	end := start.Add(window)
	for range n {
		wg.Go(func() {
			for time.Now().Before(end) {
				began := time.Now()
				first := serveOne(t, s, clips.At(int(seq.Add(1))).Body)
				if now := time.Now(); now.After(start) && !now.After(end) {
					mu.Lock()
					ms = append(ms, first.Sub(began).Seconds()*1e3)
					mu.Unlock()
				}
			}
		})
	}
	time.Sleep(time.Until(end) + time.Minute) // on the bubble's clock
	cancel()
	wg.Wait()
	slices.Sort(ms)
	r := rung{x: float64(len(ms)) / window.Seconds()}
	q := func(p float64) float64 { return ms[int(math.Ceil(p*float64(len(ms))))-1] }
	r.p50, r.p95, r.p99 = q(0.50), q(0.95), q(0.99)
	for _, v := range ms {
		r.mean += v / float64(len(ms))
	}
	return r
}

// serveOne speaks one text and returns when its first sound came.
func serveOne(t *testing.T, s *serve.Server, text string) time.Time {
	r := httptest.NewRequest("POST", "/invocations", strings.NewReader(fmt.Sprintf(`{"text": %q}`, text)))
	w := &heard{header: make(http.Header)}
	s.Handler().ServeHTTP(w, r)
	if w.status != 200 || w.first.IsZero() {
		t.Errorf("status %d", w.status)
	}
	return w.first
}

func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s is %.3f, want %.3f within %.3f", what, got, want, tol)
	}
}

// loopback is what late timers and real sockets add to a first audio, ms; the profile leaves room for it.
const loopback = 0.7

// The profile is the published run: its percentiles at N = 1, its throughput, and its ladder, within 2 %.
func TestKokoroIsThePublishedLadder(t *testing.T) {
	p, err := Builtin("kokoro-g5")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		n             int
		x             float64
		p50, p95, p99 float64
	}{
		{1, 0, 60.0, 65.4, 68.5},
		{5, 17.9, 278, 286, 290}, {10, 17.9, 555, 568, 574}, {20, 17.9, 1112, 1129, 1137}, {30, 17.9, 1674, 1690, 1701},
		{40, 17.9, 2235, 2245, 2248}, {50, 17.9, 2794, 2806, 2840}, {60, 17.9, 3354, 3375, 3404},
	} {
		bubble(t, fmt.Sprintf("N=%d", want.n), func(t *testing.T) {
			got := climb(t, p, want.n, 120*time.Second)
			t.Logf("N=%d: %.2f a second, first audio mean %.1f p50 %.1f p95 %.1f p99 %.1f ms", want.n, got.x, got.mean, got.p50, got.p95, got.p99)
			near(t, fmt.Sprintf("N=%d p50", want.n), got.p50+loopback, want.p50, 0.015*want.p50)
			near(t, fmt.Sprintf("N=%d p95", want.n), got.p95+loopback, want.p95, 0.015*want.p95)
			near(t, fmt.Sprintf("N=%d p99", want.n), got.p99+loopback, want.p99, 0.02*want.p99)
			if want.x > 0 {
				near(t, fmt.Sprintf("N=%d throughput", want.n), got.x, want.x, 0.05)
				near(t, fmt.Sprintf("N=%d p95 over 56 N", want.n), got.p95, 56*float64(want.n), 0.03*56*float64(want.n))
			}
		})
	}
}

// quick is the same server ten times as fast: 53 held within 300 ms, 54 not.
func TestQuickHoldsFiftyThree(t *testing.T) {
	p, err := Builtin("quick")
	if err != nil {
		t.Fatal(err)
	}
	for n, within := range map[int]bool{53: true, 54: false} {
		bubble(t, fmt.Sprintf("N=%d", n), func(t *testing.T) {
			got := climb(t, p, n, 30*time.Second)
			t.Logf("N=%d: %.1f a second, p50 %.1f p95 %.1f ms", n, got.x, got.p50, got.p95)
			near(t, "throughput", got.x, 179, 0.5)
			if (got.p95 <= p.SLOMs) != within {
				t.Errorf("N=%d: p95 %.1f ms against %v ms", n, got.p95, p.SLOMs)
			}
		})
	}
}

// On a real clock, with real sockets, timers are late and the machine is shared: throughput is what must not drift.
func TestThroughputDoesNotDrift(t *testing.T) {
	p, err := Parse([]byte("name: exact\nservice: {base_ms: 10}\naudio: {per_char_s: 0.01}\n"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(serve.Config{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	<-s.Ready()
	hs := httptest.NewServer(s.Handler())
	defer func() { hs.Close(); cancel(); wg.Wait() }()
	var n atomic.Int64
	began := time.Now()
	var load sync.WaitGroup
	for range 8 {
		load.Go(func() {
			for n.Add(1) <= 100 {
				res, err := http.Post(hs.URL+"/invocations", "application/json", strings.NewReader(`{"text": "Hello."}`))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
	load.Wait()
	d := time.Since(began)
	t.Logf("100 requests of 10 ms took %v", d)
	// Late wake-ups of up to 1 ms each, were they to add up, would make it 1.1 s; the upper limit is for a busy machine.
	if d < 990*time.Millisecond || d > 3*time.Second {
		t.Errorf("100 requests of 10 ms took %v", d)
	}
}

package load

import (
	"math"
	"runtime/metrics"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"loadline/internal/sample"
)

func TestReadHost(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	const psi = "some avg10=5.75 avg60=2.39 avg300=5.50 total=55408682\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
	for name, c := range map[string]struct {
		fs        fstest.MapFS
		throttled int64
		stalled   time.Duration
	}{
		"version 2, own group": {fstest.MapFS{
			"proc/self/cgroup":                      file("0::/user.slice/run\n"),
			"sys/fs/cgroup/user.slice/cpu.stat":     file("nr_throttled 9\n"),
			"sys/fs/cgroup/user.slice/run/cpu.stat": file("usage_usec 1\nnr_periods 40\nnr_throttled 3\nthrottled_usec 5\n"),
			"proc/pressure/cpu":                     file(psi),
		}, 3, 55408682 * time.Microsecond},
		"version 2, a container's root": {fstest.MapFS{
			"proc/self/cgroup":       file("0::/docker/8e0f1b\n"),
			"sys/fs/cgroup/cpu.stat": file("nr_throttled 4\n"),
		}, 4, -1},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup":                     file("9:name=systemd:/\n3:cpuset:/\n2:cpu,cpuacct:/a\n0::/\n"),
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.stat": file("nr_periods 0\nnr_throttled 12\nthrottled_time 0\n"),
		}, 12, -1},
		"nothing":        {fstest.MapFS{}, -1, -1},
		"no cpu control": {fstest.MapFS{"proc/self/cgroup": file("4:memory:/x\n0::/\n"), "proc/pressure/cpu": file("bad total\n")}, -1, -1},
	} {
		if h := readHost(c.fs); h.throttled != c.throttled || h.stalled != c.stalled {
			t.Errorf("%s: %+v, want throttled %d, stalled %v", name, h, c.throttled, c.stalled)
		}
	}
}

// The numbers of a real hold are there and can be true.
func TestClientOfARealHold(t *testing.T) {
	cfg := config(&fake{serve: steady(2 * time.Millisecond)})
	cfg.Echo = nil
	c, stop := running(t, cfg)
	var got []sample.Request
	client, err := c.Hold(t.Context(), 0, 4, func(r sample.Request) bool {
		got = append(got, r)
		return r.End > sample.Nanos(500*time.Millisecond)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if client.CanaryN < 5 || client.CanaryP99 <= 0 || client.CPU <= 0 || client.SchedP99 <= 0 || client.InFlight <= 0 {
		t.Errorf("%+v", client)
	}
	for _, share := range []float64{client.CPU, client.PSI, client.Reused, client.Descriptors} {
		if share > 1.2 {
			t.Errorf("%+v", client)
		}
	}
}

func TestQuantile(t *testing.T) {
	d := make([]time.Duration, 200)
	for i := range d {
		d[i] = time.Duration(200 - i)
	}
	for q, want := range map[float64]time.Duration{0.001: 1, 0.5: 100, 0.99: 198, 1: 200} {
		if got := quantile(slices.Clone(d), q); got != want {
			t.Errorf("quantile %g = %d, want %d", q, got, want)
		}
	}
	if quantile(nil, 0.99) != 0 {
		t.Error("of nothing")
	}
}

func TestHistogramDifference(t *testing.T) {
	was := metrics.Float64Histogram{Counts: []uint64{5, 1, 0, 0}, Buckets: []float64{math.Inf(-1), 1, 2, 3, math.Inf(1)}}
	now := metrics.Float64Histogram{Counts: []uint64{7, 98, 1, 0}, Buckets: was.Buckets}
	n, edge := bound(difference(now, was), 0.99)
	if n != 100 || edge != 2 {
		t.Errorf("%d values, p99 at most %g; want 100 and 2", n, edge)
	}
	now.Counts[3] = 50
	if _, edge = bound(difference(now, was), 1); edge != 3 { // the last bucket has no edge but its lower one
		t.Errorf("most %g, want 3", edge)
	}
	if n, edge = bound(metrics.Float64Histogram{}, 0.99); n != 0 || edge != 0 {
		t.Errorf("of nothing: %d, %g", n, edge)
	}
}

func TestGauge(t *testing.T) {
	var g gauge
	s := func(x float64) sample.Nanos { return sample.Nanos(x * 1e9) }
	g.add(1, s(1))
	g.add(1, s(2))
	g.add(-1, s(1.5)) // clocks of two goroutines: late by a little, never back in time
	g.add(-1, s(4))
	if got := g.area(s(9)); math.Abs(got-3) > 1e-9 { // 1 for a second, then 1 for two
		t.Errorf("area %g, want 3", got)
	}
}

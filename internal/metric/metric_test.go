package metric

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

func series(resolution, published time.Duration) *Series {
	s, err := NewStore().Series(Key{}, Spec{"None", resolution, published})
	if err != nil {
		panic(err)
	}
	return s
}

// dumb is what a reader should get: every value kept, looked at again for each period.
type dumb struct {
	at []time.Time
	v  []float64
}

func (d dumb) read(start, end time.Time, period time.Duration) (out []Bucket, values [][]float64) {
	for t := start; t.Before(end); t = t.Add(period) {
		b := Bucket{Start: t}
		var vs []float64
		for i, at := range d.at {
			if at.Before(t) || !at.Before(t.Add(period)) || !at.Before(end) {
				continue
			}
			if b.Count == 0 {
				b.Min, b.Max = d.v[i], d.v[i]
			}
			b.Count, b.Sum, b.Min, b.Max = b.Count+1, b.Sum+d.v[i], min(b.Min, d.v[i]), max(b.Max, d.v[i])
			vs = append(vs, d.v[i])
		}
		if b.Count > 0 {
			slices.Sort(vs)
			out, values = append(out, b), append(values, vs)
		}
	}
	return out, values
}

func TestAgainstDumb(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 7, 500, 5_000} {
		s, d := series(10*time.Second, AtOnce), dumb{}
		for range n {
			when, v := at(rng.Float64()*3000), math.Exp(10+rng.NormFloat64())
			s.Observe(when, v, 1)
			d.at, d.v = append(d.at, when), append(d.v, v)
		}
		for _, period := range []time.Duration{10 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute} {
			got := s.Read(at(600), at(1800), period, at(9999))
			want, values := d.read(at(600), at(1800), period)
			if len(got) != len(want) {
				t.Fatalf("n=%d period %s: %d periods, want %d", n, period, len(got), len(want))
			}
			for i := range got {
				g, w, vs := &got[i], &want[i], values[i]
				if !g.Start.Equal(w.Start) || g.Count != w.Count || g.Min != w.Min || g.Max != w.Max || !near(g.Sum, w.Sum, 1e-9) {
					t.Errorf("n=%d period %s: got %+v, want %+v", n, period, g, w)
				}
				for _, p := range []float64{0, 1, 50, 90, 95, 99, 99.9, 100} {
					want := vs[max(0, int(math.Ceil(p/100*float64(len(vs))-1e-9))-1)]
					if got, ok := g.Percentile(p); !ok || !near(got, want, 0.005) {
						t.Errorf("n=%d period %s: p%g = %g %v, want %g", n, period, p, got, ok, want)
					}
				}
			}
		}
	}
}

func near(a, b, rel float64) bool { return math.Abs(a-b) <= rel*math.Abs(b) }

func TestPublication(t *testing.T) {
	s := series(10*time.Second, 30*time.Second)
	s.Observe(at(5), 1, 1)
	for now, want := range map[float64]int{9: 0, 39.9: 0, 40: 1, 41: 1} {
		if got := len(s.Read(at(0), at(60), 10*time.Second, at(now))); got != want {
			t.Errorf("at %g s %d periods can be read, want %d", now, got, want)
		}
	}
}

func TestAlignment(t *testing.T) {
	s := series(10*time.Second, AtOnce)
	for i := range 12 {
		s.Observe(at(float64(10*i)), float64(i), 1)
	}
	minutes := s.Read(at(7), at(120), time.Minute, at(999))
	if len(minutes) != 2 || !minutes[0].Start.Equal(at(0)) || minutes[0].Sum != 15 {
		t.Errorf("a start of :07 reads %+v, want whole minutes", minutes)
	}
	if tens := s.Read(at(17), at(40), 10*time.Second, at(999)); len(tens) != 3 || !tens[0].Start.Equal(at(10)) {
		t.Errorf("a start of :17 reads %+v, want 10 s periods from :10", tens)
	}
	// Data of a minute is found under shorter periods, at the minutes' starts.
	m := series(time.Minute, AtOnce)
	m.Observe(at(30), 5, 1)
	if got := m.Read(at(0), at(60), 10*time.Second, at(999)); len(got) != 1 || !got[0].Start.Equal(at(0)) {
		t.Errorf("minute data under 10 s: %+v", got)
	}
}

func TestRetention(t *testing.T) {
	s := series(10*time.Second, AtOnce)
	const days = 2
	for i := range days * 24 * 360 {
		s.Observe(at(float64(10*i)), float64(i), 1)
	}
	end := at(days * 86400)
	if n := len(s.cells); n > 3*360+24*60+10 {
		t.Errorf("%d cells are kept after %d days", n, days)
	}
	if got := s.Read(end.Add(-4*time.Hour), end.Add(-210*time.Minute), 10*time.Second, end); len(got) != 0 {
		t.Errorf("10 s data older than 3 h can be read: %d periods", len(got))
	}
	got := s.Read(end.Add(-4*time.Hour), end.Add(-210*time.Minute), time.Minute, end)
	if len(got) != 30 || got[0].Count != 6 {
		t.Errorf("as minutes it reads %d periods, the first of %g values", len(got), got[0].Count)
	}
	if got := s.Read(end.Add(-30*time.Hour), end.Add(-29*time.Hour), time.Minute, end); len(got) != 0 {
		t.Errorf("data of yesterday can be read: %d periods", len(got))
	}
}

func TestTotalsHaveNoPercentiles(t *testing.T) {
	var s Set
	s.Totals(10, 30, 3, 3)
	if p, ok := s.Percentile(95); !ok || p != 3 {
		t.Errorf("ten equal values: p95 %g %v", p, ok)
	}
	s.Totals(10, 30, 1, 5)
	if _, ok := s.Percentile(95); ok || s.Count != 20 || s.Average() != 3 || s.Min != 1 || s.Max != 5 {
		t.Errorf("totals: %+v", s)
	}
	var neg Set
	neg.Observe(-1, 1)
	if _, ok := neg.Percentile(50); ok {
		t.Error("CloudWatch tells no percentile of negative values")
	}
	var all Set
	all.Merge(&s)
	all.Merge(&neg)
	if _, ok := all.Percentile(50); ok || all.Count != 21 {
		t.Errorf("merged: %+v", all)
	}
}

func TestManyDistinctValuesStayBounded(t *testing.T) {
	var s Set
	for i := range 100_000 {
		s.Observe(float64(i), 1)
	}
	if len(s.values) > distinct {
		t.Errorf("%d values are kept", len(s.values))
	}
	if p, _ := s.Percentile(95); !near(p, 95_000, 0.01) {
		t.Errorf("p95 = %g of 0..99999", p)
	}
}

func TestSeriesAreBounded(t *testing.T) {
	st := NewStore()
	for i := range MaxSeries {
		if _, err := st.Series(Key{Name: string(rune(i))}, Spec{"None", time.Minute, AtOnce}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.Series(Key{Name: "one more"}, Spec{"None", time.Minute, AtOnce}); err == nil {
		t.Error("one metric too many was taken")
	}
}

func TestGauge(t *testing.T) {
	s := series(10*time.Second, AtOnce)
	g := NewGauge(s, 10*time.Second, at(0))
	g.Add(at(2), 1)
	g.Add(at(4), 1)  // 2 from here
	g.Add(at(14), 3) // 5 for one second
	g.Add(at(15), -4)
	g.Advance(at(31))
	g.End(at(33.5))
	got := s.Read(at(0), at(60), 10*time.Second, at(60))
	want := []Set{
		{Count: 10, Sum: 2*1 + 6*2, Min: 0, Max: 2},
		{Count: 10, Sum: 4*2 + 5 + 5, Min: 1, Max: 5},
		{Count: 10, Sum: 10, Min: 1, Max: 1},
		{Count: 4, Sum: 4, Min: 1, Max: 1},
	}
	if len(got) != len(want) {
		t.Fatalf("%d periods: %+v", len(got), got)
	}
	for i, w := range want {
		g := got[i]
		if g.Count != w.Count || !near(g.Sum, w.Sum, 1e-9) || g.Min != w.Min || g.Max != w.Max {
			t.Errorf("period %d: got %g %g %g %g, want %g %g %g %g", i, g.Count, g.Sum, g.Min, g.Max, w.Count, w.Sum, w.Min, w.Max)
		}
	}
}

func TestKeys(t *testing.T) {
	st := NewStore()
	dims := []Dimension{{"a;\"=", "x"}, {"b", "ü\n=;"}}
	for _, k := range []Key{{"N", "two", JoinDims(dims)}, {"N", "one", ""}, {"M", "none", ""}} {
		s, err := st.Series(k, Spec{"None", time.Minute, AtOnce})
		if err != nil {
			t.Fatal(err)
		}
		if k.Name != "none" {
			s.Observe(epoch, 1, 1)
		}
	}
	keys := st.Keys()
	if len(keys) != 2 || keys[0].Name != "one" || keys[1].Name != "two" {
		t.Fatalf("keys %v", keys)
	}
	if got := keys[1].Dimensions(); !slices.Equal(got, dims) {
		t.Errorf("dimensions %q, want %q", got, dims)
	}
}

package ladder

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"loadline/internal/sample"
	"loadline/internal/stat"

	"pgregory.net/rapid"
)

// Whatever an endpoint does, a search ends, and what it says follows from its rungs.
func TestSearchOfAnything(t *testing.T) {
	outcomes := []sample.Outcome{sample.OK, sample.OK, sample.OK, sample.Rejected, sample.Timeout, sample.Empty, sample.ServerError}
	rapid.Check(t, func(t *rapid.T) {
		c := Config{SLO: time.Second, Max: rapid.IntRange(1, 200).Draw(t, "max"), Percentile: rapid.SampledFrom([]float64{50, 90, 95}).Draw(t, "percentile")}
		slope := rapid.Float64Range(0, 0.5).Draw(t, "slope")
		base := rapid.Float64Range(0.001, 1.5).Draw(t, "base")
		spread := rapid.Float64Range(0, 0.5).Draw(t, "spread")
		edge := rapid.IntRange(1, 300).Draw(t, "edge")
		beyond := rapid.SampledFrom(outcomes).Draw(t, "beyond")
		flaky := rapid.Float64Range(0, 0.1).Draw(t, "flaky")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s, err := NewSearch(c)
		if err != nil {
			t.Fatal(err)
		}
		sim := simulate(s, func(_ float64, n int) (float64, float64, sample.Outcome) {
			x := (base + slope*float64(n)*base) * math.Exp(spread*rng.NormFloat64())
			switch {
			case rng.Float64() < flaky:
				return 0, 0.05, sample.ServerError
			case n > edge && beyond != sample.OK:
				return 0, 0.05, beyond
			}
			return x, x, sample.OK
		}, func(p Probe, e Evidence) Evidence {
			if rng.Float64() < 0.02 {
				e.Counts = []int{1, 2}
			}
			return e
		})
		q := sim.Result
		if sim.Probes > mostProbes {
			t.Fatalf("%d probes", sim.Probes)
		}
		if _, err := json.Marshal(q); err != nil {
			t.Fatalf("a result that JSON cannot carry: %v", err)
		}
		for i, r := range q.Rungs {
			if r.Index != i || r.N < 1 || r.N > c.Max {
				t.Fatalf("rung %d: index %d, N %d of at most %d", i, r.Index, r.N, c.Max)
			}
			if r.Verdict == Fail && float64(r.Late) <= s.c.allowed()*float64(r.Samples) {
				t.Fatalf("rung %d failed with %d late of %d", i, r.Late, r.Samples)
			}
			if !r.Valid && (r.Cause == "" || r.Verdict != Undecided) {
				t.Fatalf("rung %d is invalid: %s, %q", i, r.Verdict, r.Cause)
			}
		}
		if (q.QMax == nil) != (q.Verdict != Certified) || q.QMax == nil && q.Reason == "" {
			t.Fatalf("Q_max %v, verdict %s, reason %q", q.QMax, q.Verdict, q.Reason)
		}
		if q.QMax != nil {
			k := q.Certificate
			if !stat.Proves(k.NEff, float64(k.Late)*k.NEff/float64(k.N), s.c.allowed(), 0.0125+1e-9) {
				t.Fatalf("certificate %+v proves nothing", *k)
			}
			if q.Bracket.Fail != 0 && q.Bracket.Fail <= *q.QMax {
				t.Fatalf("bracket %+v of Q_max %d", q.Bracket, *q.QMax)
			}
		}
	})
}

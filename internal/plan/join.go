package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/ladder"
)

// check refuses input that does not belong together, and notes what was let pass.
func check(in Input) (notes []string, err error) {
	q, s := in.QMax, in.Scenario
	var bad []error
	refuse := func(format string, a ...any) { bad = append(bad, fmt.Errorf(format, a...)) }

	if q.QMax == nil {
		why := q.Reason
		if why == "" {
			why = "no rung met the objective"
		}
		refuse("the ladder has no Q_max (%s): there is nothing to plan on; measure again, or with another objective", why)
	}
	if in.SLOMS != 0 && in.SLOMS != q.SLOMS {
		refuse("--slo-ms %g: the ladder was judged by %g ms, and its Q_max holds for that alone; tts-bench qmax --slo-ms %g", in.SLOMS, q.SLOMS, in.SLOMS)
	}
	if !(s.SurgeRatio >= 1 && s.SurgeRatio <= 100) {
		refuse("--surge-ratio %g: load grows by a ratio of 1 (not at all) to 100", s.SurgeRatio)
	}
	if s.TroughRPS > 0 && s.PeakRPS > 0 && s.TroughRPS > s.PeakRPS {
		refuse("--trough-rps %g is above --peak-rps %g", s.TroughRPS, s.PeakRPS)
	}
	if s.TroughStreams > 0 && s.PeakStreams > 0 && s.TroughStreams > s.PeakStreams {
		refuse("--trough-streams %g is above --peak-streams %g", s.TroughStreams, s.PeakStreams)
	}
	if t := in.TTotal; t != nil {
		warnings, err := artifact.Pair("the ladder", q.Fingerprint, "the scale-out", t.Fingerprint, in.AllowMismatch)
		if err != nil {
			bad = append(bad, err)
		}
		notes = append(notes, warnings...)
		switch a, b := q.Target.Transport, t.Target.Transport; {
		case b == "":
			notes = append(notes, "the scale-out does not say its transport; the ladder's is "+a)
		case a != b:
			refuse("the ladder was measured by %s and the scale-out by %s: measure both by one transport", a, b)
		}
		if slo, ok := number(t.Settings["slo_ms"]); ok && slo != q.SLOMS {
			refuse("the ladder was judged by %g ms and the scale-out by %g ms", q.SLOMS, slo)
		}
		if t.Bounded {
			notes = append(notes, "recovery was never seen in the scale-out: T is a floor")
		}
	}
	if r := in.Rates; r != nil {
		warnings, err := artifact.Pair("the ladder", q.Fingerprint, "the open-loop ladder", r.Fingerprint, in.AllowMismatch)
		if err != nil {
			bad = append(bad, err)
		}
		notes = append(notes, warnings...)
		if r.Target.Transport != q.Target.Transport {
			refuse("the ladder was measured by %s and the open-loop ladder by %s: measure both by one transport", q.Target.Transport, r.Target.Transport)
		}
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	if q.Certificate == nil {
		notes = append(notes, fmt.Sprintf("Q_max %d is not certified: no proof from fresh samples stands behind it", *q.QMax))
	}
	if t := q.Target.Transport; t == "websocket" || t == "bidi" {
		notes = append(notes, "measured in sessions that are busy: one that stays open between texts may count as a request in flight for all that time, and hold capacity; --peak-streams states the sessions open at the peak")
	}
	if !q.Complete {
		notes = append(notes, "the ladder was stopped early: it may know less than a whole one")
	}
	return notes, nil
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}

// Join is the measured side of a plan: ladder, scale-out and price as one value. The input has a Q_max.
func Join(in Input) (m capacity.Measured, notes []string, err error) {
	q := in.QMax
	points := points(q.Rungs)
	if len(points) == 0 {
		return m, nil, errors.New("the ladder has no usable rung: nothing is known of what an instance completes")
	}
	model, err := capacity.NewInstance(points)
	if err != nil {
		return m, nil, fmt.Errorf("the ladder: %w", err)
	}
	m = capacity.Measured{
		QMax: *q.QMax, QSource: q.Verdict, Lower: q.Bracket.Fail == 0, Cliff: q.Cliff,
		SLO: q.SLOMS / 1000, Pct: q.Percentile,
		Mu: q.Mu, MuPlan: q.Mu.Value, Points: points,
		QueueBound: q.Fingerprint.QueueBound, Counts: q.InstanceCounts, Runs: len(q.PerRun),
		ClosedRatio: true, // a ladder holds its concurrency
	}
	if c := q.Certificate; c != nil {
		m.QSource = fmt.Sprintf("certified at %.0f %% on %d fresh samples, %d late", 100*c.Confidence, c.N, c.Late)
	}
	if q.Mu.Low != nil && *q.Mu.Low > 0 {
		m.MuPlan = *q.Mu.Low
	}
	if !(m.MuPlan > 0) {
		return m, nil, errors.New("the ladder does not say how many requests an instance completes (mu_rps): it cannot be planned on")
	}
	at := func(n int) *capacity.Point {
		i := slices.IndexFunc(points, func(p capacity.Point) bool { return p.N == n })
		if i < 0 {
			return nil
		}
		return &points[i]
	}
	m.QRPS = model.Rate(float64(m.QMax))
	m.QSMean = float64(m.QMax) / m.QRPS // Little: what is in flight over what leaves a second
	if p := at(m.QMax); p != nil && p.SMean > 0 {
		m.QSMean = p.SMean
	}
	if q.SMean == nil || q.SP95 == nil || !(*q.SMean > 0) {
		return m, nil, errors.New("the ladder does not say how long one request takes (s_mean_s, s_p95_s): it needs a rung at N = 1")
	}
	m.SMean, m.SP95 = *q.SMean, math.Max(*q.SP95, *q.SMean)
	m.SAt = points[0].N
	if m.SAt > 1 {
		notes = append(notes, fmt.Sprintf("the service time is that of N = %d, so some waiting is in it", m.SAt))
	}
	if q.FirstAudioAt1 != nil {
		m.FirstAudioAt1 = *q.FirstAudioAt1
	}
	m.CS2, m.CS2Src = variability(q.Rungs, m.SAt)
	for _, n := range q.PerRun {
		if n != nil {
			m.PerRun = append(m.PerRun, *n)
		}
	}
	if q.Target.URL == "" {
		m.Frozen = &q.Frozen
	}
	if q.Corpus.CharsMean > 0 {
		m.CharsPerRequest = &q.Corpus.CharsMean
	}
	price := q.Price
	if price == nil {
		price = in.Model.Price
	}
	if price != nil {
		m.PricePerHour = &price.PerHour
		m.PriceSource = price.Source
		if price.Date != "" {
			m.PriceSource += ", " + price.Date
		}
	}
	m.Lag = lag(in)
	spoken(&m, in)
	m.Open = open(in.Rates)
	stages(&m, in.TTotal)
	return m, notes, nil
}

// open is what valid rungs of the open-loop ladder held: by CloudWatch, which is what a policy reads, else by the client.
func open(r *artifact.Rates) (out []capacity.Open) {
	if r == nil {
		return nil
	}
	for _, g := range r.Rungs {
		if !g.Valid {
			continue
		}
		o := capacity.Open{Rate: g.Rate, Mean: g.Mean, TenMax: g.TenMax, By: "the client"}
		if cw := g.CW; cw != nil && cw.Squared && cw.Ratio != nil {
			o.TenMax, o.By = *cw.Ratio*g.Mean, "CloudWatch"
			if cw.ConcurrencyMean != nil {
				o.Mean = *cw.ConcurrencyMean
			}
		}
		out = append(out, o)
	}
	return out
}

// variability is the squared coefficient of variation of the service time at concurrency n: of the samples, or estimated
// from percentiles where a file carries none.
func variability(rungs []ladder.Rung, n int) (cs2 *float64, source string) {
	for _, r := range rungs {
		if r.Valid && r.N == n && r.CS2 != nil {
			return r.CS2, fmt.Sprintf("samples at N = %d", n)
		}
	}
	for _, r := range rungs {
		if r.Valid && r.N == n && r.P50 != nil && r.P95 != nil && r.SMean != nil && *r.SMean > 0 {
			v := capacity.CS2(*r.P50/1000, *r.P95/1000, *r.SMean)
			return &v, fmt.Sprintf("estimated from p50 and p95 at N = %d", n)
		}
	}
	return nil, ""
}

// lag is T as the scale-out file, or the operator, says it. Of several runs the slowest counts.
func lag(in Input) capacity.Lag {
	t := in.TTotal
	if t == nil {
		return capacity.Lag{T: in.AssumeT, Provision: in.AssumeT, Assumed: true, Source: "assumed"}
	}
	upper, source := t.TTotal, fmt.Sprintf("measured (%s)", t.Trigger)
	for _, r := range t.Runs {
		upper = math.Max(upper, r)
	}
	if n := len(t.Runs); n > 1 {
		source = fmt.Sprintf("slowest of %d runs (%s)", n, t.Trigger)
	}
	return capacity.Lag{T: upper + t.Detection, Provision: upper, Detection: t.Detection,
		Source: source + "; detection: " + t.DetectionSource}
}

// stages fills in what the durations of the scale-out say, where it has any.
func stages(m *capacity.Measured, t *artifact.TTotal) {
	if t == nil || len(t.Durations) == 0 {
		return
	}
	sum := 0.0
	for _, d := range t.Durations {
		sum += d.Seconds
	}
	m.StagesSum, m.StagesTotal = &sum, &t.TTotal
	// Stages may stand between the two when clocks differ by a little, so the instants count, not the neighbours.
	from, to := stage(t, "desired_set"), stage(t, "instance_logging")
	if from != nil && to != nil {
		s := to.At.Sub(from.At).Seconds()
		m.ProvisionStage = &s
	}
}

func stage(t *artifact.TTotal, name string) *artifact.Stage {
	i := slices.IndexFunc(t.Timeline, func(s artifact.Stage) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Timeline[i]
}

// points merges the valid rungs of each concurrency, weighted by their samples.
func points(rungs []ladder.Rung) []capacity.Point {
	var ps []capacity.Point
	var ratios [][]float64
	index := map[int]int{}
	for _, r := range rungs {
		if !r.Valid || !(r.X > 0) {
			continue
		}
		i, ok := index[r.N]
		if !ok {
			i = len(ps)
			index[r.N] = i
			ps, ratios = append(ps, capacity.Point{N: r.N}), append(ratios, nil)
		}
		p := &ps[i]
		n := max(1, r.Samples)
		old := float64(p.Samples) / float64(p.Samples+n)
		p.X = old*p.X + (1-old)*r.X
		if r.SMean != nil {
			p.SMean = old*p.SMean + (1-old)**r.SMean
		}
		p.Samples += n
		if r.CW != nil && r.CW.Squared && r.CW.Ratio != nil {
			ratios[i] = append(ratios[i], *r.CW.Ratio)
		}
	}
	for i, rs := range ratios {
		if len(rs) > 0 {
			slices.Sort(rs)
			median := (rs[(len(rs)-1)/2] + rs[len(rs)/2]) / 2
			ps[i].Ratio = &median
		}
	}
	slices.SortFunc(ps, func(a, b capacity.Point) int { return cmp.Compare(a.N, b.N) })
	return ps
}

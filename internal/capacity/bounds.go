package capacity

import (
	"errors"
	"fmt"
	"math"

	"loadline/internal/queueing"
)

// flow is one instance under the flow rule, with what the scenario asks of it.
type flow struct {
	m       Measured
	s       Scenario
	model   Instance
	chain   queueing.Chain
	peak    float64 // arrivals a second at the peak, over the fleet
	h       float64
	t       float64 // seconds
	eps     float64
	q       int // most requests in the system that the objective allows: Q_max, or less where a cliff is above it
	depth   int // q, or what the ceiling allows
	routing string
	tol     float64 // of ρ*, relative

	stagesSource string
}

func newFlow(m Measured, s Scenario, t float64) (flow, error) {
	model, err := NewInstance(m.Points)
	if err != nil {
		return flow{}, err
	}
	f := flow{m: m, s: s, model: model, peak: s.peak().perSecond(m.SMean), h: s.SurgeRatio - 1, t: t,
		eps: s.Epsilon, q: m.belowCliff(), routing: s.Routing, tol: rhoTol}
	f.depth = f.q
	if f.eps == 0 {
		f.eps = Epsilon
	}
	if f.routing == "" {
		f.routing = RouteRandom
	}
	if most := int(s.Ceiling * m.MuPlan); s.Ceiling > 0 && most < f.depth {
		f.depth = max(1, most)
	}
	f.chain, f.stagesSource = f.bursty(m).server(model, f.depth)
	return f, nil
}

// bursty is m with a service as variable as service and arrivals together, beyond Poisson: in heavy traffic their
// variabilities count alike (Kingman 1962). An instance sees less of the fleet's: of a stream split at random over N, the
// dispersion D becomes 1 + (D − 1)/N.
func (f flow) bursty(m Measured) Measured {
	if m.CS2 == nil || f.s.Dispersion <= 1 {
		return m
	}
	n := math.Max(1, math.Ceil(f.peak*(1+f.h)/m.MuPlan))
	cs2 := *m.CS2 + (f.s.Dispersion-1)/n
	m.CS2 = &cs2
	return m
}

// Server is the instance as a chain: the flow-equivalent server of the ladder, lowered to μ's bound, for up to depth
// requests, and where the stages of its service come from.
func (m Measured) Server(depth int) (queueing.Chain, string, error) {
	model, err := NewInstance(m.Points)
	if err != nil {
		return queueing.Chain{}, "", err
	}
	c, source := m.server(model, depth)
	return c, source, nil
}

func (m Measured) server(model Instance, depth int) (c queueing.Chain, source string) {
	share := m.MuPlan / model.Most()
	c.Mu = make([]float64, max(depth, m.Points[len(m.Points)-1].N))
	for i := range c.Mu {
		c.Mu[i] = share * model.Rate(float64(i+1))
	}
	switch {
	case m.CS2 == nil:
		c.Stages, source = 1, "c_s² is not known: an exponential service, the safe side of most"
	case *m.CS2 > 1.5:
		c.Stages, source = 1, fmt.Sprintf("variability %.2f is above the exponential's 1: the true bound is lower", *m.CS2)
	default:
		c.Stages, source = queueing.Stages(*m.CS2), fmt.Sprintf("c_s² %.4f", *m.CS2)
		if *m.CS2 < 1.0/queueing.MaxStages {
			source += fmt.Sprintf(", below 1/%d: read as too variable, on the safe side", queueing.MaxStages)
		}
	}
	return c, source
}

// fleet is the instances that carry a load, at a share rho of μ each, when spare ones may be lost.
func (f flow) fleet(load, rho float64) int {
	return max(1, ceil(load/(rho*f.m.MuPlan))) + f.s.Spare
}

// bounds are the four of them; best is the one that binds.
func (f flow) bounds() (best Bound, all []Bound, err error) {
	bound := func(name string, rho float64, detail string) Bound {
		lambda := rho * f.m.MuPlan
		n := max(1, ceil(f.peak/lambda))
		return Bound{Name: name, Rho: &rho, Lambda: &lambda, Instances: &n, Detail: detail}
	}
	drift := 1 / (1 + f.h)
	all = append(all, bound(BoundDrift, drift, fmt.Sprintf("1/(1 + h) at h = %s: what arrives in the surge is completed; slots get no credit", short(f.h))))

	whole := f
	whole.depth = f.q
	rho, detail, err := whole.variance(drift)
	if err != nil {
		return Bound{}, nil, fmt.Errorf("variance bound: %w", err)
	}
	all = append(all, bound(BoundVariance, rho, detail))

	inner := min(drift, rho)
	ceilings := Bound{Name: BoundCeilings, Detail: fmt.Sprintf("Q_max / μ = %.2f s of the %g s that the platform allows", float64(f.m.QMax)/f.m.MuPlan, f.s.Ceiling)}
	if f.depth < f.q {
		if rho, detail, err = f.variance(drift); err != nil {
			return Bound{}, nil, fmt.Errorf("ceilings: %w", err)
		}
		ceilings = bound(BoundCeilings, rho, fmt.Sprintf("%s; and %s", ceilings.Detail, detail))
		inner = min(inner, rho)
	}
	if f.s.Quota > 0 {
		ceilings.Detail += fmt.Sprintf("; quota %d instances", f.s.Quota)
	}
	failure := Bound{Name: BoundFailure, Detail: "no lost instance planned for (--spare 0)"}
	if f.s.Spare > 0 {
		n := f.fleet(f.peak, inner)
		failure = bound(BoundFailure, inner*float64(n-f.s.Spare)/float64(n),
			fmt.Sprintf("with %d of %d lost the others carry %s of μ", f.s.Spare, n, short(inner)))
		failure.Instances = &n
	}
	all = append(all, failure, ceilings)
	for _, b := range all {
		if b.Rho != nil && (best.Rho == nil || *b.Rho < *best.Rho*(1-1e-9)) {
			best = b
		}
	}
	return best, all, nil
}

// unsafeError says why no load is safe.
type unsafeError string

func (e unsafeError) Error() string { return string(e) }

func unsafe(format string, args ...any) error { return unsafeError(fmt.Sprintf(format, args...)) }

// survivors is the share that the instances left may carry: the smallest bound but failure.
func (f flow) survivors(all []Bound) float64 {
	rho := 1.0
	for _, b := range all {
		if b.Rho != nil && b.Name != BoundFailure {
			rho = min(rho, *b.Rho)
		}
	}
	return rho
}

// variance is the largest share of μ, at most the drift's, at which refusals within T stay at ε.
func (f flow) variance(drift float64) (rho float64, detail string, err error) {
	switch f.routing {
	case RouteLOR:
		return f.pooled(drift)
	case "":
		return drift, "", nil
	}
	rho, err = f.solve(drift)
	return rho, fmt.Sprintf("random routing: an instance refuses (more than %d held) within T = %.0f s of the surge with probability %s at most",
		f.depth, f.t, short(f.eps)), err
}

// refuses is the probability that an instance at a share rho of μ refuses within T of the surge.
func (f flow) refuses(rho float64) (float64, error) {
	lambda := rho * f.m.MuPlan
	steady, err := f.chain.Steady(lambda, f.depth)
	if err != nil {
		return 0, err
	}
	return f.chain.Passage(lambda*(1+f.h), f.depth+1, f.t, steady.P)
}

const (
	rhoTol    = 1e-4 // of ρ*, relative: a fraction of an instance in a thousand
	coarseTol = 1e-3 // likewise, with few stages
	rhoLeast  = 0.01 // below it, no load is safe that is worth an instance
	coarse    = 8    // stages that find where to look, and what a changed input changes
)

// excess is how far above ε the probability of a refusal is, as a logarithm: nearly straight in ρ.
func (f flow) excess(rho float64) (float64, error) {
	p, err := f.refuses(rho)
	return math.Log(math.Max(p, 1e-12) / f.eps), err
}

// solve finds the share of μ, at most the drift's, at which refuses is ε. Few stages tell where to look; the chain with
// all of them is asked only there.
func (f flow) solve(drift float64) (float64, error) {
	if f.chain.Stages <= coarse {
		return f.bisect(drift)
	}
	g := f
	g.chain.Stages, g.tol = coarse, coarseTol
	rho, err := g.bisect(drift)
	if err != nil {
		return 0, err
	}
	const d = 0.01
	y0, err0 := g.excess(rho)
	y1, err1 := g.excess(rho * (1 - d))
	if err := errors.Join(err0, err1); err != nil {
		return 0, err
	}
	slope := (y0 - y1) / (d * rho)
	last, yLast := 0.0, 0.0
	for range 12 {
		y, err := f.excess(rho)
		if err != nil {
			return 0, err
		}
		if last != 0 && math.Abs(rho-last) > rhoTol*rho/10 {
			if s := (y - yLast) / (rho - last); s > 0 {
				slope = s
			}
		}
		last, yLast = rho, y
		if rho >= drift && y <= 0 {
			return drift, nil
		}
		if !(slope > 0) {
			break
		}
		step := -y / slope
		if y <= 0 && step < rhoTol*rho {
			return rho, nil
		}
		// Aim a little below, so that the side that is safe is reached.
		rho = min(drift, rho+step-rhoTol*rho/2)
	}
	return f.bisect(drift)
}

// bisect finds it by false position (Illinois variant).
func (f flow) bisect(drift float64) (float64, error) {
	hi := drift
	yHi, err := f.excess(hi)
	if err != nil || yHi <= 0 {
		return hi, err
	}
	// Downwards from where heavy traffic puts it (Kingman 1962), in growing steps.
	step := (1 + 1/float64(f.chain.Stages)) * math.Log(1/f.eps) / (2 * float64(f.depth))
	lo, yLo := hi, yHi
	for yLo > 0 {
		hi, yHi = lo, yLo
		lo *= math.Max(0.3, 1-step)
		if lo < rhoLeast {
			return 0, unsafe("an instance that holds at most %d requests refuses within %.0f s with more than %g whatever little it carries: "+
				"least-outstanding routing (--routing lor), a larger Q_max (a longer objective, a faster instance), or --epsilon", f.depth, f.t, f.eps)
		}
		if yLo, err = f.excess(lo); err != nil {
			return 0, err
		}
		step *= 1.5
	}
	side := 0
	for hi-lo > f.tol*hi {
		mid := (lo*yHi - hi*yLo) / (yHi - yLo)
		// Never closer to an end than the tolerance, or the other end is not moved.
		mid = math.Min(hi-f.tol*hi/2, math.Max(lo+f.tol*hi/2, mid))
		y, err := f.excess(mid)
		if err != nil {
			return 0, err
		}
		if y > 0 {
			hi, yHi = mid, y
			if side == 1 {
				yLo /= 2
			}
			side = 1
		} else {
			lo, yLo = mid, y
			if side == -1 {
				yHi /= 2
			}
			side = -1
		}
	}
	return lo, nil
}

// sensitivity is the rule with T, h and ε changed, one at a time. What a change does is computed with few stages, as a
// share of what those say unchanged: the stages left out cancel.
func (f flow) sensitivity(base float64) ([]Sensitivity, error) {
	if f.routing == RouteLOR { // the pool is not simulated anew: it moves with drift
		f.routing = ""
	}
	f.chain.Stages, f.tol = min(f.chain.Stages, coarse), coarseTol
	_, all, err := f.bounds()
	if err != nil {
		return nil, fmt.Errorf("sensitivity: %w", err)
	}
	few := f.survivors(all)
	var out []Sensitivity
	for _, c := range []struct {
		of     string
		value  float64
		change func(*flow)
	}{
		{"t", f.t / 2, func(f *flow) { f.t /= 2 }},
		{"t", f.t * 2, func(f *flow) { f.t *= 2 }},
		{"h", f.h / 2, func(f *flow) { f.h /= 2 }},
		{"h", f.h * 2, func(f *flow) { f.h *= 2 }},
		{"epsilon", f.eps * 10, func(f *flow) { f.eps *= 10 }},
		{"epsilon", f.eps / 10, func(f *flow) { f.eps /= 10 }},
	} {
		g := f
		c.change(&g)
		if g.h == f.h && c.of == "h" || g.eps >= 1 {
			continue
		}
		_, all, err := g.bounds()
		if err != nil {
			continue // no load is safe there: the row is left out
		}
		rho := min(1/(1+g.h), g.survivors(all)*base/few)
		out = append(out, Sensitivity{Of: c.of, Value: c.value, Rho: rho, Lambda: rho * f.m.MuPlan, Instances: g.fleet(g.peak, rho)})
	}
	return out, nil
}

// short prints a share or a ratio without digits that mean nothing.
func short(x float64) string { return fmt.Sprintf("%.4g", x) }

package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"loadline/internal/chart"
)

// Published are the findings of the published rule, in its order.
var Published = []string{
	"measurement_trust", "curve_repeatability", "slo_budget", "invocation_ceiling", "queue_depth",
	"threshold_units", "surge_survival", "scale_in_safety", "fleet_cost", "provision_stage",
}

// Limits of the published findings.
const (
	spreadLimit = 0.20 // of q_max over runs
	shedLimit   = 0.10
	stageSlack  = 0.01 // of the total, before stages do not add up
)

func publishedFindings(m Measured, r Rule) []Finding {
	return []Finding{
		measurementTrust(m), curveRepeatability(m), sloBudget(m, r, m.SP95), invocationCeiling(*r.WMax+m.SP95, r.Ceiling),
		queueDepth(m, r), thresholdUnits(r), surgeSurvival(m, r), scaleInSafety(r), fleetCost(r, m, OK), provisionStage(m),
	}
}

// worstOf is the worst verdict but for NotChecked, which does not count, and how many warn.
func worstOf(fs []Finding) (Verdict, int) {
	worst, warns := OK, 0
	for _, f := range fs {
		if f.Verdict == Warn {
			warns++
		}
		if f.Verdict != NotChecked && f.Verdict.rank() > worst.rank() {
			worst = f.Verdict
		}
	}
	return worst, warns
}

// conclude turns accepted stops into recorded warnings, puts the worst first and gives the rule its verdict.
func (r *Rule) conclude(accept []string) { r.Findings, r.Verdict = Conclude(r.Findings, accept) }

// Conclude is findings with accepted stops as recorded warnings, the worst first, and their verdict.
func Conclude(findings []Finding, accept []string) ([]Finding, Verdict) {
	fs := slices.Clone(findings)
	for i, f := range fs {
		if f.Verdict == Stop && slices.Contains(accept, f.Name) {
			fs[i].Verdict, fs[i].Accepted = Warn, true
		}
	}
	slices.SortStableFunc(fs, func(a, b Finding) int { return cmp.Compare(b.Verdict.rank(), a.Verdict.rank()) })
	v, _ := worstOf(fs)
	return fs, v
}

// Find is the finding of that name, or nil.
func (r Rule) Find(name string) *Finding {
	for i, f := range r.Findings {
		if f.Name == name {
			return &r.Findings[i]
		}
	}
	return nil
}

func measurementTrust(m Measured) Finding {
	f := Finding{Name: "measurement_trust", Verdict: OK}
	if m.Frozen == nil {
		f.Verdict = NotChecked
		f.Detail = "measured by URL: whether replicas were added, or the queue is bounded, cannot be read"
		f.Recommendation = "measure one replica, with its autoscaler off"
		return f
	}
	var doubts []string
	if !*m.Frozen {
		doubts = append(doubts, "scaling was not frozen")
	}
	if len(m.Counts) > 1 {
		doubts = append(doubts, fmt.Sprintf("the instance count changed: %v", m.Counts))
	}
	switch {
	case m.QueueBound == nil:
		doubts = append(doubts, "whether the container bounds its queue was not checked")
	case *m.QueueBound > 0:
		doubts = append(doubts, fmt.Sprintf("the container refuses above %d requests", *m.QueueBound))
	}
	if len(doubts) > 0 {
		f.Verdict = Warn
		f.Detail = strings.Join(doubts, "; ")
		f.Recommendation = "measure again with scaling frozen, one instance and an unbounded queue"
		return f
	}
	f.Detail = "scaling frozen, one instance throughout, unbounded queue"
	return f
}

func curveRepeatability(m Measured) Finding {
	f := Finding{Name: "curve_repeatability", Verdict: OK}
	if len(m.PerRun) < 2 {
		f.Verdict = NotChecked
		f.Detail = fmt.Sprintf("runs with an answer: %d; a spread needs two", len(m.PerRun))
		f.Recommendation = "tts-bench qmax --runs 3"
		if m.Runs > 1 && len(m.PerRun) > 0 {
			f.Verdict = Warn
			f.Detail = fmt.Sprintf("of %d runs one alone gave an answer", m.Runs)
			f.Recommendation = "find out why the others had none before trusting the one that had"
		}
		return f
	}
	lo, hi := slices.Min(m.PerRun), slices.Max(m.PerRun)
	spread := float64(hi-lo) / float64(lo)
	f.Detail = fmt.Sprintf("Q_max %d to %d over %d runs: spread %.0f %%", lo, hi, len(m.PerRun), 100*spread)
	if m.Runs > len(m.PerRun) {
		f.Verdict = Warn
		f.Detail += fmt.Sprintf("; %d of %d runs gave no answer", m.Runs-len(m.PerRun), m.Runs)
		f.Recommendation = "find out why a run had no answer before trusting those that had"
	}
	if spread > spreadLimit {
		f.Verdict = Warn
		f.Recommendation = "the lowest run is used; measure at another time of day"
	}
	return f
}

// sloBudget holds what one request takes on its own (its p95, in seconds) against the objective.
func sloBudget(m Measured, r Rule, alone float64) Finding {
	f := Finding{Name: "slo_budget", Verdict: OK}
	f.Detail = fmt.Sprintf("objective %.3f s − %.3f s for a request alone (p95) leaves %.3f s to wait", m.SLO, alone, *r.WMax)
	switch {
	case alone >= m.SLO:
		f.Verdict = Stop
		f.Recommendation = "one request alone misses the objective: a faster instance, a shorter text or a longer objective"
	case *r.WMax < alone:
		f.Verdict = Warn
		f.Recommendation = "less time to wait than to serve: hardly a queue fits, so plan on little concurrency"
	}
	return f
}

func invocationCeiling(longest, ceiling float64) Finding {
	f := Finding{Name: "invocation_ceiling", Verdict: OK}
	f.Detail = fmt.Sprintf("longest wait and service %.2f s of the %.0f s that the platform allows", longest, ceiling)
	if longest > ceiling {
		f.Verdict = Stop
		f.Recommendation = "the platform ends such a request before it is answered: a shorter objective, or a streaming transport and its --ceiling"
	}
	return f
}

func queueDepth(m Measured, r Rule) Finding {
	f := Finding{Name: "queue_depth", Verdict: OK}
	if r.QueueMaxDepth < m.QMax && r.QueueMaxDepth == m.belowCliff() {
		f.Verdict = Warn
		f.Detail = fmt.Sprintf("depth %d, below Q_max %d: the ladder shows a cliff right above that, where one request more makes every one late", r.QueueMaxDepth, m.QMax)
		f.Recommendation = "find out what gives way there (memory, a pool of workers, a limit of connections): beside a slope the whole Q_max could be used"
		return f
	}
	if r.QueueMaxDepth < m.QMax {
		f.Verdict = Warn
		f.Detail = fmt.Sprintf("depth %d, below Q_max %d: the last of more would wait beyond the platform's %g s", r.QueueMaxDepth, m.QMax, r.Ceiling)
		f.Recommendation = "a streaming transport and its --ceiling, or a shorter objective"
		return f
	}
	f.Detail = fmt.Sprintf("depth %d = Q_max (%s); W_max / S_mean = %.1f, objective × μ = %.1f", r.QueueMaxDepth, m.QSource, *r.WMax/m.SMean, m.SLO*m.MuPlan)
	if m.Lower {
		f.Verdict = Warn
		f.Detail = fmt.Sprintf("Q_max %d is a lower bound: no higher rung missed the objective; objective × μ = %.1f", m.QMax, m.SLO*m.MuPlan)
		f.Recommendation = "measure higher concurrencies"
	}
	return f
}

func thresholdUnits(r Rule) Finding {
	f := Finding{Name: "threshold_units", Verdict: OK}
	if r.CWRatio == nil {
		f.Verdict = NotChecked
		f.Detail = "no CloudWatch ratio: what the policy's metric reads at C_scale_max is not known, so no target is set"
		f.Recommendation = "tts-bench qmax with the CloudWatch join"
		return f
	}
	f.Detail = fmt.Sprintf("CloudWatch reads %.3f × the client's concurrency at the rung nearest C_scale_max", *r.CWRatio)
	return f
}

func surgeSurvival(m Measured, r Rule) Finding {
	f := Finding{Name: "surge_survival", Verdict: OK}
	f.Detail = fmt.Sprintf("M/M/1 from %.0f of %d at %.1f %% load, no surge applied, reaches the bound within %.1f s with probability %.3f",
		math.RoundToEven(*r.CScaleMax), m.QMax, 100**r.Utilization, m.Lag.T, *r.Shed)
	if *r.Shed > shedLimit {
		f.Verdict = Warn
		f.Recommendation = "requests are refused before help arrives: the flow rule reserves rate instead of slots (--rule flow)"
	}
	return f
}

func scaleInSafety(r Rule) Finding {
	f := Finding{Name: "scale_in_safety", Verdict: OK}
	switch {
	case r.MinSafe == nil:
		f.Verdict = Warn
		f.Detail = "the scale-in and scale-out thresholds are one: no fleet can lose an instance without scaling out again"
		f.Recommendation = "a surge ratio above 1"
	case r.Min < *r.MinSafe:
		f.Verdict = Warn
		f.Detail = fmt.Sprintf("min_instances %d is below %d, the smallest fleet whose survivors stay under C_scale_max when one leaves", r.Min, *r.MinSafe)
		f.Recommendation = fmt.Sprintf("--min-floor %d", *r.MinSafe)
	default:
		f.Detail = fmt.Sprintf("min_instances %d ≥ %d, the smallest fleet that can lose one", r.Min, *r.MinSafe)
	}
	return f
}

// fleetCost says what the fleet costs; unpriced is its verdict where that is not known: the published rule's is OK even so.
func fleetCost(r Rule, m Measured, unpriced Verdict) Finding {
	f := Finding{Name: "fleet_cost", Verdict: OK}
	if r.Cost.Peak == nil {
		f.Verdict = unpriced
		f.Detail = fmt.Sprintf("%d to %d instances; the price is not known, so neither is the cost", r.Min, r.Peak)
		f.Recommendation = "price_per_hour, price_source and price_date in models.yaml"
		return f
	}
	f.Detail = fmt.Sprintf("%s an hour at min, %s at the peak", chart.Money(*r.Cost.Min, 2), chart.Money(*r.Cost.Peak, 2))
	if r.CostPerMChars != nil {
		f.Detail += fmt.Sprintf("; %s a million characters if all of the peak is served", chart.Money(*r.CostPerMChars, 4))
		if r.FleetRPS < r.PeakRPS {
			f.Detail += fmt.Sprintf(", %s by what the fleet completes", chart.Money(*r.Cost.Peak/(r.FleetRPS**m.CharsPerRequest*3600)*1e6, 2))
		}
	}
	return f
}

func provisionStage(m Measured) Finding {
	f := Finding{Name: "provision_stage", Verdict: OK}
	if m.Lag.Assumed {
		f.Verdict = Warn
		f.Detail = fmt.Sprintf("T = %.1f s is assumed, not measured", m.Lag.T)
		f.Recommendation = "tts-bench ttotal, then plan --ttotal FILE"
		return f
	}
	if m.ProvisionStage == nil {
		f.Detail = fmt.Sprintf("T = %.1f s; the file does not time the provisioning alone", m.Lag.T)
		return f
	}
	f.Detail = fmt.Sprintf("provisioning %.1f s is %.0f %% of the measured %.1f s and %.0f %% of T = %.1f s (detection %.0f s)",
		*m.ProvisionStage, 100**m.ProvisionStage/m.Lag.Provision, m.Lag.Provision, 100**m.ProvisionStage/m.Lag.T, m.Lag.T, m.Lag.Detection)
	return f
}

// fleetThroughput holds what the fleet completes against what it is asked for. The published arithmetic never did.
func fleetThroughput(m Measured, s Scenario, r Rule) Finding {
	f := Finding{Name: "fleet_throughput", Verdict: OK}
	share := r.FleetRPS / r.PeakRPS
	f.Detail = fmt.Sprintf("%d × %.1f = %.0f of %s requests a second (%.0f %%)", r.Peak, m.MuPlan, math.Floor(r.FleetRPS), number(r.PeakRPS), math.Floor(100*share))
	if s.PeakStreams > 0 {
		f.Detail += fmt.Sprintf("; %s streams at %.3f s each", number(s.PeakStreams), m.SMean)
	}
	switch {
	case share < 1:
		f.Verdict = Stop
		f.Recommendation = fmt.Sprintf("%d instances complete the peak, with nothing to spare; --rule flow sizes by throughput", ceil(r.PeakRPS/m.MuPlan))
	case share < s.SurgeRatio*(1-1e-9):
		f.Verdict = Warn
		f.Recommendation = fmt.Sprintf("the peak fits but not its surge of %g: %d instances would carry both", s.SurgeRatio, ceil(r.PeakRPS*s.SurgeRatio/m.MuPlan))
	}
	return f
}

// signalBlind says whether the metric still tells loads apart where the policy acts on it.
func signalBlind(m Measured, r Rule, model Instance) Finding {
	f := Finding{Name: "signal_blind", Verdict: OK}
	switch {
	case r.Signal == SignalConcurrency:
		f.Detail = fmt.Sprintf("scales on concurrency, target %s held: %s", number(*r.ScalingTarget), r.SignalWhy)
		return f
	case r.CScaleMax == nil:
		f.Detail = fmt.Sprintf("scales on invocations: linear in the load, target %.3f a second and instance of %.3f", *r.LambdaStar, m.MuPlan)
		return f
	}
	full := model.Saturation()
	f.Detail = fmt.Sprintf("an instance that holds %.1f requests already completes %.0f %% of its most; the target is %.1f", full, 100*Saturated, *r.CScaleMax)
	if *r.CScaleMax >= full {
		f.Verdict = Warn
		f.Detail += ": it is reached only after the queue has run away"
		if *r.CScaleMin >= full {
			f.Detail += fmt.Sprintf(", and scale-in at %.1f is true of every healthy fleet", *r.CScaleMin)
		}
		f.Recommendation = "scale on a rate, or on a concurrency measured at λ* under open arrivals"
	}
	return f
}

// surgeSlots is how long the slots that the published rule reserves last in the surge that they are reserved for.
func surgeSlots(m Measured, s Scenario, r Rule) Finding {
	f := Finding{Name: "surge_slots", Verdict: OK}
	h := s.SurgeRatio - 1
	if h == 0 {
		f.Verdict = NotChecked
		f.Detail = "no surge stated"
		return f
	}
	free := float64(m.QMax) - *r.CScaleMax
	lasts := free / (h * m.MuPlan)
	f.Detail = fmt.Sprintf("%.1f free slots fill in %.1f s at a surge of %g; T is %.0f s, which takes %.0f slots, the last of which waits %.0f s",
		free, lasts, s.SurgeRatio, m.Lag.T, h*m.MuPlan*m.Lag.T, h*m.Lag.T)
	if lasts < m.Lag.T {
		f.Verdict = Warn
		f.Recommendation = "slots are a stock and load is a flow: reserve rate (--rule flow)"
	}
	return f
}

func closedLoopRatio(m Measured) Finding {
	f := Finding{Name: "cw_ratio_closed_loop", Verdict: OK}
	has := false
	for _, p := range m.Points {
		has = has || p.Ratio != nil
	}
	switch {
	case !has:
		f.Verdict = NotChecked
		f.Detail = "no CloudWatch ratio was measured"
	case m.ClosedRatio:
		f.Verdict = Warn
		f.Detail = "the ratio comes from a closed loop, which pins concurrency: maximum = mean by construction"
		f.Recommendation = "real arrivals read 1.35 to 9.8: measure it open loop (tts-bench rates)"
	default:
		f.Detail = "measured under open arrivals"
	}
	return f
}

// stagesAddUp is there for scale-out files that list their durations.
func stagesAddUp(m Measured) (Finding, bool) {
	f := Finding{Name: "stages_dont_add_up", Verdict: OK}
	if m.StagesSum == nil || m.StagesTotal == nil {
		return f, false
	}
	f.Detail = fmt.Sprintf("stages sum to %.1f s, the total is %.1f s", *m.StagesSum, *m.StagesTotal)
	if math.Abs(*m.StagesSum-*m.StagesTotal) > stageSlack**m.StagesTotal {
		f.Verdict = Warn
		f.Recommendation = "the file counts the probe's own warm-up as a stage; the total is what is used"
	}
	return f, true
}

// number prints a figure without digits that mean nothing.
func number(x float64) string {
	if x >= 100 || x == math.Trunc(x) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// Stoppable are the findings that can stop a plan, and so be accepted.
var Stoppable = []string{"slo_budget", "invocation_ceiling", "fleet_throughput", "quota"}

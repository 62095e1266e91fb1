package capacity

import (
	"fmt"
	"math"

	"loadline/internal/chart"
)

// Limits of the flow rule's findings.
const (
	textsDiffer = 0.15 // of the corpus's mean length
	dearRouting = 1.5  // times the fleet that a routing which balances would need
	killMargin  = 28   // seconds of the kill's 30 that a server can use
)

// quota holds the fleet against what the account may run. A step beyond the quota is refused whole, so max stays within.
func quota(r Rule, s Scenario, wanted int) Finding {
	f := Finding{Name: "quota", Verdict: OK}
	switch {
	case s.Quota <= 0:
		f.Verdict = NotChecked
		f.Detail = fmt.Sprintf("the account's quota of this instance type is not known; the plan asks for up to %d", wanted)
		f.Recommendation = "--quota N, or quota in models.yaml: aws service-quotas list-service-quotas --service-code sagemaker"
	case r.Peak > s.Quota || r.Min > s.Quota:
		f.Verdict = Stop
		f.Detail = fmt.Sprintf("the peak takes %d instances and the quota is %d", max(r.Peak, r.Min), s.Quota)
		f.Recommendation = fmt.Sprintf("ask for a quota of %d before deploying", wanted)
	case wanted > s.Quota:
		f.Verdict = Warn
		f.Detail = fmt.Sprintf("the first step of a surge takes %d instances; max is held at the quota of %d, since a step beyond it is refused whole", wanted, s.Quota)
		f.Recommendation = fmt.Sprintf("ask for a quota of %d", wanted)
	default:
		f.Detail = fmt.Sprintf("max %d within the quota of %d", wanted, s.Quota)
	}
	return f
}

// router says what the routing assumed is worth.
func router(f flow, r Rule) Finding {
	out := Finding{Name: "router", Verdict: OK}
	drift := f.fleet(f.peak, 1/(1+f.h))
	if f.routing == RouteLOR {
		out.Verdict = Warn
		out.Detail = fmt.Sprintf("planned on least-outstanding routing that balances perfectly, which the platform does not promise; "+
			"a fleet smaller than %d pools less, and one instance alone is bound as with random routing", r.Peak)
		out.Recommendation = "set RoutingStrategy LEAST_OUTSTANDING_REQUESTS, and prove the plan under load"
		return out
	}
	out.Detail = fmt.Sprintf("planned on random routing, the default: %d instances", r.Peak)
	if r.Peak > drift {
		out.Detail += fmt.Sprintf("; least-outstanding routing, if it balances, needs about %d (--routing lor)", drift)
	}
	if float64(r.Peak) > dearRouting*float64(drift) {
		out.Verdict = Warn
		out.Detail += fmt.Sprintf(": an instance that holds %d at most is overrun by chance long before it is by load", f.depth)
		out.Recommendation = "RoutingStrategy LEAST_OUTSTANDING_REQUESTS and --routing lor, a larger Q_max (a longer objective, a faster instance), or a larger --epsilon"
	}
	return out
}

// longStreams holds the longest replies against the time that an instance has to finish once it is removed.
func longStreams(m Measured, r Rule) Finding {
	f := Finding{Name: "long_streams", Verdict: OK}
	p99, what, cut := m.SP95, "p95 (the p99 is not known)", math.NaN()
	if m.Streams != nil {
		p99, what, cut = m.Streams.P99, "p99", m.Streams.Cut
	}
	f.Detail = fmt.Sprintf("a reply takes %.2f s alone, %s; an instance that is removed is killed after %d s", p99, what, Kill)
	if r.Signal == SignalConcurrency {
		f.Detail += fmt.Sprintf("; an instance at Q_max starts %.3g requests a minute, so a higher InvocationsPerInstance target, such as 30, never fires", r.Invocations[1].PerMinute)
	}
	if p99 > killMargin {
		f.Verdict = Warn
		if r.Held != nil && !math.IsNaN(cut) {
			f.Detail += fmt.Sprintf("; each scale-in cuts %.2f of the %.1f replies that it holds at λ*", cut**r.Held, *r.Held)
		}
		f.Recommendation = "shorter texts, a server that ends at a sentence with a word where to go on, or scale-in in quiet hours alone; " +
			"a session that stays open holds its slot while idle"
	}
	return f
}

func coldCache(s Scenario, r Rule) Finding {
	f := Finding{Name: "cold_cache", Verdict: OK, Detail: "one model an instance: nothing is evicted"}
	if s.MultiModel {
		f.Verdict = Warn
		f.Detail = fmt.Sprintf("several models share an instance: a new one serves from a cold cache, so both cooldowns are doubled (%d and %d s) and min is %d",
			r.OutCooldown, r.InCooldown, r.Min)
		f.Recommendation = "measure T with the cache cold: tts-bench ttotal on the model that is asked for least"
	}
	return f
}

// idleEndpoint is what the smallest fleet costs while nobody asks.
func idleEndpoint(m Measured, s Scenario, r Rule) Finding {
	f := Finding{Name: "idle_endpoint", Verdict: OK}
	cost := "at an unknown price"
	per := func(hours float64) string {
		if m.PricePerHour == nil {
			return cost
		}
		return chart.Money(hours*float64(r.Min)**m.PricePerHour, 2) + " a day"
	}
	switch {
	case s.IdleHours == nil && r.Trough == nil:
		f.Verdict = NotChecked
		f.Detail = fmt.Sprintf("hours without a request are not known; each costs %d instances", r.Min)
		f.Recommendation = "--trace FILE of a day or more, or --trough-rps"
	case s.IdleHours == nil:
		f.Detail = fmt.Sprintf("at the trough %d instances carry %s of what they may", r.Min,
			percent(s.trough().perSecond(m.SMean)/(float64(r.Min)**r.LambdaStar)))
	case *s.IdleHours < 1:
		f.Detail = fmt.Sprintf("%.1f hours a day without a request: %s", *s.IdleHours, per(*s.IdleHours))
	default:
		f.Verdict = Warn
		f.Detail = fmt.Sprintf("%.1f hours a day without a request: %s for %d instances that wait", *s.IdleHours, per(*s.IdleHours), r.Min)
		f.Recommendation = "a schedule that deletes and creates the endpoint, an inference component that scales to zero, or an asynchronous endpoint"
	}
	return f
}

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// throughputPerText holds the texts that were measured against those of production: a rate of requests is a rate of texts
// of that length.
func throughputPerText(m Measured, s Scenario) Finding {
	f := Finding{Name: "throughput_per_text", Verdict: OK}
	corpus := m.CharsPerRequest
	if m.CorpusChars != nil {
		corpus = m.CorpusChars
	}
	switch {
	case corpus == nil:
		f.Verdict = NotChecked
		f.Detail = "the ladder does not say how long its texts are"
		f.Recommendation = "tts-bench qmax --corpus FILE with texts of production"
	case s.CharsMean == 0:
		f.Verdict = NotChecked
		f.Detail = fmt.Sprintf("measured with texts of %.1f characters; those of production are not known", *corpus)
		f.Recommendation = "--chars-mean N"
	case math.Abs(s.CharsMean / *corpus - 1) <= textsDiffer:
		f.Detail = fmt.Sprintf("texts of %.1f characters were measured, production's have %.1f", *corpus, s.CharsMean)
	case m.CorpusChars == nil:
		f.Verdict = Warn
		f.Detail = fmt.Sprintf("texts of %.1f characters were measured and production's have %.1f: neither μ nor Q_max holds for those, and no request log tells how they scale", *corpus, s.CharsMean)
		f.Recommendation = "tts-bench qmax --corpus FILE with texts of production"
	default:
		f.Verdict = Warn
		l := m.Length
		f.Detail = fmt.Sprintf("texts of %.1f characters were measured; figures are scaled to %.1f by %.2f ms + %.3f ms a character (service, r² %.2f, %d requests of %.0f to %.0f characters)",
			*corpus, s.CharsMean, 1000*l.Service.Base, 1000*l.Service.PerChar, l.Service.R2, l.N, l.Low, l.High)
		if s.CharsMean < l.Low || s.CharsMean > l.High {
			f.Detail += ": beyond what was measured"
		}
		f.Recommendation = "tts-bench qmax --corpus FILE with texts of production confirms it"
	}
	return f
}

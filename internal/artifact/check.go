package artifact

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"loadline/internal/sample"
)

// problems collects what cannot be true of a record, so that all of it is told at once.
type problems []error

func (p *problems) add(format string, a ...any) { *p = append(*p, fmt.Errorf(format, a...)) }

func (p *problems) when(bad bool, format string, a ...any) {
	if bad {
		p.add(format, a...)
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	text := make([]string, len(p))
	for i, e := range p {
		text[i] = e.Error()
	}
	return errors.New(strings.Join(text, "; "))
}

func (p *problems) header(h *Header) {
	p.when(!plainToken(h.RunID), "run_id %q is not a plain word of letters, digits, - and _", h.RunID)
	p.when(h.Target.Model == "", "target.model is empty")
	p.when(h.Fingerprint.QueueBound != nil && *h.Fingerprint.QueueBound < 0, "fingerprint.queue_bound is negative")
}

// Check finds what cannot be true of the ladder; nil when it holds together.
func (q *QMax) Check() error {
	var p problems
	p.header(&q.Header)
	p.when(!(q.SLOMS > 0), "slo_ms is %g: it must be above 0", q.SLOMS)
	p.when(!(q.Percentile > 0 && q.Percentile < 100), "percentile is %g: it must lie between 0 and 100", q.Percentile)
	switch sample.Mark(q.SLOOn) {
	case sample.OnFirstAudio, sample.OnFirstAudible, sample.OnTotal:
	default:
		p.add("slo_on is %q: it must be %s, %s or %s", q.SLOOn, sample.OnFirstAudio, sample.OnFirstAudible, sample.OnTotal)
	}
	p.when(q.QMax != nil && *q.QMax < 1, "q_max is below 1: an endpoint that holds no request has none (null)")
	if c := q.Certificate; c != nil {
		p.when(!(c.Confidence > 0 && c.Confidence < 1), "certificate.confidence is %g: it must lie between 0 and 1", c.Confidence)
		p.when(c.N < 1 || c.Late < 0 || c.Late > c.N, "certificate: %d late of %d", c.Late, c.N)
	}
	p.when(q.Bracket.Pass < 0 || q.Bracket.Fail < 0, "bracket is negative")
	p.when(q.Bracket.Fail > 0 && q.Bracket.Fail <= q.Bracket.Pass, "bracket: the rung that missed (%d) lies below the one that passed (%d)", q.Bracket.Fail, q.Bracket.Pass)
	for i := range q.Rungs {
		r := &q.Rungs[i]
		p.when(r.N < 1, "rungs[%d].n is %d", i, r.N)
		p.when(r.X < 0, "rungs[%d].x_rps is negative", i)
		p.when(r.Samples < 0 || r.Late < 0 || r.Late > r.Samples || r.OK < 0 || r.OK > r.Samples, "rungs[%d]: %d late and %d ok of %d", i, r.Late, r.OK, r.Samples)
		for _, v := range []struct {
			name string
			v    *float64
		}{{"p50_ms", r.P50}, {"p95_ms", r.P95}, {"p99_ms", r.P99}, {"s_mean_s", r.SMean}, {"s_p95_s", r.SP95}} {
			p.when(v.v != nil && *v.v < 0, "rungs[%d].%s is negative", i, v.name)
		}
	}
	p.when(q.Mu.Value < 0, "mu_rps is negative")
	p.when(q.SMean != nil && *q.SMean < 0, "s_mean_s is negative")
	p.when(q.SP95 != nil && *q.SP95 < 0, "s_p95_s is negative")
	p.when(q.Price != nil && q.Price.PerHour < 0, "price.per_hour is negative")
	return p.err()
}

// tiles is how far the stages may add up beside the total, in seconds: times are written to the millisecond.
const tiles = 0.001

// Check finds what cannot be true of the scale-out; nil when it holds together.
func (t *TTotal) Check() error {
	var p problems
	p.header(&t.Header)
	p.when(!(t.TTotal > 0), "t_total_s is %g: it must be above 0", t.TTotal)
	p.when(t.Detection < 0, "detection_s is negative")
	p.when(math.Abs(t.TTotal+t.Detection-t.Planning) > tiles, "planning_s is %g, and t_total_s + detection_s is %g", t.Planning, t.TTotal+t.Detection)
	sum, at := 0.0, ""
	for i, d := range t.Durations {
		p.when(d.Seconds < 0, "durations[%d] (%s to %s) is negative", i, d.From, d.To)
		p.when(i > 0 && at != d.From, "durations[%d] starts at %s, and the one before it ends at %s", i, d.From, at)
		sum, at = sum+d.Seconds, d.To
	}
	if len(t.Durations) > 0 && !t.ListsProbeWarmup {
		p.when(math.Abs(sum-t.TTotal) > tiles*float64(len(t.Durations)), "the stages add up to %.3f s, and t_total_s is %.3f s", sum, t.TTotal)
	}
	var last time.Time
	for i, s := range t.Timeline {
		p.when(s.Name == "", "timeline[%d] has no name", i)
		p.when(i > 0 && s.At.Before(last), "timeline[%d] (%s) lies before the stage listed above it", i, s.Name)
		last = s.At
	}
	return p.err()
}

// Check finds what cannot be true of the plan; nil when it holds together.
func (pl *Plan) Check() error {
	var p problems
	p.header(&pl.Header)
	p.when(pl.Rule != "slots" && pl.Rule != "flow", "rule is %q: it must be slots or flow", pl.Rule)
	p.when(pl.Config.MinInstances < 0 || pl.Config.MaxInstances < pl.Config.MinInstances, "config: min_instances %d, max_instances %d", pl.Config.MinInstances, pl.Config.MaxInstances)
	return p.err()
}

// Check finds what cannot be true of the freeze record; nil when it can be restored from.
func (f *Freeze) Check() error {
	var p problems
	p.when(f.Endpoint == "", "endpoint is empty")
	p.when(f.Variant == "", "variant is empty")
	p.when(f.Desired < 0, "desired is negative")
	p.when(f.HadTarget && (f.Min < 0 || f.Max < f.Min), "min is %d and max %d", f.Min, f.Max)
	return p.err()
}

// plainToken says whether s is safe as a part of a file name: letters, digits, - and _, at most 64.
func plainToken(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

package measure

import (
	"fmt"
	"math"
	"slices"
	"time"

	"loadline/internal/ladder"
)

// Metric is one metric of the variant, by one statistic.
type Metric struct {
	Namespace, Name, Stat string
	Period                time.Duration // the period at which it is published
}

// Point is one datapoint: At is the start of its period.
type Point struct {
	At    time.Time
	Value float64
}

func endpointMetric(name, stat string, period time.Duration) Metric {
	return Metric{Namespace: "AWS/SageMaker", Name: name, Stat: stat, Period: period}
}

// The metrics that are joined to a rung, each at the period SageMaker publishes it.
var (
	concurrencyMin  = endpointMetric("ConcurrentRequestsPerModel", "Minimum", 10*time.Second)
	concurrencyMax  = endpointMetric("ConcurrentRequestsPerModel", "Maximum", 10*time.Second)
	concurrencyMean = endpointMetric("ConcurrentRequestsPerModel", "Average", 10*time.Second)
	modelLatency    = endpointMetric("ModelLatency", "p95", time.Minute) // microseconds
	invocations     = endpointMetric("Invocations", "Sum", time.Minute)
	errors4XX       = endpointMetric("Invocation4XXErrors", "Sum", time.Minute)
	errors5XX       = endpointMetric("Invocation5XXErrors", "Sum", time.Minute)
	cpu             = Metric{"/aws/sagemaker/Endpoints", "CPUUtilization", "Average", time.Minute}
	gpu             = Metric{"/aws/sagemaker/Endpoints", "GPUUtilization", "Average", time.Minute}

	joined = []Metric{concurrencyMin, concurrencyMax, concurrencyMean, modelLatency, invocations, errors4XX, errors5XX, cpu, gpu}
	// awaited are those that are published for every period with traffic; the others come with them or not at all.
	awaited = []Metric{concurrencyMax, invocations}
)

const (
	// tolerance is how far the server's concurrency may lie from the client's before the two cannot be squared.
	tolerance = 0.25
	// latencyNoise allows for two 95th percentiles of not quite the same requests.
	latencyNoise = 1.05
)

// span is a rung's measured window on the wall clock.
type span struct{ from, to time.Time }

func spanOf(start time.Time, r ladder.Rung) span {
	return span{start.Add(time.Duration(r.StartedNS)), start.Add(time.Duration(r.EndedNS))}
}

// whole is the start of the first period that lies wholly inside s, and how many do.
func (s span) whole(period time.Duration) (first time.Time, n int) {
	first = s.from.Round(0).Truncate(period)
	if first.Before(s.from) {
		first = first.Add(period)
	}
	if d := s.to.Sub(first); d > 0 {
		n = int(d / period)
	}
	return first, n
}

// within is the values of the whole periods inside s. A period that straddles an edge also holds what was not measured
// here, and is left out.
func (s span) within(m Metric, points []Point) []float64 {
	first, n := s.whole(m.Period)
	last := first.Add(time.Duration(n) * m.Period)
	var values []float64
	for _, p := range points {
		if !p.At.Before(first) && p.At.Before(last) {
			values = append(values, p.Value)
		}
	}
	return values
}

// unpublished is how many datapoints that must come are not there yet.
func unpublished(spans []span, points map[Metric][]Point) int {
	missing := 0
	for _, m := range awaited {
		for _, s := range spans {
			_, n := s.whole(m.Period)
			missing += max(0, n-len(s.within(m, points[m])))
		}
	}
	return missing
}

// join is what CloudWatch says of a rung, nil when no whole period lies inside its window or none was published.
func join(r ladder.Rung, s span, points map[Metric][]Point) *ladder.Server {
	reduce := func(m Metric, f func([]float64) float64) *float64 {
		values := s.within(m, points[m])
		if len(values) == 0 {
			return nil
		}
		v := f(values)
		return &v
	}
	out := &ladder.Server{
		Periods:         len(s.within(concurrencyMax, points[concurrencyMax])),
		ConcurrencyMin:  reduce(concurrencyMin, slices.Min[[]float64]),
		ConcurrencyMax:  reduce(concurrencyMax, slices.Max[[]float64]),
		ConcurrencyMean: reduce(concurrencyMean, mean),
		ModelLatencyP95: reduce(modelLatency, func(v []float64) float64 { return mean(v) / 1000 }),
		Invocations:     reduce(invocations, sum),
		Errors4XX:       reduce(errors4XX, sum),
		Errors5XX:       reduce(errors5XX, sum),
		CPU:             reduce(cpu, mean),
		GPU:             reduce(gpu, mean),
	}
	if out.Periods == 0 {
		return nil
	}
	client := inFlight(r)
	if out.ConcurrencyMax != nil && client > 0 {
		ratio := *out.ConcurrencyMax / client
		out.Ratio = &ratio
	}
	out.Agreement, out.Squared = square(out, client, r.SP95)
	return out
}

// inFlight is the client's mean requests in flight over the rung.
func inFlight(r ladder.Rung) float64 {
	if r.Client != nil && r.Client.InFlight > 0 {
		return r.Client.InFlight
	}
	return float64(r.N)
}

// square compares the two sides of a rung. What the server held must be what the client held, and no request can have
// taken the server longer than it took the client.
func square(s *ladder.Server, client float64, clientP95 *float64) (agreement string, ok bool) {
	held, by := s.ConcurrencyMean, "mean"
	if held == nil {
		held, by = s.ConcurrencyMax, "maximum"
	}
	if held != nil && math.Abs(*held-client) > tolerance*client {
		return fmt.Sprintf("cannot be squared: the server's %s concurrency %.1f, the client's %.1f", by, *held, client), false
	}
	if l := s.ModelLatencyP95; l != nil && clientP95 != nil && *l > *clientP95*1000*latencyNoise {
		return fmt.Sprintf("cannot be squared: the server's p95 %.0f ms lies above the client's %.0f ms", *l, *clientP95*1000), false
	}
	return "agrees", true
}

func sum(v []float64) float64 {
	total := 0.0
	for _, x := range v {
		total += x
	}
	return total
}

func mean(v []float64) float64 { return sum(v) / float64(len(v)) }

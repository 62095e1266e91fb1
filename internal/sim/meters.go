package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadline/internal/alarm"
)

// period is the finest period of any metric.
const period = 10 * time.Second

// level is what a period reads of something that is there all the time.
type level struct {
	mean, most, least float64
	n                 float64 // samples; 0: there was nothing to read
}

// meters is the metrics that alarms read, in periods of ten seconds from the start on. A metric that AWS publishes by the
// minute can be read by the minute; with enhanced metrics it can be read by ten seconds too, and so it can here.
type meters struct {
	start       time.Time
	delay       time.Duration
	concurrency []level
	cpu         []level
	perInstance []float64 // invocations, each over the instances that took traffic when it came
	invocations []float64
}

// The metrics by their names.
const (
	metricConcurrency = "ConcurrentRequestsPerModel"
	metricPerInstance = "InvocationsPerInstance"
	metricInvocations = "Invocations"
	metricCPU         = "CPUUtilization"
	metricGPU         = "GPUUtilization"
)

// known says what keeps the simulator from telling a query's metric.
func known(q *alarm.Query) error {
	names := []string{metricConcurrency, metricPerInstance, metricInvocations, metricCPU, metricGPU}
	switch {
	case q.Math != "":
		return fmt.Errorf("metric math is not simulated: name one metric")
	case !slices.Contains(names, q.Name):
		return fmt.Errorf("metric %q is not simulated: there are %s", q.Name, strings.Join(names, ", "))
	case strings.HasPrefix(q.Statistic, "p"):
		return fmt.Errorf("the statistic %s of %s is not simulated: Sum, Average, Minimum, Maximum and SampleCount are", q.Statistic, q.Name)
	}
	return nil
}

// Read is the datapoints of an alarm.
func (m *meters) Read(q *alarm.Query, p time.Duration, end, now time.Time, values []float64) {
	per := int(p / period)
	last := int(end.Sub(m.start) / period)
	late := 0 // periods that cannot be read yet
	for stop := end; stop.Add(m.delay).After(now); stop = stop.Add(-p) {
		late++
	}
	for i := range values {
		to := last - i*per
		from := to - per
		if values[i] = math.NaN(); i >= late && from >= 0 {
			values[i] = m.read(q, from, to)
		}
	}
}

func (m *meters) read(q *alarm.Query, from, to int) float64 {
	switch q.Name {
	case metricConcurrency:
		return readLevels(m.concurrency, from, to, q.Statistic)
	case metricCPU, metricGPU:
		return readLevels(m.cpu, from, to, q.Statistic)
	case metricInvocations:
		return readCounts(m.invocations, m.invocations, from, to, q.Statistic)
	}
	return readCounts(m.perInstance, m.invocations, from, to, q.Statistic)
}

func readLevels(l []level, from, to int, statistic string) float64 {
	if to > len(l) {
		return math.NaN()
	}
	sum, n, most, least := 0.0, 0.0, math.Inf(-1), math.Inf(1)
	for _, v := range l[from:to] {
		if v.n > 0 {
			sum, n, most, least = sum+v.mean*v.n, n+v.n, max(most, v.most), min(least, v.least)
		}
	}
	switch {
	case n == 0:
		return math.NaN()
	case statistic == "Maximum":
		return most
	case statistic == "Minimum":
		return least
	case statistic == "Sum":
		return sum
	case statistic == "SampleCount":
		return n
	}
	return sum / n
}

// readCounts reads a metric that each of some requests adds to.
func readCounts(added, requests []float64, from, to int, statistic string) float64 {
	if to > len(added) {
		return math.NaN()
	}
	sum, n := 0.0, 0.0
	for i := from; i < to; i++ {
		sum, n = sum+added[i], n+requests[i]
	}
	switch statistic {
	case "Sum":
		return sum
	case "SampleCount":
		return n
	}
	if n == 0 {
		return 0 // the zeros that are published while nobody asks
	}
	return sum / n
}

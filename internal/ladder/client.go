package ladder

import (
	"fmt"
	"math"
	"strings"
	"time"

	"loadline/internal/sample"
)

// fewestEchoes is the fewest echoes whose 99th percentile means anything.
const fewestEchoes = 20

// ClientBound says why the client was the limit of a rung of n held requests, "" when it was not. What decides is what
// the client's own delays do to the measurement: requests dispatched late, echoes slow, connections waited for, streams
// not held. Why it was slow, the scheduler, the collector, the processor, is added to explain. Processor time alone never
// decides: a client at half its processor may be late, and one at all of it on time.
//
// Connections dialled anew for each request make latency too high, never too low: they spoil only a rung that missed.
func ClientBound(c sample.Client, n int, slo time.Duration, missed bool) string {
	var found []string
	hit := func(format string, a ...any) { found = append(found, fmt.Sprintf(format, a...)) }
	limit := math.Max(1e-3, 0.01*slo.Seconds())
	if c.LatenessP99 > limit {
		hit("requests were sent late (p99 %s, at most %s)", ms(c.LatenessP99), ms(limit))
	}
	if echo := 0.05 * slo.Seconds(); c.CanaryN >= fewestEchoes && c.CanaryP99 > echo {
		hit("the echo within the client was slow (p99 %s, at most %s)", ms(c.CanaryP99), ms(echo))
	}
	wait := math.Max(1e-3, 0.05*slo.Seconds())
	if c.ConnWaitP99 > wait {
		hit("requests waited for a connection (p99 %s, at most %s)", ms(c.ConnWaitP99), ms(wait))
	}
	// New streams join over one service time, so a short rung's mean may lie well below n.
	if held := c.InFlight + c.BackingOff; c.InFlight > 0 && held < 0.6*float64(n) {
		hit("%.1f of %d requests were in flight on a connection", held, n)
	}
	if missed && c.Conns > 2*n && c.Reused < 0.5 {
		hit("%d connections were dialled for %d streams, only %.0f %% of requests reused one", c.Conns, n, 100*c.Reused)
	}
	if found == nil {
		return ""
	}
	text := "client-bound: " + strings.Join(found, "; ")
	if why := explain(c, n, limit); why != nil {
		text += ": " + strings.Join(why, ", ")
	}
	return text
}

// explain names what may have made the client slow, likeliest first.
func explain(c sample.Client, n int, limit float64) (why []string) {
	if c.Descriptors > 0.9 {
		why = append(why, fmt.Sprintf("%.0f %% of the file descriptors are in use", 100*c.Descriptors))
	}
	if c.Streams > 0 && n > c.Streams {
		why = append(why, fmt.Sprintf("the peer allows %d HTTP/2 streams a connection", c.Streams))
	}
	if c.Throttled > 0 {
		why = append(why, fmt.Sprintf("the control group throttled this process %d times", c.Throttled))
	}
	if c.GCPauseMax > limit/4 {
		why = append(why, fmt.Sprintf("garbage collection paused it for %s", ms(c.GCPauseMax)))
	}
	if c.GC > 0.1 {
		why = append(why, fmt.Sprintf("garbage collection took %.0f %% of its processors", 100*c.GC))
	}
	if c.CPU > 0.8 {
		why = append(why, fmt.Sprintf("it used %.0f %% of its processors", 100*c.CPU))
	}
	if c.PSI > 0.1 {
		why = append(why, fmt.Sprintf("others compete for the processor (some task waited %.0f %% of the time)", 100*c.PSI))
	}
	if c.SchedP99 > limit/4 {
		why = append(why, fmt.Sprintf("goroutines waited %s to be scheduled", ms(c.SchedP99)))
	}
	return why
}

func ms(s float64) string { return fmt.Sprintf("%.3g ms", 1000*s) }

// Package times says what a bench's durations come to.
//
//	fmt.Printf("p95 %.1f ms\n", times.MS(times.Quantile(waits, 0.95)))
package times

import (
	"math"
	"slices"
	"time"
)

// Quantile q (above 0, to 1) is the smallest that so large a share of them stays at or below; 0 of none.
func Quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(len(d)-1, int(math.Ceil(q*float64(len(d))))-1)]
}

// MS is milliseconds.
func MS(d time.Duration) float64 { return d.Seconds() * 1e3 }

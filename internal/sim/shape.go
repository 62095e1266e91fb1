package sim

import (
	"fmt"
	"math"
	"time"

	"loadline/internal/arrival"
)

// Day is how far a diurnal shape repeats.
const Day = 24 * time.Hour

// Diurnal is a load that follows the day: trough at 04:00, peak at 16:00, a cosine between them, in straight lines of a
// minute. long may be part of a day, or several; it begins at midnight.
func Diurnal(trough, peak float64, long time.Duration) (arrival.Profile, error) {
	var p arrival.Profile
	put := func(at time.Duration) {
		phase := 2 * math.Pi * (at - 4*time.Hour).Hours() / Day.Hours()
		p = append(p, arrival.Point{At: at, Rate: trough + (peak-trough)*(1-math.Cos(phase))/2})
	}
	for at := time.Duration(0); at < long; at += time.Minute {
		put(at)
	}
	put(long)
	_, err := arrival.NewStream(p, nil)
	return p, err
}

// TopOfHour is a load that jumps by a ratio at each full hour and falls back to its base along a straight line within a time.
func TopOfHour(base, ratio float64, within, long time.Duration) (arrival.Profile, error) {
	return repeated(base, time.Hour, long, func(p arrival.Profile, at time.Duration) arrival.Profile {
		return append(p, arrival.Point{At: at, Rate: base * ratio}, arrival.Point{At: at + within, Rate: base})
	})
}

// Bursts is a load that is multiplied by a ratio for a time, again and again: the first burst begins after one interval.
func Bursts(base, ratio float64, every, burst, long time.Duration) (arrival.Profile, error) {
	return repeated(base, every, long, func(p arrival.Profile, at time.Duration) arrival.Profile {
		return append(p, arrival.Point{At: at, Rate: base * ratio}, arrival.Point{At: at + burst, Rate: base * ratio}, arrival.Point{At: at + burst, Rate: base})
	})
}

// repeated is a base rate with something put on it again and again.
func repeated(base float64, every, long time.Duration, put func(arrival.Profile, time.Duration) arrival.Profile) (arrival.Profile, error) {
	if every <= 0 || long/every > 100_000 {
		return nil, fmt.Errorf("a shape that repeats every %s for %s: at most 100,000 repetitions are played", every, long)
	}
	p := arrival.Profile{{At: 0, Rate: base}}
	for at := every; at < long; at += every {
		p = put(append(p, arrival.Point{At: at, Rate: base}), at)
	}
	return cutOff(p, long)
}

// cutOff ends a profile at a time.
func cutOff(p arrival.Profile, long time.Duration) (arrival.Profile, error) {
	for i, b := range p {
		if i == 0 || b.At < long {
			continue
		}
		a := p[i-1]
		rate := a.Rate
		if b.At > a.At {
			rate += (b.Rate - a.Rate) * float64(long-a.At) / float64(b.At-a.At)
		}
		p = append(p[:i:i], arrival.Point{At: long, Rate: rate})
		break
	}
	if last := p[len(p)-1]; last.At < long {
		p = append(p, arrival.Point{At: long, Rate: last.Rate})
	}
	_, err := arrival.NewStream(p, nil)
	return p, err
}

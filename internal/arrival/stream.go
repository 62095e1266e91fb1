package arrival

import (
	"math"
	"math/rand/v2"
	"time"
)

// Stream draws a profile's arrivals a part at a time: the same ones as Poisson or Even, and as many as there are.
type Stream struct {
	p      Profile
	next   func() float64
	want   float64 // expected arrivals at the next instant
	passed float64 // up to the segment
	i      int     // of the segment's start
}

// NewStream draws like Poisson, or like Even where rng is nil. The profile may ask for more than Most arrivals.
func NewStream(p Profile, rng *rand.Rand) (*Stream, error) {
	if err := p.shape(); err != nil {
		return nil, err
	}
	sum := 0.0
	s := &Stream{p: p}
	if rng != nil {
		s.next = func() float64 { sum += rng.ExpFloat64(); return sum }
	} else {
		sum = -1
		s.next = func() float64 { sum++; return sum }
	}
	s.want = s.next()
	return s, nil
}

// Until appends the instants before end, counted from the profile's start, that were not drawn yet.
func (s *Stream) Until(end time.Duration, at []time.Duration) []time.Duration {
	for ; s.i+1 < len(s.p); s.i++ {
		a, b := s.p[s.i], s.p[s.i+1]
		if a.At >= end {
			return at
		}
		long := (b.At - a.At).Seconds()
		mass := long * (a.Rate + b.Rate) / 2
		slope := (b.Rate - a.Rate) / long
		for s.want-s.passed < mass {
			// Solve a.Rate·t + slope·t²/2 = c in the form that loses no digits when the slope is small.
			c := s.want - s.passed
			t := 0.0
			if c > 0 {
				root := math.Sqrt(max(0, a.Rate*a.Rate+2*slope*c))
				t = min(2*c/(a.Rate+root), long)
			}
			when := a.At + time.Duration(t*float64(time.Second))
			if when >= end {
				return at
			}
			at = append(at, when)
			s.want = s.next()
		}
		s.passed += mass
	}
	return at
}

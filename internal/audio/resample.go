package audio

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// Resampler changes the sample rate of one stream of 16-bit mono sound that comes in pieces. It keeps its state between
// them, so the seams cannot be heard and the length is exact; it is a low pass as well, so that nothing above half of the
// lower rate folds back. The method is band-limited interpolation by a windowed sinc (J. O. Smith, "Digital Audio
// Resampling", 2002).
type Resampler struct {
	from, to int
	scale    float64 // of the kernel: below 1 where the rate falls
	reach    int     // input samples on either side of an output instant
	in       []float32
	start    int64 // position in the stream of in[0]
	got      int64 // input samples so far
	made     int64 // output samples so far
	odd      []byte
	done     bool
	taps     [][]float32 // by phase, filled as phases come up; one for all where they are too many
}

const (
	crossings = 16  // of the kernel on either side
	perCross  = 512 // points of its table
	maxPhases = 640 // whose taps are kept: all the usual rates have fewer
)

// kernel is one side of the windowed sinc, from 0 to crossings.
var kernel = sync.OnceValue(func() []float32 {
	const cutoff, beta = 0.95, 7 // the rest is the window's slope; side lobes below -70 dB
	h := make([]float32, crossings*perCross+2)
	for i := range h {
		x := float64(i) / perCross
		w := 0.0
		if x < crossings {
			w = bessel(beta*math.Sqrt(1-x*x/crossings/crossings)) / bessel(beta)
		}
		h[i] = float32(cutoff * w)
		if x > 0 {
			h[i] = float32(w * math.Sin(math.Pi*cutoff*x) / (math.Pi * x))
		}
	}
	return h
})

// bessel is the modified function of the first kind and order 0, by its series.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > 1e-12*sum; k++ {
		term *= x * x / 4 / k / k
		sum += term
	}
	return sum
}

// NewResampler is a resampler between two rates, each from 1,000 to 192,000 samples a second.
func NewResampler(from, to int) (*Resampler, error) {
	for _, r := range []int{from, to} {
		if r < 1000 || r > 192000 {
			return nil, fmt.Errorf("resample: a rate of %d samples a second: it goes from 1000 to 192000", r)
		}
	}
	s := &Resampler{from: from, to: to, scale: math.Min(1, float64(to)/float64(from))}
	s.reach = int(math.Ceil(crossings / s.scale))
	if phases := to / gcd(from, to); phases <= maxPhases {
		s.taps = make([][]float32, phases)
	}
	s.in = make([]float32, s.reach) // silence before the start
	s.start = int64(-s.reach)
	return s, nil
}

// Write takes little-endian samples and appends to dst those that can be told by now. A cut within a sample is mended by
// the next call.
func (s *Resampler) Write(dst, pcm []byte) []byte {
	if s.from == s.to {
		return append(dst, pcm...)
	}
	if len(s.odd) > 0 && len(pcm) > 0 {
		s.put(int16(uint16(s.odd[0]) | uint16(pcm[0])<<8))
		s.odd, pcm = s.odd[:0], pcm[1:]
	}
	for ; len(pcm) > 1; pcm = pcm[2:] {
		s.put(int16(binary.LittleEndian.Uint16(pcm)))
	}
	s.odd = append(s.odd, pcm...)
	return s.make(dst, s.got-int64(s.reach))
}

// Flush appends the last samples: in all, as many as the input lasts. The resampler cannot be used after it.
func (s *Resampler) Flush(dst []byte) []byte {
	if s.from == s.to || s.done {
		return dst
	}
	s.done = true
	end := s.got
	s.in = append(s.in, make([]float32, s.reach+1)...)
	return s.make(dst, end)
}

func (s *Resampler) put(v int16) {
	s.in = append(s.in, float32(v))
	s.got++
}

// make appends the output samples whose instant is before that of input sample end.
func (s *Resampler) make(dst []byte, end int64) []byte {
	for {
		at, part := s.made*int64(s.from)/int64(s.to), s.made*int64(s.from)%int64(s.to)
		if at >= end {
			break
		}
		taps := s.phase(part)
		in := s.in[int(at-s.start)-s.reach+1:][:len(taps)]
		sum := float32(0)
		for i, h := range taps {
			sum += h * in[i]
		}
		v := math.Round(float64(sum))
		dst = binary.LittleEndian.AppendUint16(dst, uint16(int16(math.Max(math.MinInt16, math.Min(math.MaxInt16, v)))))
		s.made++
	}
	if drop := int(s.made*int64(s.from)/int64(s.to)-s.start) - s.reach; drop > 4096 {
		s.in = append(s.in[:0], s.in[drop:]...)
		s.start += int64(drop)
	}
	return dst
}

// phase is the kernel's values at the input samples around an instant part/to after one of them.
func (s *Resampler) phase(part int64) []float32 {
	var slot *[]float32
	if s.taps != nil {
		slot = &s.taps[part*int64(len(s.taps))/int64(s.to)]
		if *slot != nil {
			return *slot
		}
	}
	h := kernel()
	taps := make([]float32, 2*s.reach)
	for i := range taps {
		x := math.Abs(float64(i-s.reach+1)-float64(part)/float64(s.to)) * s.scale * perCross
		if k := int(x); k < crossings*perCross {
			taps[i] = float32(s.scale) * (h[k] + float32(x-float64(k))*(h[k+1]-h[k]))
		}
	}
	if slot != nil {
		*slot = taps
	}
	return taps
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

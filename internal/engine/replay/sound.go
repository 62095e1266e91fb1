package replay

import (
	"encoding/binary"
	"math"
	"sync"
)

const (
	rate      = 24000 // samples a second
	loopS     = 8     // the longest block, seconds
	frame     = 2     // bytes a sample
	second    = rate * frame
	pitch     = 120 // Hz
	harmonics = 24
	syllables = 4 // a second
)

// loop is one second of a voiced sound, over and over for loopS + 1 seconds: a block of up to loopS seconds that starts
// anywhere in a second is a slice of it. Every component is a whole number of hertz, so that the seams are smooth.
var loop = sync.OnceValue(func() []byte {
	wave := make([]float64, rate)
	top := 0.0
	for i := range wave {
		t := float64(i) / rate
		v := 0.0
		for h := 1; h <= harmonics; h++ {
			f := float64(h * pitch)
			v += formants(f) * math.Sin(2*math.Pi*f*t)
		}
		wave[i] = v * (0.6 - 0.4*math.Cos(2*math.Pi*syllables*t))
		top = math.Max(top, math.Abs(wave[i]))
	}
	b := make([]byte, 0, (loopS+1)*second)
	for range loopS + 1 {
		for _, v := range wave {
			b = binary.LittleEndian.AppendUint16(b, uint16(int16(math.Round(v/top*0.6*math.MaxInt16))))
		}
	}
	return b
})

// formants is the strength of a frequency in an open vowel.
func formants(f float64) float64 {
	peak := func(at, width float64) float64 { return 1 / (1 + (f-at)*(f-at)/(width*width)) }
	return peak(700, 130) + 0.6*peak(1200, 150) + 0.2*peak(2500, 250) + 0.1
}

var silence = make([]byte, second)

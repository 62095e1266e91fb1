package audio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func tone(rate, n int, hz, level float64) []byte {
	var b []byte
	for i := range n {
		v := level * math.Sin(2*math.Pi*hz*float64(i)/float64(rate))
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(math.Round(v))))
	}
	return b
}

func resampled(t testing.TB, from, to int, pcm []byte, cut func() int) []byte {
	t.Helper()
	s, err := NewResampler(from, to)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for len(pcm) > 0 {
		n := min(len(pcm), cut())
		out = s.Write(out, pcm[:n])
		pcm = pcm[n:]
	}
	return s.Flush(out)
}

func all() int { return math.MaxInt }

// A tone below half of the lower rate comes out as itself, in place and loudness; one above it is gone.
func TestResampledTone(t *testing.T) {
	for _, c := range []struct {
		from, to int
		hz       float64
	}{{22050, 24000, 1000}, {24000, 8000, 440}, {24000, 8000, 3000}, {24000, 16000, 6500}, {24000, 22050, 9000}, {22050, 8000, 200}, {22050, 9173, 1234}, {24000, 24000, 100}} {
		t.Run(fmt.Sprint(c.from, " to ", c.to, " at ", c.hz), func(t *testing.T) {
			out := resampled(t, c.from, c.to, tone(c.from, c.from, c.hz, 20000), all)
			if len(out) != 2*c.to {
				t.Fatalf("%d samples of one second at %d", len(out)/2, c.to)
			}
			want := tone(c.to, c.to, c.hz, 20000)
			var err, sum float64
			edge := c.to / 50 // where the kernel sees the silence outside
			for i := edge; i < c.to-edge; i++ {
				got, w := float64(int16(binary.LittleEndian.Uint16(out[2*i:]))), float64(int16(binary.LittleEndian.Uint16(want[2*i:])))
				err += (got - w) * (got - w)
				sum += w * w
			}
			if db := 10 * math.Log10(err/sum); db > -55 {
				t.Errorf("error %.1f dB", db)
			}
		})
	}
	for _, c := range []struct {
		from, to int
		hz       float64
	}{{24000, 8000, 5000}, {24000, 16000, 9500}, {22050, 8000, 10000}} {
		out := resampled(t, c.from, c.to, tone(c.from, c.from, c.hz, 20000), all)
		peak := 0.0
		for i := c.to / 50; i < c.to-c.to/50; i++ {
			peak = math.Max(peak, math.Abs(float64(int16(binary.LittleEndian.Uint16(out[2*i:])))))
		}
		if db := 20 * math.Log10(math.Max(peak, 0.1)/20000); db > -60 {
			t.Errorf("%d to %d: %v Hz folds back at %.1f dB", c.from, c.to, c.hz, db)
		}
	}
}

// A stream cut anywhere, within samples as well, is the stream in one.
func TestResamplerKeepsItsState(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	pcm := make([]byte, 40000)
	for i := range pcm {
		pcm[i] = byte(r.Uint32())
	}
	for _, to := range []int{8000, 11025, 16000, 23999, 24000, 44100} {
		whole := resampled(t, 22050, to, pcm, all)
		if got := resampled(t, 22050, to, pcm, func() int { return 1 + r.IntN(999) }); !bytes.Equal(got, whole) {
			t.Errorf("to %d: cut up, it is another stream", to)
		}
		if want := (20000*to + 22049) / 22050; len(whole)/2 != want {
			t.Errorf("to %d: %d samples, want %d", to, len(whole)/2, want)
		}
	}
}

func TestResamplerClips(t *testing.T) {
	square := make([]byte, 0, 4800)
	for i := range 2400 {
		v := int16(math.MaxInt16)
		if i/12%2 == 1 {
			v = math.MinInt16
		}
		square = binary.LittleEndian.AppendUint16(square, uint16(v))
	}
	out := resampled(t, 24000, 22050, square, all)
	for i := 100; i < len(out)/2-100; i++ { // overshoot that wraps would change sides
		v := int(int16(binary.LittleEndian.Uint16(out[2*i:])))
		switch pos := math.Mod(float64(i)*24000/22050, 24); {
		case pos > 3 && pos < 9 && v < 20000, pos > 15 && pos < 21 && v > -20000:
			t.Fatalf("sample %d is %d, %.1f samples into a period of 24", i, v, pos)
		}
	}
	if _, err := NewResampler(24000, 100); err == nil {
		t.Error("a rate of 100 is accepted")
	}
}

func BenchmarkResample(b *testing.B) {
	second := tone(24000, 24000, 440, 20000)
	var out []byte
	for b.Loop() {
		s, err := NewResampler(24000, 8000)
		if err != nil {
			b.Fatal(err)
		}
		out = s.Flush(s.Write(out[:0], second))
	}
}

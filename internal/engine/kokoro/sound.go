package kokoro

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Pauses after a piece: from its last sound to the first of the next.
const (
	afterSentence = 250 * time.Millisecond
	afterClause   = 100 * time.Millisecond
	afterWord     = 2 * margin * time.Second / Rate
)

// The edges of a piece.
const (
	frameSize = 600        // samples of one of the model's frames, in which it counts durations
	window    = Rate / 200 // samples over which the level is measured: 5 ms
	margin    = Rate / 66  // samples kept before the first sound and after the last: 15 ms
	fade      = Rate / 200 // samples over which an edge is faded
	quiet     = 0.01       // of the loudest window: below, at an edge, is the model's own silence and hiss
	inaudible = 1e-4
)

// pauseAfter is the pause that a piece of phonemes ends with. more says that after the last one its sentence goes on.
func pauseAfter(piece string, last, more bool) time.Duration {
	end, _ := utf8.DecodeLastRuneInString(piece)
	clause := strings.ContainsRune(",;:—…)”", end)
	switch {
	case last && !(more && clause):
		return afterSentence
	case clause:
		return afterClause
	}
	return afterWord
}

// span is part of a sound, in samples.
type span struct{ from, to int }

// spoken is the part of a sound in which the tokens between the first and the last that are no punctuation lie, as their
// durations in frames tell. Without durations, or with such as do not fit the sound, it is empty.
func spoken(tokens, frames []int64, samples int) span {
	var s span
	at := 0
	if len(frames) != len(tokens) {
		return s
	}
	for i, t := range tokens {
		end := at + int(frames[i])*frameSize
		if t > 16 { // 0 encloses, 1 to 15 are punctuation, 16 is the space
			if s.to == 0 {
				s.from = at
			}
			s.to = end
		}
		at = end
	}
	if at != samples {
		return span{}
	}
	return s
}

// levels is the mean square of each window of a sound; the last window may be short. It is not a number where the sound has
// one that is none.
func levels(sound []float32) (of []float32, loudest float32) {
	of = make([]float32, 0, len(sound)/window+1)
	for len(sound) > 0 {
		n := min(window, len(sound))
		var a, b, c, d float32 // four sums, since each addition waits for the one before
		w := sound[:n]
		for ; len(w) >= 4; w = w[4:] {
			a += w[0] * w[0]
			b += w[1] * w[1]
			c += w[2] * w[2]
			d += w[3] * w[3]
		}
		for _, x := range w {
			a += x * x
		}
		sum := (a + b + c + d) / window
		of = append(of, sum)
		if !(sum <= loudest) && loudest == loudest { // once not a number it stays so
			loudest = sum
		}
		sound = sound[n:]
	}
	return of, loudest
}

// edges is the part of a sound that is heard, with a margin. It never cuts into keep.
func edges(sound []float32, keep span) (span, error) {
	of, loudest := levels(sound)
	switch {
	case !(loudest < math.MaxFloat32):
		return span{}, errors.New("the model's sound has numbers that are none")
	case loudest < inaudible*inaudible:
		return span{}, errors.New("the model made no sound")
	}
	heard := func(level float32) bool { return level > quiet*quiet*loudest }
	first := slices.IndexFunc(of, heard)
	last := len(of) - 1
	for !heard(of[last]) {
		last--
	}
	from, to := first*window, min((last+1)*window, len(sound))
	if keep.to > 0 {
		// The tokens' own frames hold faint sounds that a threshold takes for silence, and may begin with some of it.
		from, to = min(from, keep.from+frameSize), max(to, keep.to-frameSize)
	}
	return span{max(0, from-margin), min(len(sound), to+margin)}, nil
}

// joined is the sound of a piece ready to be put between others: trimmed and faded at its edges, so that nothing clicks, with
// a pause after it, as 16-bit little-endian samples. It works on the sound itself.
func joined(sound []float32, keep span, pause time.Duration) ([]byte, error) {
	s, err := edges(sound, keep)
	if err != nil {
		return nil, err
	}
	sound = sound[s.from:s.to]
	n := len(sound)
	rest := samples(pause) - 2*margin // the margins of both sides are part of the pause
	pcm := make([]byte, 2*(n+max(0, rest)))
	for i := range min(fade, n/2) {
		sound[i] *= float32(i) / fade
		sound[n-1-i] *= float32(i) / fade
	}
	encode(pcm[:2*n], sound)
	return pcm, nil
}

// encode writes a sound, numbers between -1 and 1, as 16 bits each, rounded to the nearest; what is beyond is cut. to has room
// for all of it.
func encode(to []byte, sound []float32) {
	for ; len(sound) >= 4 && len(to) >= 8; sound, to = sound[4:], to[8:] {
		a, b, c, d := shifted(sound[0]), shifted(sound[1]), shifted(sound[2]), shifted(sound[3])
		if (a-least)|(b-least)|(c-least)|(d-least) > math.MaxUint16 {
			a, b, c, d = cut(a, sound[0]), cut(b, sound[1]), cut(c, sound[2]), cut(d, sound[3])
		}
		binary.LittleEndian.PutUint64(to, uint64(uint16(a))|uint64(uint16(b))<<16|uint64(uint16(c))<<32|uint64(uint16(d))<<48)
	}
	for i, x := range sound {
		binary.LittleEndian.PutUint16(to[2*i:], uint16(cut(shifted(x), x)))
	}
}

// The bits of 3 << 22, and of it less 32768.
const (
	middle = 0x4B400000
	least  = middle + math.MinInt16
)

// shifted is x × 32767 + 3 << 22, as bits. In a number from 2^23 to 2^24 the last bit is worth 1, so the addition rounds, and the
// lower 16 bits are the sample, if it is one.
func shifted(x float32) uint32 { return math.Float32bits(float32(x*math.MaxInt16) + 3<<22) }

// cut is bits, the shifted x, or the end of the range that x is beyond.
func cut(bits uint32, x float32) uint32 {
	switch {
	case bits-least <= math.MaxUint16:
		return bits
	case x < 0:
		return least
	}
	return middle + math.MaxInt16
}

// silence is so long a pause.
func silence(d time.Duration) []byte { return make([]byte, 2*samples(d)) }

func samples(d time.Duration) int { return int(d * Rate / time.Second) }

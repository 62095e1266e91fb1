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

// pauseAfter is the pause that a piece of phonemes ends with.
func pauseAfter(piece string, last bool) time.Duration {
	end, _ := utf8.DecodeLastRuneInString(piece)
	switch {
	case last:
		return afterSentence
	case strings.ContainsRune(",;:—…)”", end):
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
		sum := float32(0)
		for _, x := range sound[:n] {
			sum += x * x
		}
		sum /= window
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
// a pause after it, as 16-bit little-endian samples.
func joined(sound []float32, keep span, pause time.Duration) ([]byte, error) {
	s, err := edges(sound, keep)
	if err != nil {
		return nil, err
	}
	sound = sound[s.from:s.to]
	n := len(sound)
	rest := samples(pause) - 2*margin // the margins of both sides are part of the pause
	pcm := make([]byte, 2*(n+max(0, rest)))
	for i, x := range sound {
		if edge := min(i, n-1-i); edge < fade {
			x *= float32(edge) / fade
		}
		switch x *= math.MaxInt16; {
		case x > math.MaxInt16:
			x = math.MaxInt16
		case x < -math.MaxInt16:
			x = -math.MaxInt16
		case x < 0:
			x -= 0.5
		default:
			x += 0.5
		}
		binary.LittleEndian.PutUint16(pcm[2*i:], uint16(int16(x)))
	}
	return pcm, nil
}

// silence is so long a pause.
func silence(d time.Duration) []byte { return make([]byte, 2*samples(d)) }

func samples(d time.Duration) int { return int(d * Rate / time.Second) }

package kokoro

import (
	"encoding/binary"
	"errors"
	"math"
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

// edges is the part of a sound that is heard, with a margin. It never cuts into keep.
func edges(sound []float32, keep span) (span, bool) {
	loudest := 0.0
	level := func(i int) float64 {
		sum := 0.0
		for _, x := range sound[i:min(i+window, len(sound))] {
			sum += float64(x) * float64(x)
		}
		return math.Sqrt(sum / window)
	}
	for i := 0; i < len(sound); i += window {
		loudest = math.Max(loudest, level(i))
	}
	if loudest < inaudible {
		return span{}, false
	}
	from, to := 0, 0
	for i := 0; i < len(sound); i += window {
		if level(i) > quiet*loudest {
			if to == 0 {
				from = i
			}
			to = min(i+window, len(sound))
		}
	}
	if keep.to > 0 {
		// The tokens' own frames hold faint sounds that a threshold takes for silence, and may begin with some of it.
		from, to = min(from, keep.from+frameSize), max(to, keep.to-frameSize)
	}
	return span{max(0, from-margin), min(len(sound), to+margin)}, true
}

// joined is the sound of a piece ready to be put between others: trimmed and faded at its edges, so that nothing clicks, with
// a pause after it, as 16-bit little-endian samples.
func joined(sound []float32, keep span, pause time.Duration) ([]byte, error) {
	for _, x := range sound {
		if x != x || math.IsInf(float64(x), 0) {
			return nil, errors.New("the model's sound has numbers that are none")
		}
	}
	s, ok := edges(sound, keep)
	if !ok {
		return nil, errors.New("the model made no sound")
	}
	sound = sound[s.from:s.to]
	n := len(sound)
	rest := samples(pause) - 2*margin // the margins of both sides are part of the pause
	pcm := make([]byte, 2*(n+max(0, rest)))
	for i, x := range sound {
		gain := math.Min(1, float64(min(i, n-1-i))/fade)
		v := math.Round(float64(x) * gain * math.MaxInt16)
		binary.LittleEndian.PutUint16(pcm[2*i:], uint16(int16(math.Max(-math.MaxInt16, math.Min(math.MaxInt16, v)))))
	}
	return pcm, nil
}

// silence is so long a pause.
func silence(d time.Duration) []byte { return make([]byte, 2*samples(d)) }

func samples(d time.Duration) int { return int(d * Rate / time.Second) }

// Package voice is the voices of a Kokoro model: packs of styles, and blends of them.
//
// Names in requests are only ever compared with those found in the folder; none becomes a path. It does not know how a style
// is used, nor who asks.
//
//	lib, err := voice.Open(folder, 64)
//	b, err := voice.ParseBlend("af_bella(2)+af_sky(1)") // two thirds and one third
//	style, err := lib.Style(b)
//	row := style.Row(phoneme.StyleRow(len(tokens)))
package voice

import (
	"encoding/binary"
	"fmt"
	"math"

	"loadline/internal/speech/phoneme"
)

// Width is the numbers of a row of a style.
const Width = 256

// Size is the bytes of a pack: Rows rows of Width numbers of four bytes.
const Size = phoneme.Rows * Width * 4

// Style is a pack of styles, one row for each number of tokens. It is not changed once made.
type Style struct{ rows []float32 }

// Row is a row of a style, 0 to phoneme.Rows-1. It is the style's own: not to be changed.
func (s *Style) Row(n int) []float32 { return s.rows[n*Width : (n+1)*Width : (n+1)*Width] }

// Decode reads a pack: little-endian numbers of 32 bits, row by row.
func Decode(pack []byte) (*Style, error) {
	if len(pack) != Size {
		return nil, fmt.Errorf("a voice pack has %d bytes, not %d (%d rows of %d numbers)", len(pack), Size, phoneme.Rows, Width)
	}
	s := &Style{rows: make([]float32, phoneme.Rows*Width)}
	for i := range s.rows {
		f := math.Float32frombits(binary.LittleEndian.Uint32(pack[4*i:]))
		if f != f || f > 1e6 || f < -1e6 {
			return nil, fmt.Errorf("a voice pack has %v as number %d: it is damaged, or something else", f, i)
		}
		s.rows[i] = f
	}
	return s, nil
}

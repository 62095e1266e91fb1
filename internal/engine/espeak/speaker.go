package espeak

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"loadline/internal/engine/child"
)

// The program reads a line, writes its sound to the end and waits for the next; nothing marks where one ends. So each line
// ends with a short pause of exact zeros (which the program makes 0.3 to 3 s long), and is followed by one of a short sound,
// a pause far longer than any in speech, and the sound again. What comes after that can only be a few more zeros, which
// count for nothing before the next sound.
const (
	mark    = "a<break time=\"4000ms\"/>a\n"
	longRun = Rate * 7 / 2   // samples of zero: the pause
	endRun  = Rate / 20      // samples of zero: a sound is over
	maxSay  = 2 * Rate * 180 // bytes of one piece: far more than its text can last
	wavHead = 44
)

// speaker is one process of the program.
type speaker struct {
	*child.Process
	headed bool // the header has been read
	odd    []byte
	buf    []byte
}

func start(program string) (*speaker, error) {
	p, err := child.Start(program, "--stdout", "-m", "-v", "en-us")
	if err != nil {
		return nil, err
	}
	return &speaker{Process: p, buf: make([]byte, 32<<10)}, nil
}

// say writes a line and reads its sound until the pause at its end, trimmed of silence. It is empty if there was none.
func (c *speaker) say(line string, by time.Time) ([]byte, error) {
	c.By(by)
	if _, err := io.WriteString(c.In, line+"\n"+mark); err != nil {
		return nil, fmt.Errorf("espeak: write a line: %w", err)
	}
	if !c.headed {
		head := make([]byte, wavHead)
		if _, err := io.ReadFull(c.Out, head); err != nil {
			return nil, fmt.Errorf("espeak: read the header: %w", err)
		}
		le := binary.LittleEndian
		if string(head[:4]) != "RIFF" || le.Uint16(head[20:]) != 1 || le.Uint16(head[22:]) != 1 || le.Uint32(head[24:]) != Rate || le.Uint16(head[34:]) != 16 {
			return nil, fmt.Errorf("espeak: the header %x is not that of 16-bit mono sound at %d Hz", head, Rate)
		}
		c.headed = true
	}
	var sound []byte
	zeros, last := 0, 0 // at the end of sound, and where its last burst begins
	paused, marked := false, false
	for {
		n, err := c.Out.Read(c.buf)
		b := c.buf[:n]
		if len(c.odd) > 0 && n > 0 {
			b = append(c.odd, b...)
			c.odd = nil
		}
		if len(b)%2 == 1 {
			c.odd, b = []byte{b[len(b)-1]}, b[:len(b)-1]
		}
		for ; len(b) > 1; b = b[2:] {
			switch silent := b[0]|b[1] == 0; {
			case silent:
				if zeros++; zeros == longRun && !paused {
					paused, sound = true, sound[:last] // the burst before the pause is the mark's
				}
			case paused:
				zeros, marked = 0, true
			default:
				if zeros >= endRun {
					last = len(sound)
				}
				if len(sound) > 0 {
					sound = append(sound, make([]byte, 2*zeros)...)
				}
				zeros = 0
				sound = append(sound, b[0], b[1])
			}
		}
		switch {
		case marked && zeros >= endRun:
			return sound, nil
		case err == io.EOF:
			return nil, errors.New("espeak: the process ended")
		case err != nil:
			return nil, fmt.Errorf("espeak: read the sound: %w", err)
		case len(sound) > maxSay:
			return nil, fmt.Errorf("espeak: more than %d s of sound for one piece", maxSay/2/Rate)
		}
	}
}

// joined is a piece ready to be put between others: faded at its edges, so that nothing clicks, with a pause after it.
func joined(sound []byte, pause time.Duration) []byte {
	const fade = Rate / 200 // 5 ms
	n := len(sound) / 2
	if n == 0 {
		return nil
	}
	out := make([]byte, 2*n+2*int(pause.Seconds()*Rate))
	copy(out, sound)
	le := binary.LittleEndian
	for i := range min(fade, n/2) {
		for _, k := range []int{i, n - 1 - i} {
			le.PutUint16(out[2*k:], uint16(int16(int(int16(le.Uint16(out[2*k:])))*i/fade)))
		}
	}
	return out
}

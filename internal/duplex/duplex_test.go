package duplex

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// TestTranscripts plays each file of testdata: lines that begin with a time say what came, the ones below what is done.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(b))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(b) {
				t.Errorf("got\n%s\nwant\n%s", got, b)
			}
		})
	}
}

func play(t *testing.T, script string) string {
	t.Helper()
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s := New(start, Rules{})
	now := start
	var out strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue // what is expected
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at, what, _ := strings.Cut(line, " ")
		d, err := time.ParseDuration(at)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for !s.Over() && s.Next().Before(start.Add(d)) { // the clock ticks by itself
			now = s.Next()
			tell(&out, now.Sub(start), s.Tick(now))
		}
		now = start.Add(d)
		tell(&out, -1, act(t, s, now, what))
	}
	return out.String()
}

func act(t *testing.T, s *Session, now time.Time, what string) []Step {
	t.Helper()
	verb, rest, _ := strings.Cut(what, " ")
	words := strings.SplitN(rest, " ", 3)
	payload := func(i int) []byte {
		if len(words) <= i {
			return nil
		}
		v, err := strconv.Unquote(words[i])
		if err != nil {
			t.Fatalf("%q: %v", what, err)
		}
		return []byte(v)
	}
	switch verb {
	case "part": // text|binary whole|partial "bytes"
		return s.Part(Part{Bytes: payload(2), Text: words[0] == "text", Partial: words[1] == "partial"})
	case "end":
		return s.End(now)
	case "left":
		return s.Left()
	case "broke":
		return s.Broke()
	case "tick":
		return s.Tick(now)
	case "frame": // op fin|more "bytes"
		f := Frame{Fin: words[1] == "fin", Payload: payload(2), Op: Op(15)}
		for op, name := range opNames {
			if name == words[0] {
				f.Op = op
			}
		}
		return s.Frame(now, f)
	case "close": // status "reason"
		code, err := strconv.Atoi(words[0])
		if err != nil {
			t.Fatalf("%q: %v", what, err)
		}
		return s.Frame(now, closing(code, string(payload(1))))
	case "pong": // to the latest ping
		return s.Frame(now, Frame{Fin: true, Op: Pong, Payload: binary.BigEndian.AppendUint32(nil, s.pings)})
	}
	t.Fatalf("%q is nothing that comes", what)
	return nil
}

func tell(out *strings.Builder, at time.Duration, steps []Step) {
	for _, s := range steps {
		out.WriteString("    ")
		if at >= 0 {
			fmt.Fprintf(out, "%s: ", at)
		}
		switch s.Kind {
		case Send:
			fin := "more"
			if s.Frame.Fin {
				fin = "fin"
			}
			fmt.Fprintf(out, "send %s %s %q\n", s.Frame.Op, fin, s.Frame.Payload)
		case Give:
			kind, state := "binary", "complete"
			if s.Part.Text {
				kind = "text"
			}
			if s.Part.Partial {
				state = "partial"
			}
			fmt.Fprintf(out, "give %s %s %q\n", kind, state, s.Part.Bytes)
		case Fail:
			fmt.Fprintf(out, "fail %s: %s\n", s.Code, s.Message)
		case Over:
			out.WriteString("over\n")
		case Hang:
			out.WriteString("hang up\n")
		}
	}
}

// FuzzFrames reads back what was written, however the bytes are cut. A server does not mask: the reader is a client's.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("hello"), true, byte(1), 3)
	f.Add(bytes.Repeat([]byte{7}, 126), false, byte(2), 1)
	f.Add(bytes.Repeat([]byte{9}, 70_000), true, byte(2), 4096)
	f.Fuzz(func(t *testing.T, payload []byte, fin bool, op byte, cut int) {
		if cut < 1 {
			cut = 1
		}
		frame := Frame{Fin: fin, Op: Op(op & 0x0F), Payload: payload}
		masked := frame.Append(nil, [4]byte{1, 2, 3, 4})
		head := 2
		switch masked[1] & 0x7F {
		case 126:
			head = 4
		case 127:
			head = 10
		}
		plain := append(bytes.Clone(masked[:head]), masked[head+4:]...)
		plain[1] &= 0x7F
		for i := range plain[head:] {
			plain[head+i] ^= []byte{1, 2, 3, 4}[i&3]
		}
		r := NewReader(&cutter{append(bytes.Clone(plain), plain...), cut}, nil)
		for range 2 {
			got, err := r.Next()
			if err != nil || got.Fin != fin || got.Op != frame.Op || !bytes.Equal(got.Payload, payload) {
				t.Fatalf("got %v of %d bytes, %v", got.Op, len(got.Payload), err)
			}
		}
		if _, err := r.Next(); err == nil {
			t.Error("a frame from nowhere")
		}
	})
}

// FuzzReader takes any bytes without a panic, and a session takes whatever frames they are.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0x81, 2, 'h', 'i', 0x88, 2, 3, 0xE8})
	f.Add([]byte{0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Add([]byte{0xC1, 0x80, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		now := time.Unix(0, 0)
		s := New(now, Rules{})
		for r := NewReader(bytes.NewReader(b), nil); !s.Over(); {
			frame, err := r.Next()
			if err != nil {
				s.Broke()
				continue
			}
			s.Frame(now, frame)
		}
	})
}

type cutter struct {
	b   []byte
	cut int
}

func (c *cutter) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), c.cut)], c.b)
	c.b = c.b[n:]
	if n == 0 {
		return 0, fmt.Errorf("no more")
	}
	return n, nil
}

package codec

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"loadline/internal/audio"
	"loadline/internal/sample"
)

func tone(rate int, seconds float64) []byte {
	b := make([]byte, 2*int(float64(rate)*seconds))
	for i := range len(b) / 2 {
		binary.LittleEndian.PutUint16(b[2*i:], uint16(int16(8000*math.Sin(2*math.Pi*220*float64(i)/float64(rate)))))
	}
	return b
}

func format(t *testing.T, name string) Format {
	t.Helper()
	f, ok := Formats()[name]
	if !ok {
		t.Skipf("%s is not installed: make setup", formats[name].program)
	}
	return f
}

// What is made is of the kind it is said to be, and lasts as long as the sound.
func TestEncodes(t *testing.T) {
	for _, name := range []string{"mp3", "opus"} {
		f := format(t, name)
		for _, rate := range []int{8000, 16000, 22050, 24000} {
			var out bytes.Buffer
			e, err := f.Open(t.Context(), rate, &out)
			if err != nil {
				t.Fatal(err)
			}
			for b := tone(rate, 3); len(b) > 0; {
				n := min(len(b), 4801)
				if _, err := e.Write(b[:n]); err != nil {
					t.Fatal(err)
				}
				b = b[n:]
			}
			if err := errors.Join(e.Close(), e.Close()); err != nil {
				t.Fatalf("%s at %d: %v", name, rate, err)
			}
			var m audio.Meter
			m.Start(audio.Sound, f.ContentType)
			m.Write(1, out.Bytes())
			h := m.End()
			if h.Outcome != sample.OK || out.Len() < 3000 || out.Len() > 40000 {
				t.Errorf("%s at %d: %d bytes, outcome %v: %s", name, rate, out.Len(), h.Outcome, h.Cause)
			}
		}
	}
}

// MP3 comes while the sound does.
func TestComesEarly(t *testing.T) {
	f := format(t, "mp3")
	r, w := io.Pipe()
	e, err := f.Open(t.Context(), 24000, w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Write(tone(24000, 0.5)); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(r, first); err != nil { // hangs where nothing comes before Close
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	w.Close()
}

// badWriter fails.
type badWriter struct{}

var errGone = errors.New("the reader is gone")

func (badWriter) Write([]byte) (int, error) { return 0, errGone }

// Whoever goes, the process goes with him.
func TestEnds(t *testing.T) {
	for _, name := range []string{"mp3", "opus"} {
		f := format(t, name)
		before := runtime.NumGoroutine()
		e, err := f.Open(t.Context(), 24000, badWriter{})
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if _, err = e.Write(tone(24000, 1)); err != nil {
				break
			}
		}
		if closed := e.Close(); err == nil || !errors.Is(closed, errGone) {
			t.Errorf("%s: write %v, close %v", name, err, closed)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var out bytes.Buffer
		if e, err = f.Open(ctx, 24000, lockedWriter{&mu, &out}); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := e.Close(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: broken off: %v", name, err)
		}
		tick := time.NewTicker(5 * time.Millisecond)
		for range 400 {
			if runtime.NumGoroutine() <= before {
				break
			}
			<-tick.C
		}
		tick.Stop()
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%s: %d goroutines, %d before", name, n, before)
		}
	}
}

type lockedWriter struct {
	mu  *sync.Mutex
	out *bytes.Buffer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}

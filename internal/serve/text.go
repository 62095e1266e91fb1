package serve

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"loadline/internal/audio"
	"loadline/internal/speech"
)

// text is one text of a session.
type text struct {
	ask
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	split speech.Splitter
	ready []speech.Part
	size  int  // bytes of ready
	skip  int  // sentences to leave out
	some  bool // a part was queued
	all   bool
	more  chan struct{}
}

// write adds text that has come.
func (t *text) write(more string, whole bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if whole {
		t.add(t.split.Uncut(more))
	} else {
		t.add(t.split.Write(more))
	}
	if n := t.size + t.split.Len(); n > maxTextBuf {
		return tooLarge("%d bytes of the text wait to be spoken, more than the %d that this server keeps", n, maxTextBuf)
	}
	return nil
}

// tags is the first tags that were taken from the text and do nothing.
func (t *text) tags() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.split.Tags()
}

// finish speaks what is there; all says that nothing more comes.
func (t *text) finish(all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(t.split.Flush())
	if all && !t.all && t.some {
		if d := t.split.Pause(); d > 0 {
			t.add([]speech.Part{{Pause: d}})
		}
	}
	t.all = t.all || all
	poke(t.more)
}

// add queues parts, but for those of sentences left out.
func (t *text) add(parts []speech.Part) {
	for _, p := range parts {
		switch {
		case t.skip == 0:
			t.ready, t.size, t.some = append(t.ready, p), t.size+len(p.Text), true
		case !p.More:
			t.skip--
		}
	}
	poke(t.more)
}

// next is the text's script. It waits for text, and takes a sentence that ends for whole when no more comes for a while.
func (t *text) next(ctx context.Context, quit <-chan struct{}) (part speech.Part, waited bool, err error) {
	var idle <-chan time.Time
	for {
		if ctx.Err() != nil {
			return part, waited, context.Cause(ctx)
		}
		t.mu.Lock()
		ends := t.split.Whole()
		switch {
		case len(t.ready) > 0:
			part = t.ready[0]
			t.ready, t.size = t.ready[1:], t.size-len(part.Text)
			t.mu.Unlock()
			return part, waited, nil
		case t.all:
			t.mu.Unlock()
			return part, waited, io.EOF
		}
		t.mu.Unlock()
		waited = true
		if idle = nil; ends {
			idle = time.After(idleText)
		}
		select {
		case <-t.more:
		case <-idle:
			t.finish(false)
		case <-quit:
			return part, waited, errDraining
		case <-ctx.Done():
			return part, waited, context.Cause(ctx)
		}
	}
}

// framer cuts sound into binary frames: whole messages, since a platform may show each as an event of its own.
type framer struct {
	c       *websocket.Conn
	ctx     context.Context // of the session: a write that it ends breaks the connection
	stop    context.Context // no frame is begun after its end
	wait    time.Duration
	rate    int
	tune    *audio.Resampler
	buf     []byte
	samples int64
}

func (f *framer) bytes(ms int) int { return 2 * (f.rate * ms / 1000) }

// write sends sound, but for an end too short for a frame.
func (f *framer) write(sound [][]byte) error {
	for _, b := range sound {
		for len(b) > 0 {
			n := min(len(b), slice)
			if f.tune != nil {
				f.buf = f.tune.Write(f.buf, b[:n])
			} else {
				f.buf = append(f.buf, b[:n]...)
			}
			b = b[n:]
			if err := f.send(f.bytes(frameMs + leastMs)); err != nil {
				return err
			}
		}
	}
	return f.send(f.bytes(leastMs))
}

// send sends frames until fewer than least bytes are left.
func (f *framer) send(least int) error {
	for len(f.buf) > 0 && len(f.buf) >= least {
		n := len(f.buf)
		if n > f.bytes(frameMs+leastMs) {
			n = f.bytes(frameMs)
		}
		if f.stop.Err() != nil {
			return context.Cause(f.stop)
		}
		ctx, cancel := context.WithTimeout(f.ctx, f.wait)
		err := f.c.Write(ctx, websocket.MessageBinary, f.buf[:n])
		cancel()
		if err != nil {
			return err
		}
		f.samples += int64(n / 2)
		f.buf = append(f.buf[:0], f.buf[n:]...)
	}
	return nil
}

func (f *framer) finish() error {
	if f.tune != nil {
		f.buf = f.tune.Flush(f.buf)
	}
	return f.send(1)
}

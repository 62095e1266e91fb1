package speech

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"loadline/internal/audio"
	"loadline/internal/sample"
	sentences "loadline/internal/speech"
)

// ahead is how much sound waits for its reader, bytes: a minute and a half at 24 kHz. A sentence is asked for when the one
// before has come, not when it was read, while no more than this waits.
const ahead = 4 << 20

// Format is how the samples of a stream are laid out: little-endian, channels in turn.
type Format struct {
	Rate     int // samples a second
	Channels int
	Bits     int // of a sample
	Float    bool
}

// Stream is a text as it is spoken: samples, without any header. It is read by one goroutine.
type Stream struct {
	out    *pipe
	cancel context.CancelFunc
	done   chan struct{}
}

// Stream has a text spoken sentence by sentence, one after the other. A sentence whose reply breaks off is asked for again
// and goes on where it stood. The stream ends with io.EOF, or with the error for which it could not go on; it must be read
// to its end or closed.
func (c *Client) Stream(ctx context.Context, text string) (*Stream, error) {
	list := sentences.Sentences(text)
	if len(list) == 0 {
		return nil, &Error{Kind: Invalid, Cause: "the text has no letter or digit in it that is read aloud"}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{out: newPipe(), cancel: cancel, done: make(chan struct{})}
	unhook := context.AfterFunc(ctx, s.out.wake)
	go func() {
		defer close(s.done)
		defer unhook()
		start := time.Now()
		for _, sentence := range list {
			err := s.out.room(ctx) // a reader may pause: no request is under way meanwhile
			if err == nil {
				err = c.sentence(ctx, sentence, s.out, start)
			}
			if err != nil {
				s.out.end(err)
				return
			}
		}
		s.out.end(io.EOF)
	}()
	return s, nil
}

// sentence has one sentence spoken into out, tried again from where it stood.
func (c *Client) sentence(ctx context.Context, text string, out *pipe, start time.Time) error {
	c.retry.first()
	heard := int64(0) // bytes of this sentence that are in out
	for tries := 1; ; tries++ {
		p := &part{ctx: ctx, out: out, start: start, skip: heard}
		_, err := c.ask(ctx, text, p)
		heard = max(heard, p.came)
		switch {
		case p.wrong != nil:
			return p.wrong
		case err == nil && p.came == 0:
			return &Error{Kind: Protocol, Cause: "the reply is neither WAV nor raw PCM: ask the server for one of these", Tries: tries}
		case err == nil:
			return nil
		}
		err.RetryAfter = p.after
		if stop := c.retry.again(ctx, tries, err); stop != nil {
			return stop
		}
	}
}

// Read reads samples. It waits for the next ones.
func (s *Stream) Read(p []byte) (int, error) { return s.out.read(p) }

// Format is how the samples are laid out. It is known once the first has been read.
func (s *Stream) Format() Format { return s.out.laidOut() }

// FirstAudio is when the first sample came, from when the stream was asked for; Never before it has.
func (s *Stream) FirstAudio() time.Duration { return s.out.firstAudio() }

// Close stops what is still under way, and waits for it.
func (s *Stream) Close() error {
	s.cancel()
	s.out.end(&Error{Kind: Closed, Cause: "the stream was closed"})
	<-s.done
	return nil
}

// part is the sink of one try at a sentence: it passes on the samples that were not heard yet.
type part struct {
	meter audio.Meter
	ctx   context.Context
	out   *pipe
	start time.Time
	skip  int64
	hold  bool // wait for the reader, if he is far behind
	came  int64
	after time.Duration
	wrong error
}

func (p *part) ContentType(t string) {
	p.meter.Samples = p.samples
	p.meter.Start(audio.Sound, t)
}

func (p *part) RetryAfter(d time.Duration) { p.after = d }

func (p *part) Write(b []byte) (int, error) {
	p.meter.Write(sample.Since(time.Since(p.start)), b)
	return len(b), p.wrong
}

func (p *part) samples(b []byte) {
	n := int64(len(b))
	p.came += n
	if already := min(n, max(0, p.skip-(p.came-n))); already > 0 {
		b = b[already:]
	}
	if len(b) == 0 || p.wrong != nil {
		return
	}
	if p.hold {
		p.wrong = p.out.room(p.ctx)
	}
	if p.wrong == nil {
		p.wrong = p.out.write(p.ctx, p.meter.Format(), b, time.Since(p.start))
	}
}

// pipe carries samples from who asks to who reads.
type pipe struct {
	mu     sync.Mutex
	moved  sync.Cond
	buf    []byte
	format audio.Format
	first  time.Duration
	over   error
}

func newPipe() *pipe {
	p := &pipe{first: Never}
	p.moved.L = &p.mu
	return p
}

func (p *pipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved.Broadcast()
}

// room waits while too much waits to be read.
func (p *pipe) room(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf) > ahead && p.over == nil && ctx.Err() == nil {
		p.moved.Wait()
	}
	if p.over != nil {
		return p.over
	}
	return context.Cause(ctx)
}

func (p *pipe) write(ctx context.Context, f audio.Format, b []byte, at time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over != nil:
		return p.over
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.first == Never:
		p.format, p.first = f, at
	case p.format != f:
		return &Error{Kind: Protocol, Cause: fmt.Sprintf("a sentence at %d Hz after one at %d Hz", f.Rate, p.format.Rate)}
	}
	p.buf = append(p.buf, b...)
	p.moved.Broadcast()
	return nil
}

func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over == nil {
		p.over = err
	}
	p.moved.Broadcast()
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf) == 0 && p.over == nil {
		p.moved.Wait()
	}
	if len(p.buf) == 0 {
		return 0, p.over
	}
	n := copy(b, p.buf)
	if p.buf = p.buf[n:]; len(p.buf) == 0 {
		p.buf = nil
	}
	p.moved.Broadcast()
	return n, nil
}

func (p *pipe) laidOut() Format {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.format
	if f.Channels == 0 {
		return Format{}
	}
	return Format{Rate: f.Rate, Channels: f.Channels, Bits: 8 * f.Block / f.Channels, Float: f.Encoding == audio.Float}
}

func (p *pipe) firstAudio() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}

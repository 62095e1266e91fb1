package transport

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/coder/websocket"

	"loadline/internal/load"
	"loadline/internal/sample"
)

// Failure is how a session or a text in it failed, in the words of a record.
type Failure struct {
	Outcome sample.Outcome
	Cause   string
	After   time.Duration // that the server asks to be left alone for; 0: it does not say
}

func (f *Failure) Error() string { return string(f.Outcome) + ": " + f.Cause }

// Message is what came in a session: sound, or what the server says of the text that it speaks.
type Message struct {
	Sound     []byte // until the next Receive
	ID        string // of the text
	Rate      int    // samples a second of the sound that follows, 0: not told
	Sentences *int64 // of the text spoken whole so far
	Samples   *int64
	End       bool     // of the text
	Failed    *Failure // the text, not the session
}

// Dialogue is one session in which the caller does the talking, in the messages of speech-server's protocol. Send and
// Receive may run at the same time, each on one goroutine; pings are answered while Receive runs.
type Dialogue interface {
	// Send sends one message.
	Send(ctx context.Context, message []byte) error
	// Receive is the next message, or part of one that is sound. io.EOF is a session that the server closed as one that is
	// done; other errors are *Failure, or that of ctx, which ends the session.
	Receive(ctx context.Context) (Message, error)
	// Close ends the session without a word; a session that is to end well is told so by a message, and received to its end.
	Close() error
}

// socketDialogue is one over a WebSocket.
type socketDialogue struct {
	c *websocket.Conn
	d dialect

	reader io.Reader // of a binary message that is not read to its end
	buf    []byte
}

// Dial opens a session. An error is a *Failure, or that of ctx.
func (w *WebSocket) Dial(ctx context.Context) (Dialogue, error) {
	start := time.Now()
	rec := sample.New(0)
	var told wait
	call := load.Call{Clock: func() sample.Nanos { return sample.Since(time.Since(start)) }, Sink: &told}
	ex, traced := w.pool.begin(ctx, call, &rec)
	c, resp, err := websocket.Dial(traced, w.url.String(), &websocket.DialOptions{HTTPClient: w.client, HTTPHeader: w.header, CompressionMode: websocket.CompressionDisabled})
	if err == nil {
		c.SetReadLimit(maxEvent)
		return &socketDialogue{c: c, d: w.dialect, buf: make([]byte, 8<<10)}, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if resp != nil {
		ex.answered(resp)
	}
	ex.stamp()
	w.unopened(ctx, call, ex, resp, err)
	return nil, &Failure{rec.Outcome, rec.Cause, told.after}
}

// wait is a sink that only wants to know how long to wait.
type wait struct{ after time.Duration }

func (w *wait) Write(b []byte) (int, error) { return len(b), nil }
func (w *wait) RetryAfter(d time.Duration)  { w.after = d }

func (d *socketDialogue) Send(ctx context.Context, message []byte) error {
	if err := d.c.Write(ctx, websocket.MessageText, message); err != nil {
		return d.failure(ctx, err)
	}
	return nil
}

func (d *socketDialogue) Receive(ctx context.Context) (Message, error) {
	for {
		if d.reader == nil {
			kind, r, err := d.c.Reader(ctx)
			if err != nil {
				return Message{}, d.failure(ctx, err)
			}
			if kind == websocket.MessageText {
				text, err := io.ReadAll(r)
				if err != nil {
					return Message{}, d.failure(ctx, err)
				}
				return d.d.understood(text)
			}
			d.reader = r
		}
		n, err := d.reader.Read(d.buf)
		switch {
		case err == io.EOF:
			d.reader = nil
		case err != nil:
			return Message{}, d.failure(ctx, err)
		}
		if n > 0 {
			return Message{Sound: d.buf[:n]}, nil
		}
	}
}

// understood is a text message as a dialogue hands it over.
func (d dialect) understood(text []byte) (Message, error) {
	s, err := d.read("", text)
	if err != nil {
		return Message{}, &Failure{Outcome: sample.ProtocolError, Cause: clean(err.Error())}
	}
	m := Message{Sound: s.sound, ID: s.id, Rate: s.rate, Sentences: s.sentences, Samples: s.samples, End: s.end}
	if s.outcome != "" {
		m.Failed = &Failure{s.outcome, s.cause, s.after}
	}
	return m, nil
}

func (d *socketDialogue) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
		return io.EOF
	}
	outcome, cause := hangUp(err, d.d.end, true)
	if outcome == "" {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		outcome, cause = broken(ctx, err, midReply)
	}
	return &Failure{Outcome: outcome, Cause: cause}
}

func (d *socketDialogue) Close() error { return d.c.CloseNow() }

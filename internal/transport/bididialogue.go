package transport

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"loadline/internal/load"
	"loadline/internal/sample"
)

// bidiDialogue is a dialogue over a bidirectional stream.
type bidiDialogue struct {
	s  *stream
	in messages
	// text is of a message that comes in parts.
	text bytes.Buffer
}

// Dial opens a session of the caller's own. An error is a *Failure, or that of ctx.
func (b *Bidi) Dial(ctx context.Context) (Dialogue, error) {
	start := time.Now()
	rec := sample.New(0)
	var told wait
	call := load.Call{Clock: func() sample.Nanos { return sample.Since(time.Since(start)) }, Sink: &told}
	ex := newExchange(call, &rec)
	s, err := b.sign(ctx)
	if err == nil {
		if err = b.send(ctx, call, s, ex); err == nil {
			return &bidiDialogue{s: s, in: messages{body: s.body, buf: make([]byte, 4<<10), clock: call.Clock}}, nil
		}
		s.hang()
	}
	if rec.Outcome == "" {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		ex.fail(ctx, err)
	}
	return nil, &Failure{rec.Outcome, rec.Cause, told.after}
}

func (d *bidiDialogue) Send(ctx context.Context, message []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := d.s.ask([][]byte{message}); err != nil {
		return &Failure{Outcome: sample.ClientFault, Cause: clean(err.Error())}
	}
	return nil
}

func (d *bidiDialogue) Receive(ctx context.Context) (Message, error) {
	stop := context.AfterFunc(ctx, d.s.hang)
	defer stop()
	for {
		m, err := d.in.next()
		switch {
		case ctx.Err() != nil:
			return Message{}, context.Cause(ctx)
		case err == io.EOF: // the platform shows a tidy close as the end of the stream
			return Message{}, io.EOF
		case err != nil:
			outcome, cause := broken(ctx, err, midReply)
			return Message{}, &Failure{Outcome: outcome, Cause: cause}
		}
		switch string(m.kind) {
		case "exception":
			o, cause, broke := d.s.from.exception(string(m.name), m.payload, true)
			if broke != nil {
				o, cause = broken(ctx, broke, midReply)
			}
			if o == sample.OK {
				return Message{}, io.EOF
			}
			return Message{}, &Failure{Outcome: o, Cause: cause}
		case "error":
			o, cause := service(string(m.name), string(m.text), http.StatusInternalServerError)
			return Message{}, &Failure{Outcome: o, Cause: cause}
		}
		if string(m.name) != "PayloadPart" || string(m.kind) != "event" {
			continue
		}
		if !m.utf8 {
			if len(m.payload) > 0 {
				return Message{Sound: m.payload}, nil
			}
			continue
		}
		d.text.Write(m.payload)
		if m.partial && d.text.Len() <= maxEvent {
			continue
		}
		text := bytes.Clone(d.text.Bytes())
		d.text.Reset()
		return d.s.from.dialect.understood(text)
	}
}

func (d *bidiDialogue) Close() error {
	d.s.hang()
	return nil
}

package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"loadline/internal/sample"
)

// stream is one session of a Bidi. One goroutine reads it for as long as it lasts, so that its end is seen whatever
// happens; what it reads goes to the text that is being spoken.
type stream struct {
	from    *Bidi
	request *http.Request // until it is sent
	signer  *v4.StreamSigner
	out     *outgoing
	cancel  context.CancelFunc
	body    io.ReadCloser
	opened  time.Time
	since   time.Time     // idle since then; the user's, like rested
	rested  time.Duration // before this text
	parting atomic.Bool   // it was told to end
	clock   atomic.Pointer[func() sample.Nanos]

	floor
	text []byte // of a message that comes in parts; under the floor's lock
}

// signedEvents is what a request whose events are signed one by one has for the hash of its body.
const signedEvents = "STREAMING-AWS4-HMAC-SHA256-EVENTS"

// sign is a new session, whose request is signed and not sent.
func (b *Bidi) sign(ctx context.Context) (*stream, error) {
	s := &stream{from: b, out: newOutgoing(), opened: time.Now(), since: time.Now()}
	u := *b.url // the signer writes to it
	req := &http.Request{Method: http.MethodPost, URL: &u, Host: b.url.Host, Proto: "HTTP/2.0", ProtoMajor: 2, Body: s.out, ContentLength: -1, Header: http.Header{
		"Content-Type": {"application/vnd.amazon.eventstream"}, "X-Amz-Content-Sha256": {signedEvents}, "User-Agent": {"loadline"},
	}}
	for name, v := range map[string]string{"Target-Variant": b.o.Variant, "Model-Invocation-Path": b.o.Path, "Model-Query-String": b.o.Query} {
		if v != "" {
			req.Header.Set("X-Amzn-Sagemaker-"+name, v)
		}
	}
	keys, err := b.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, unsigned{err}
	}
	if err := v4.NewSigner().SignHTTP(ctx, keys, req, signedEvents, "sagemaker", b.cfg.Region, time.Now()); err != nil {
		return nil, unsigned{err}
	}
	seed, err := v4.GetSignedRequestSignature(req)
	if err != nil {
		return nil, unsigned{err}
	}
	s.request, s.signer = req, v4.NewStreamSigner(keys, "sagemaker", b.cfg.Region, seed)
	return s, nil
}

// unsigned is a request that was never sent.
type unsigned struct{ error }

func (u unsigned) Unwrap() error { return u.error }

// ask queues the messages of one text, an event each.
func (s *stream) ask(messages [][]byte) error {
	for _, m := range messages {
		event := eventstream.Message{Payload: m, Headers: eventstream.Headers{
			{Name: ":message-type", Value: eventstream.StringValue("event")},
			{Name: ":event-type", Value: eventstream.StringValue("PayloadPart")},
			{Name: ":content-type", Value: eventstream.StringValue("application/octet-stream")},
			{Name: "DataType", Value: eventstream.StringValue("UTF8")},
			{Name: "CompletionState", Value: eventstream.StringValue("COMPLETE")},
		}}
		var b bytes.Buffer
		if err := eventstream.NewEncoder().Encode(&b, event); err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		if err := s.seal(b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// seal queues an encoded event in its signed envelope, or, of no bytes, the end of the input.
func (s *stream) seal(event []byte) error {
	var headers, b bytes.Buffer
	at := time.Now()
	m := eventstream.Message{Headers: eventstream.Headers{{Name: ":date", Value: eventstream.TimestampValue(at)}}, Payload: event}
	if err := eventstream.EncodeHeaders(&headers, m.Headers); err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	sum, err := s.signer.GetSignature(context.Background(), headers.Bytes(), event, at)
	if err != nil {
		return fmt.Errorf("sign an event: %w", err)
	}
	m.Headers.Set(":chunk-signature", eventstream.BytesValue(sum))
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	s.out.write(b.Bytes(), len(event) == 0)
	return nil
}

// begin gives the session to a text; false where it has ended.
func (s *stream) begin(t *turn) bool {
	s.clock.Store(&t.ex.clock)
	return s.floor.begin(t)
}

// leave takes the text off the session, which is kept for the next one where it may be, or ended.
func (s *stream) leave(whole, keep bool) {
	over := s.yield()
	switch b := s.from; {
	case over:
	case !whole:
		s.hang()
	case !keep:
		s.goodbye()
	default:
		if s.since = time.Now(); !b.keep(s) {
			s.goodbye()
		}
	}
}

// goodbye ends the session tidily: the input ends, and the peer has a moment to end as well.
func (s *stream) goodbye() {
	s.parting.Store(true)
	if s.seal(nil) != nil {
		s.hang()
		return
	}
	time.AfterFunc(farewell, s.hang)
}

// hang breaks the session off. Only closing the body of the answer ends a request whose own body is not at its end.
func (s *stream) hang() {
	s.out.Close()
	if s.cancel != nil {
		s.cancel()
	}
	if s.body != nil {
		s.body.Close()
	}
}

// read takes messages until the session ends.
func (s *stream) read() {
	in := messages{body: s.body, buf: make([]byte, 4<<10), clock: func() sample.Nanos { return (*s.clock.Load())() }}
	for {
		m, err := in.next()
		if err == nil && !s.hear(m) {
			if cap(in.long) > 1<<20 { // a large message was an exception
				in.long = nil
			}
			continue
		}
		s.end(err)
		return
	}
}

// end marks the session as over, and the text that was being spoken as broken off, or ended where that is its end.
func (s *stream) end(err error) {
	b := s.from
	b.mu.Lock()
	delete(b.sessions, s)
	b.idle = slices.DeleteFunc(b.idle, func(other *stream) bool { return other == s })
	b.mu.Unlock()
	s.mu.Lock()
	s.over = true
	if s.turn != nil {
		switch {
		case err == io.EOF && b.dialect.end == EndClose:
			err = nil
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
		s.finish(err)
	}
	s.mu.Unlock()
	s.hang()
}

// outgoing is the body of a request that is written while it is sent.
type outgoing struct {
	mu     sync.Mutex
	more   *sync.Cond
	queue  []byte
	ended  bool
	closed bool
}

func newOutgoing() *outgoing {
	o := &outgoing{}
	o.more = sync.NewCond(&o.mu)
	return o
}

// write queues bytes; last: nothing comes after them.
func (o *outgoing) write(b []byte, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.queue, o.ended = append(o.queue, b...), last
	o.more.Signal()
}

// Read waits for what is written.
func (o *outgoing) Read(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 && !o.ended && !o.closed {
		o.more.Wait()
	}
	switch {
	case o.closed:
		return 0, io.ErrClosedPipe
	case len(o.queue) == 0:
		return 0, io.EOF
	}
	n := copy(b, o.queue)
	if o.queue = o.queue[n:]; len(o.queue) == 0 {
		o.queue = nil
	}
	return n, nil
}

// Close ends the waiting.
func (o *outgoing) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.more.Broadcast()
	return nil
}

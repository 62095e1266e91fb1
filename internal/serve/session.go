package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"loadline/internal/speech"
)

// Limits of a session.
const (
	maxTexts   = 5                      // texts open in one session, the one being spoken included
	frameMs    = 80                     // of sound in a binary frame; one is never longer than 100 ms
	leastMs    = 20                     // nor shorter than this, but for the last of a sentence
	idleText   = 200 * time.Millisecond // a sentence that ends is spoken if no more text comes for so long
	sayAnyway  = 10 * time.Second       // something is sent at least so often while a text is spoken
	lastWords  = time.Second            // for messages to a peer who is about to be cut off
	maxTextBuf = 256 << 10              // bytes of a text that wait to be spoken
)

// Types of the messages of a session. A message without one is a whole text.
const (
	msgText      = "text"      // in: more of a text
	msgFlush     = "flush"     // in: speak what is there, whole sentence or not
	msgEnd       = "end"       // in: that was all of the text
	msgInterrupt = "interrupt" // in: stop, now; with a request_id, that text only
	msgClose     = "close"     // in: no more texts

	msgStart       = "synthesis_start"
	msgSentence    = "sentence" // one more was spoken whole
	msgProgress    = "progress"
	msgComplete    = "synthesis_complete"
	msgInterrupted = "interrupted"
	msgError       = "error"
)

// incoming is a message from the client: the fields of a body, and what a session adds.
type incoming struct {
	body
	Type      string  `json:"type"`
	RequestID *string `json:"request_id"`
}

// outgoing is a message to the client. Counts are of the text's beginning, those left out by resume_at included in
// sentences.
type outgoing struct {
	Type       string   `json:"type"`
	RequestID  string   `json:"request_id"`
	SampleRate int      `json:"sample_rate,omitempty"`
	Sentences  *int     `json:"sentences,omitempty"`
	Samples    *int64   `json:"samples,omitempty"`
	Duration   *float64 `json:"total_duration_s,omitempty"`
	Elapsed    *float64 `json:"elapsed_s,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	ResumeAt   *int     `json:"resume_at,omitempty"`
	Omitted    []string `json:"omitted,omitempty"` // of the text, not said: the first of them
	Removed    []string `json:"removed,omitempty"` // tags of the text, which do nothing: the first of them
}

// Reasons of an interruption.
const (
	byClient = "client"
	byServer = CodeShutdown
)

var errInterrupted = errors.New("interrupted by the client")

// session is one WebSocket. The handler's goroutine reads, so that pings are answered and interruptions heard whatever
// happens; one speaks, text after text; one pings.
type session struct {
	s      *Server
	c      *websocket.Conn
	id     string
	ctx    context.Context
	cancel context.CancelCauseFunc
	base   ask // settings by query

	mu      sync.Mutex
	texts   []*text // open, the first is being spoken
	open    *text   // the last one, while more of it may come
	closing bool    // no more texts are taken
	more    chan struct{}
	seq     int
}

// session upgrades, or refuses as /invocations does while that can be told.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	id := s.requestID(r)
	base, err := s.upgradable(r)
	if err != nil {
		s.refuse(w, id, asFault(err))
		return
	}
	s.writeBy(w)
	// Any origin will do: behind the platform's door, peers are not browsers with somebody's cookies.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // it has answered
	}
	defer c.CloseNow()
	c.SetReadLimit(s.cfg.MaxBody)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	n := &session{s: s, c: c, id: id, ctx: ctx, cancel: cancel, base: base, more: make(chan struct{}, 1)}
	if !s.enter() {
		_ = c.Close(websocket.StatusGoingAway, CodeShutdown)
		cancel(nil)
		return
	}
	defer s.exit()
	unhook := context.AfterFunc(s.hard, func() {
		time.AfterFunc(lastWords, func() { cancel(errDraining) }) // which breaks the connection, however the peer reads
	})
	defer unhook()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	work.Go(n.ping)
	work.Go(n.speak)
	n.read()
}

// upgradable is what must hold before a connection becomes a session.
func (s *Server) upgradable(r *http.Request) (ask, error) {
	has := func(header, token string) bool {
		for _, v := range r.Header.Values(header) {
			for _, t := range strings.Split(v, ",") {
				if strings.EqualFold(strings.TrimSpace(t), token) {
					return true
				}
			}
		}
		return false
	}
	switch {
	case r.Method != http.MethodGet:
		return ask{}, badMethod(r, "GET")
	case !r.ProtoAtLeast(1, 1) || !has("Connection", "upgrade") || !has("Upgrade", "websocket") || r.Header.Get("Sec-WebSocket-Key") == "":
		return ask{}, &fault{Status: http.StatusUpgradeRequired, Code: CodeInvalid, Field: "Upgrade", upgrade: true,
			Message: "this route is a WebSocket: open it with a WebSocket client"}
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return ask{}, invalid("Sec-WebSocket-Version", "this server speaks version 13 of WebSocket")
	case !s.isReady():
		return ask{}, errNotReady
	}
	var b body
	q := r.URL.Query()
	for key, at := range map[string]**string{"voice": &b.Voice, "language": &b.Language} {
		if v := q.Get(key); v != "" {
			*at = &v
		}
	}
	for key, at := range map[string]**float64{"speed": &b.Speed, "sample_rate": &b.SampleRate} {
		if v := q.Get(key); v != "" {
			var f float64
			if json.Unmarshal([]byte(v), &f) != nil {
				return ask{}, invalid(key, "%s is %q: send a number", key, v)
			}
			*at = &f
		}
	}
	a := defaults()
	if err := a.take(b); err != nil {
		return ask{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return ask{}, errDraining
	}
	return a, s.gate.Refuse(time.Now())
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.sessions++
	return true
}

func (s *Server) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions--
	s.settle()
}

// read takes messages until the peer goes or the session ends.
func (n *session) read() {
	for {
		kind, raw, err := n.c.Read(n.ctx)
		if err != nil {
			n.cancel(err)
			return
		}
		switch {
		case kind == websocket.MessageText && !utf8.Valid(raw):
			n.close(websocket.StatusInvalidFramePayloadData, "a text message is not UTF-8")
			return
		case kind == websocket.MessageBinary && !json.Valid(raw):
			n.close(websocket.StatusUnsupportedData, "a binary message holds JSON here, as a text message does")
			return
		}
		if id, err := n.take(raw); err != nil {
			n.fail(n.ctx, id, err)
		}
	}
}

// take acts on one message. Its error is told, and the session goes on.
func (n *session) take(raw []byte) (id string, err error) {
	var in incoming
	if err := decode(raw, &in); err != nil {
		return "", err
	}
	if in.RequestID != nil {
		if id = *in.RequestID; len(id) > 128 {
			return "", invalid("request_id", "request_id has %d bytes: at most 128", len(id))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch in.Type {
	case "", msgText:
		return id, n.write(id, in)
	case msgFlush, msgEnd:
		if n.open == nil || id != "" && id != n.open.ID {
			return id, invalid("type", "no text is open that could %s", in.Type)
		}
		n.open.finish(in.Type == msgEnd)
		if in.Type == msgEnd {
			n.open = nil
		}
		return "", nil
	case msgInterrupt:
		for _, t := range n.texts {
			if id == "" || t.ID == id {
				t.cancel(errInterrupted)
			}
		}
		if n.open != nil && (id == "" || n.open.ID == id) {
			n.open = nil
		}
		return "", nil
	case msgClose:
		if n.open != nil {
			n.open.finish(true)
		}
		n.open, n.closing = nil, true
		n.wake()
		return "", nil
	}
	return id, invalid("type", "type is %q: it is %s, %s, %s, %s or %s, or left out for a whole text", in.Type, msgText, msgFlush, msgEnd, msgInterrupt, msgClose)
}

// write adds to the open text, or opens one.
func (n *session) write(id string, in incoming) error {
	if in.Text == nil {
		return invalid("text", `text is missing: send an object like {"text": "Hello."}`)
	}
	t := n.open
	if t == nil || in.Type == "" || id != "" && id != t.ID {
		switch {
		case n.closing:
			return invalid("type", "the session is closing: it takes no more texts")
		case n.s.isDraining():
			return errDraining
		case len(n.texts) >= maxTexts:
			return &fault{Status: http.StatusTooManyRequests, Code: CodeLimit, Retryable: true,
				Message: fmt.Sprintf("%d texts are open in this session: it takes %d at a time", len(n.texts), maxTexts)}
		}
		a := n.base
		if err := a.take(in.body); err != nil {
			return err
		}
		if a.format == formatMP3 || a.format == formatOpus {
			return invalid("format", "format is %q: a session's sound is %s, without a header", a.format, formatPCM)
		}
		if a.ID = id; id == "" {
			n.seq++
			a.ID = fmt.Sprintf("%s-%d", n.id, n.seq)
		}
		a.live, a.stream = true, true
		if n.open != nil {
			n.open.finish(true) // one text at a time grows
		}
		t = &text{ask: a, skip: a.resume, more: make(chan struct{}, 1)}
		t.ctx, t.cancel = context.WithCancelCause(n.ctx)
		n.texts = append(n.texts, t)
		n.open = t
		n.wake()
	}
	err := t.write(*in.Text, n.s.info.Whole && in.Type == "")
	if in.Type == "" {
		t.finish(true)
		n.open = nil
	}
	if err != nil {
		t.cancel(err)
		n.open = nil
	}
	return nil
}

func (n *session) wake() { poke(n.more) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Server) isDraining() bool {
	select {
	case <-s.drain:
		return true
	default:
		return false
	}
}

// speak speaks the session's texts one after the other, until there are no more or the server stops.
func (n *session) speak() {
	defer n.cancel(nil)
	for {
		n.mu.Lock()
		var t *text
		if len(n.texts) > 0 {
			t = n.texts[0]
		}
		closing := n.closing
		n.mu.Unlock()
		switch {
		case n.ctx.Err() != nil:
			return
		case n.s.isDraining():
			n.leave()
			return
		case t != nil:
			again := n.say(t)
			n.mu.Lock()
			if n.texts = n.texts[1:]; n.open == t {
				n.open = nil
			}
			n.mu.Unlock()
			t.cancel(nil)
			if !again {
				return
			}
		case closing:
			n.close(websocket.StatusNormalClosure, "done")
			return
		default:
			select {
			case <-n.more:
			case <-n.s.drain:
			case <-n.ctx.Done():
			}
		}
	}
}

// leave closes the session of a server that stops; texts not begun are told so.
func (n *session) leave() {
	n.mu.Lock()
	n.closing = true
	rest := n.texts
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(n.ctx, lastWords)
	defer cancel()
	for _, t := range rest {
		t.cancel(errDraining)
		n.fail(ctx, t.ID, errDraining)
	}
	n.close(websocket.StatusGoingAway, CodeShutdown)
}

// say speaks one text and tells how it ended; false ends the session.
func (n *session) say(t *text) bool {
	first, _, err := t.next(t.ctx, n.s.drain) // an open text without words holds no ticket
	if err == io.EOF {
		err = invalid("text", "the text has no letter or digit in it that is read aloud: there is nothing to speak")
		if t.resume > t.skip {
			err = invalid("resume_at", "resume_at is %d: the text has %d sentences", t.resume, t.resume-t.skip)
		}
	}
	if err != nil {
		return n.told(t, nil, 0, err)
	}
	ticket, err := n.s.admit(false)
	if err != nil {
		return n.told(t, nil, 0, err)
	}
	a := t.ask
	a.Arrived = time.Now()
	given := false
	sp := n.s.speak(t.ctx, nil, ticket, a, func(ctx context.Context) (speech.Part, bool, error) {
		if !given {
			given = true
			return first, false, nil
		}
		p, waited, err := t.next(ctx, n.s.wind)
		if err == errDraining {
			err = &interrupted{} // between two sentences; where is known below
		}
		return p, waited, err
	})
	f := &framer{c: n.c, ctx: n.ctx, stop: sp.ctx, wait: n.s.cfg.WriteWait, rate: a.rate, tune: n.s.tuner(a.rate)}
	err = n.send(n.ctx, outgoing{Type: msgStart, RequestID: t.ID, SampleRate: a.rate})
	if err == nil {
		err = n.play(t, sp, f)
	}
	sp.end()
	return n.told(t, sp, f.samples, err)
}

// play sends the pieces of a text as they come.
func (n *session) play(t *text, sp *speaking, f *framer) error {
	quiet := time.NewTicker(sayAnyway)
	defer quiet.Stop()
	for {
		p, ok, err := sp.next(quiet.C)
		switch {
		case !ok:
			err = n.send(n.ctx, n.count(msgProgress, t, sp, f.samples))
		case err == io.EOF:
			return f.finish()
		case err == nil:
			quiet.Reset(sayAnyway)
			if err = f.write(p.sound); err == nil && p.ends {
				sp.sentences++
				if err = f.send(1); err == nil { // whoever goes on after this sentence has all of it
					err = n.send(n.ctx, n.count(msgSentence, t, sp, f.samples))
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

func (n *session) count(kind string, t *text, sp *speaking, samples int64) outgoing {
	sentences := t.resume
	if sp != nil {
		sentences = sp.sentences
	}
	return outgoing{Type: kind, RequestID: t.ID, Sentences: &sentences, Samples: &samples}
}

// told sends how a text ended, and says whether the session goes on. sp is nil if it never began.
func (n *session) told(t *text, sp *speaking, samples int64, err error) bool {
	if n.ctx.Err() != nil {
		return false // nobody is there
	}
	var cut *interrupted
	stopped := errors.As(err, &cut) || errors.Is(err, errDraining)
	ctx := n.ctx
	if stopped {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, lastWords)
		defer cancel()
	}
	switch {
	case err == nil:
		o := n.count(msgComplete, t, sp, samples)
		duration, elapsed := float64(samples)/float64(t.rate), time.Since(sp.arrived).Seconds()
		o.Duration, o.Elapsed, o.Omitted = &duration, &elapsed, sp.omitted.list
		o.Removed = short(t.tags())
		return n.send(ctx, o) == nil
	case errors.Is(context.Cause(t.ctx), errInterrupted) || stopped && sp != nil && sp.bytes > 0:
		o := n.count(msgInterrupted, t, sp, samples)
		o.Reason, o.ResumeAt = byClient, o.Sentences
		if stopped {
			o.Reason = byServer
		}
		return n.send(ctx, o) == nil
	}
	if c := context.Cause(t.ctx); c != nil && !stopped {
		err = c
	}
	if f := asFault(err); f.Code == CodeSynthesis {
		n.s.log.line(fmt.Sprintf("request %s: %s: %v", t.ID, f.Code, err))
	}
	n.fail(ctx, t.ID, err)
	n.mu.Lock()
	alone := len(n.texts) == 1
	n.mu.Unlock()
	if asFault(err).Code == CodeSaturated && alone {
		n.close(websocket.StatusTryAgainLater, CodeSaturated)
		return false
	}
	return n.ctx.Err() == nil
}

// fail sends an error.
func (n *session) fail(ctx context.Context, id string, err error) {
	f := *asFault(err)
	f.RequestID = id
	_ = n.send(ctx, struct {
		Type string `json:"type"`
		*fault
	}{msgError, &f}) // a peer who is gone ends the session elsewhere
}

// send writes one message.
func (n *session) send(ctx context.Context, message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		panic(err) // strings, numbers and bools
	}
	ctx, cancel := context.WithTimeout(ctx, n.s.cfg.WriteWait)
	defer cancel()
	return n.c.Write(ctx, websocket.MessageText, b)
}

// close says goodbye; the reader hears the answer, or the peer's silence ends the session.
func (n *session) close(code websocket.StatusCode, reason string) {
	_ = n.c.Close(code, reason)
	n.cancel(nil)
}

// ping ends the session of a peer who does not answer.
func (n *session) ping() {
	tick := time.NewTicker(n.s.cfg.PingEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(n.ctx, n.s.cfg.PingEvery)
		err := n.c.Ping(ctx)
		cancel()
		if err != nil {
			n.cancel(fmt.Errorf("the peer does not answer pings: %w", err))
			_ = n.c.CloseNow()
			return
		}
	}
}

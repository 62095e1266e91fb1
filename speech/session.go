package speech

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"loadline/internal/sample"
	"loadline/internal/transport"
)

// dialer opens dialogues.
type dialer interface {
	Dial(ctx context.Context) (transport.Dialogue, error)
}

// Session is a conversation with a server: text after text is spoken over one connection, each as it comes. One that
// breaks is opened again when it is needed.
//
// It is for doors that take messages: a WebSocket, or SageMaker's bidirectional stream, to a server that speaks the
// protocol of this project's. A session counts as one request in flight for as long as a text of it is open, and some
// platforms count it for as long as it is connected: close one that is not needed. Whoever reads a text a minute and a half
// behind its coming holds the line up, and may lose it.
type Session struct {
	c   *Client
	to  dialer
	ctx context.Context
	end context.CancelCauseFunc

	readers sync.WaitGroup

	mu   sync.Mutex
	line *line // nil: none is up
	turn *Turn // the text that is being spoken
	seq  int
}

// line is one connection.
type line struct {
	transport.Dialogue
	closed chan struct{} // what was to be read has been
	err    error         // why, then; io.EOF: tidily

	mu  sync.Mutex
	try *try // what is read belongs to it
}

// Session opens a conversation. ctx is that of all of it.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	to, ok := c.to.(dialer)
	if !ok {
		return nil, &Error{Kind: Invalid, Cause: "this way to ask takes a whole text at a time: a session wants a WebSocket or a bidirectional stream"}
	}
	s := &Session{c: c, to: to}
	s.ctx, s.end = context.WithCancelCause(ctx)
	c.retry.first()
	for tries := 1; ; tries++ {
		_, err := s.connected(s.ctx)
		if err == nil {
			return s, nil
		}
		var e *Error
		if errors.As(err, &e) {
			err = c.retry.again(ctx, tries, e)
		}
		if err != nil {
			s.end(nil)
			return nil, err
		}
	}
}

// connected is the line that is up, or a new one. One goroutine at a time asks for it.
func (s *Session) connected(ctx context.Context) (*line, error) {
	s.mu.Lock()
	l := s.line
	s.mu.Unlock()
	if l != nil {
		select {
		case <-l.closed:
		default:
			return l, nil
		}
	}
	limited, cancel := context.WithTimeout(ctx, s.c.timeout)
	defer cancel()
	d, err := s.to.Dial(limited)
	if err != nil {
		return nil, failed(ctx, limited, err)
	}
	l = &line{Dialogue: d, closed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		_ = d.Close()
		return nil, context.Cause(s.ctx)
	}
	s.line = l
	s.readers.Go(func() { l.read(s.ctx) })
	return l, nil
}

// failed is the error of a session that broke off with err.
func failed(ctx, limited context.Context, err error) error {
	var f *transport.Failure
	switch {
	case errors.As(err, &f):
		return failure(f.Outcome, f.Cause, 0, f.After)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return &Error{Kind: Timeout, Cause: "no session within the timeout"}
	}
	return &Error{Kind: Server, Cause: err.Error()}
}

// read hands what comes to the text that is being spoken, for as long as the line lasts: pings are answered meanwhile.
func (l *line) read(ctx context.Context) {
	defer close(l.closed)
	for {
		m, err := l.Receive(ctx)
		l.mu.Lock()
		t := l.try
		l.mu.Unlock()
		if err != nil {
			l.err = err
			_ = l.Dialogue.Close()
			return
		}
		if t != nil {
			t.hear(m)
		}
	}
}

// Close ends the conversation: what is still spoken is broken off. An error says that its end was not a tidy one; texts
// that were read to their end are whole all the same.
func (s *Session) Close() error {
	s.mu.Lock()
	l, turn := s.line, s.turn
	s.line = nil
	s.mu.Unlock()
	var err error
	if l != nil && turn == nil && s.ctx.Err() == nil {
		err = s.farewell(l)
	}
	s.end(&Error{Kind: Closed, Cause: "the session was closed"})
	if turn != nil {
		<-turn.done
	}
	if l != nil {
		_ = l.Dialogue.Close()
	}
	s.readers.Wait()
	return err
}

// farewell says that there will be no more texts, and waits for the server's own.
func (s *Session) farewell(l *line) error {
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	if err := l.Send(ctx, []byte(`{"type":"close"}`)); err != nil {
		return fmt.Errorf("speech: close the session: %w", err)
	}
	select {
	case <-l.closed:
		if l.err != io.EOF {
			return fmt.Errorf("speech: close the session: %w", l.err)
		}
		return nil
	case <-ctx.Done():
		return &Error{Kind: Timeout, Cause: "the server did not close the session"}
	}
}

// Turn is one text in a session. Text is written while its sound is read; End says that there is no more of it.
type Turn struct {
	s      *Session
	ctx    context.Context
	cancel context.CancelFunc
	out    *pipe
	start  time.Time
	done   chan struct{}
	more   chan struct{}

	mu      sync.Mutex
	id      string
	text    []byte // whole runes
	rune    []byte // the beginning of one
	ended   bool
	flushAt int // what is before it is to be spoken, whole sentence or not
	stopped bool

	// Only the try at hand touches these, and those after it.
	sentences int64 // spoken whole
	base      int64 // bytes of sound of them
	heard     int64 // bytes of sound that were passed on
}

// Say has a whole text spoken.
func (s *Session) Say(ctx context.Context, text string) (*Turn, error) {
	t, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := t.WriteString(text); err == nil {
		err = t.End()
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Begin opens a text that comes piece by piece. The one before must have been read to its end, or closed.
func (s *Session) Begin(ctx context.Context) (*Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return nil, context.Cause(s.ctx)
	case s.turn != nil:
		return nil, &Error{Kind: Invalid, Cause: "the text before is still being spoken: read it to its end, or close it"}
	}
	s.seq++
	t := &Turn{s: s, id: fmt.Sprintf("turn-%d", s.seq), out: newPipe(), start: time.Now(), done: make(chan struct{}), more: make(chan struct{}, 1)}
	t.ctx, t.cancel = context.WithCancel(ctx)
	s.turn = t
	unhook := context.AfterFunc(s.ctx, t.cancel)
	unwake := context.AfterFunc(t.ctx, t.out.wake)
	go func() {
		err := t.run()
		t.cancel()
		unhook()
		unwake()
		s.mu.Lock()
		s.turn = nil
		s.mu.Unlock()
		close(t.done)
		t.out.end(err) // whoever has read it may begin the next
	}()
	return t, nil
}

// Write takes more of the text. It may end inside a character, whose rest comes with the next piece.
func (t *Turn) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return 0, &Error{Kind: Invalid, Cause: "the text has ended"}
	}
	all := append(t.rune, b...)
	cut := len(all)
	for i := max(0, len(all)-utf8.UTFMax+1); i < len(all); i++ {
		if utf8.RuneStart(all[i]) && !utf8.FullRune(all[i:]) {
			cut = i
			break
		}
	}
	if !utf8.Valid(all[:cut]) {
		return 0, &Error{Kind: Invalid, Cause: "the text is not UTF-8"}
	}
	t.text = append(t.text, all[:cut]...)
	t.rune = append([]byte(nil), all[cut:]...)
	t.poke()
	return len(b), nil
}

// WriteString takes more of the text.
func (t *Turn) WriteString(text string) (int, error) { return t.Write([]byte(text)) }

// Flush has what was written so far spoken, though it be no whole sentence.
func (t *Turn) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flushAt = len(t.text)
	t.poke()
}

// End says that the text is whole.
func (t *Turn) End() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.poke()
	if len(t.rune) > 0 {
		return &Error{Kind: Invalid, Cause: "the text ends inside a character"}
	}
	return nil
}

func (t *Turn) poke() {
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// Read reads samples. It waits for the next ones; io.EOF is the end of the whole text.
func (t *Turn) Read(p []byte) (int, error) { return t.out.read(p) }

// Format is how the samples are laid out. It is known once the first has been read.
func (t *Turn) Format() Format { return t.out.laidOut() }

// FirstAudio is when the first sample came, from when the text was begun; Never before it has.
func (t *Turn) FirstAudio() time.Duration { return t.out.firstAudio() }

// Interrupt has the server stop, for a listener who talks. What has come until then can be read, and then io.EOF.
func (t *Turn) Interrupt() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.poke()
}

// Close gives the text up, and waits until nothing of it is under way.
func (t *Turn) Close() error {
	t.out.end(&Error{Kind: Closed, Cause: "the text was closed"})
	t.Interrupt()
	select {
	case <-t.done:
	case <-time.After(time.Second): // the server does not stop: its line is given up
		t.cancel()
		<-t.done
	}
	return nil
}

// run speaks the text, over one line after another where they break, and is how it ended.
func (t *Turn) run() error {
	t.s.c.retry.first()
	for tries := 1; ; tries++ {
		before := t.heard
		err := t.once(tries)
		if err == nil {
			return io.EOF
		}
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		var e *Error
		if !errors.As(err, &e) {
			return err
		}
		if t.heard > before { // it went on: a long text may outlive many lines
			tries = 1
		}
		if err = t.s.c.retry.again(t.ctx, tries, e); err != nil {
			return err
		}
	}
}

// try is one go at a text over one line.
type try struct {
	t     *Turn
	id    string
	part  part
	base  int64 // bytes of sound before it
	ended chan struct{}

	mu   sync.Mutex
	over bool
	err  error
}

// outgoing is a message of the protocol.
type outgoing struct {
	Type     string  `json:"type"`
	ID       string  `json:"request_id"`
	Text     *string `json:"text,omitempty"`
	ResumeAt int64   `json:"resume_at,omitempty"`
}

// once speaks what is left of the text over one line.
func (t *Turn) once(n int) error {
	l, err := t.s.connected(t.ctx)
	if err != nil {
		return err
	}
	y := &try{t: t, id: fmt.Sprintf("%s.%d", t.id, n), base: t.base, ended: make(chan struct{})}
	y.part = part{ctx: t.ctx, out: t.out, start: t.start, skip: t.heard - t.base, hold: true}
	y.part.ContentType("audio/pcm")
	l.mu.Lock()
	l.try = y
	l.mu.Unlock()
	err = t.talk(l, y)
	l.mu.Lock()
	l.try = nil
	l.mu.Unlock()
	y.mu.Lock()
	told := y.over // by the server
	y.over = true
	if told {
		err = y.err
	}
	t.heard = max(t.heard, y.base+y.part.came)
	y.mu.Unlock()
	if err != nil && !(told && staysUp(err)) { // what else comes over this line would be the text's
		_ = l.Dialogue.Close()
		<-l.closed
	}
	return err
}

// staysUp says whether a session outlives an error of a text.
func staysUp(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrModel) || errors.Is(err, ErrThrottled) || errors.Is(err, ErrStale)
}

// talk sends the text as it comes, until it has been spoken or the line breaks.
func (t *Turn) talk(l *line, y *try) error {
	sent, flushed, told, stopping := 0, 0, false, false
	silence := time.NewTimer(t.s.c.timeout)
	defer silence.Stop()
	for came := int64(-1); ; {
		t.mu.Lock()
		text, ended, flushAt, stopped := string(t.text[sent:]), t.ended, t.flushAt, t.stopped
		t.mu.Unlock()
		var err error
		say := func(m outgoing) {
			if m.ID = y.id; err == nil {
				var b []byte
				if b, err = json.Marshal(m); err == nil {
					err = l.Send(t.ctx, b)
				}
			}
		}
		if text != "" {
			m := outgoing{Type: "text", Text: &text}
			if sent == 0 {
				m.ResumeAt = t.sentences
			}
			say(m)
			sent += len(text)
		}
		switch {
		case stopped && sent == 0, ended && sent == 0:
			if stopped {
				return nil
			}
			return &Error{Kind: Invalid, Cause: "the text has nothing in it"}
		case stopped && !stopping:
			say(outgoing{Type: "interrupt"})
			stopping = true
		case ended && !told:
			say(outgoing{Type: "end"})
			told = true
			silence.Reset(t.s.c.timeout)
		case flushAt > flushed && !told:
			say(outgoing{Type: "flush"})
			flushed = flushAt
		}
		if err != nil {
			select {
			case <-l.closed: // it says better why
				return t.lost(l)
			case <-time.After(time.Second):
				return failed(t.ctx, t.ctx, err)
			}
		}
		select {
		case <-t.more:
		case <-y.ended:
			y.mu.Lock()
			defer y.mu.Unlock()
			return y.err
		case <-l.closed:
			return t.lost(l)
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		case <-silence.C:
			y.mu.Lock()
			now := y.part.came
			y.mu.Unlock()
			if told && now == came {
				return &Error{Kind: Timeout, Cause: "no more of the sound within the timeout"}
			}
			came = now
			silence.Reset(t.s.c.timeout)
		}
	}
}

// lost is the error of a text whose line broke.
func (t *Turn) lost(l *line) error {
	if l.err == io.EOF {
		return &Error{Kind: Truncated, Cause: "truncated: closed before the message that says it is whole"}
	}
	return failed(t.ctx, t.ctx, l.err)
}

// hear takes a message about the text.
func (y *try) hear(m transport.Message) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.over || m.ID != "" && m.ID != y.id {
		return
	}
	if m.Rate > 0 && y.part.came == 0 {
		y.part.ContentType(fmt.Sprintf("audio/pcm;rate=%d", m.Rate))
	}
	var err error
	if len(m.Sound) > 0 {
		_, err = y.part.Write(m.Sound)
	}
	t := y.t
	switch {
	case err != nil:
	case m.Failed != nil:
		t.mu.Lock()
		stopped := t.stopped
		t.mu.Unlock()
		if f := m.Failed; !stopped || f.Outcome != sample.Truncated {
			err = failure(f.Outcome, f.Cause, 0, f.After)
		}
	case m.End && m.Samples != nil && *m.Samples != y.part.came/2:
		err = &Error{Kind: Truncated, Cause: fmt.Sprintf("truncated: its end states %d samples, %d came", *m.Samples, y.part.came/2)}
	case m.End && m.Sentences != nil && *m.Sentences != t.sentences:
		err = &Error{Kind: Truncated, Cause: fmt.Sprintf("truncated: its end states %d sentences, %d came", *m.Sentences, t.sentences)}
	case m.End:
	case m.Sentences != nil:
		if *m.Sentences > t.sentences {
			t.sentences, t.base = *m.Sentences, y.base+y.part.came
		}
		return
	default:
		return
	}
	y.over, y.err = true, err
	close(y.ended)
}

package transport

import (
	"errors"
	"sync"

	"loadline/internal/sample"
)

// turn is one text in a session. Until done is closed its fields are the reading goroutine's, under its floor's lock.
type turn struct {
	id    string
	ex    *exchange
	recv  *receiver
	told  tally
	heard bool // a message has come
	done  chan struct{}
	err   error
}

// hear notes that a message came.
func (t *turn) hear(at sample.Nanos) {
	t.heard = true
	if !t.ex.headers.Known() { // of a session that is used again
		t.ex.headers, t.recv.rec.Headers = at, at
	}
}

// listen takes what a text message says, unless it is about another text, and says whether this one is over by it.
func (t *turn) listen(at sample.Nanos, d dialect, text []byte) (over bool, err error) {
	m, err := d.read("", text)
	if err != nil {
		return true, err
	}
	if m.id != "" && m.id != t.id {
		return false, nil
	}
	return t.recv.hear(at, m, &t.told)
}

// floor is a session's: one text at a time has it.
type floor struct {
	mu   sync.Mutex
	turn *turn // nil: idle
	over bool  // the session has ended
}

var errOver = errors.New("the session is over")

// begin gives the session to a text; false where it has ended.
func (f *floor) begin(t *turn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return false
	}
	f.turn = t
	return true
}

// yield takes the text off the session: what is read from then on is no longer its. over: the session has ended.
func (f *floor) yield() (over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn = nil
	return f.over
}

// finish ends the text that is being spoken. f.mu is held.
func (f *floor) finish(err error) {
	t := f.turn
	f.turn, t.err = nil, err
	close(t.done)
}

// goesOn says whether a session can be used again after a text that ended so: the others are its own troubles as well.
func goesOn(o sample.Outcome) bool {
	return o == "" || o == sample.Throttled || o == sample.Stale || o == sample.ClientError
}

// anew makes a record that of a request which is only begun.
func anew(rec *sample.Request) {
	blank := sample.New(rec.Seq)
	blank.Worker, blank.Rung, blank.Intended, blank.Started = rec.Worker, rec.Rung, rec.Intended, rec.Started
	blank.Chars, blank.Text = rec.Chars, rec.Text
	*rec = blank
}

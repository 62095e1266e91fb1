package speech

import (
	"fmt"
	"strings"
	"time"

	"loadline/internal/sample"
)

// Kind is what went wrong, as far as a caller can act on it.
type Kind string

// The kinds. Saturated is a designed refusal of the container; a platform that is unavailable is Server.
const (
	Saturated Kind = "saturated" // the queue is full: come back after RetryAfter
	Throttled Kind = "throttled" // too many requests of this caller
	Stale     Kind = "stale"     // it waited too long for its turn
	Invalid   Kind = "invalid"   // the request itself: trying again does not help
	Model     Kind = "model"     // the model failed on it
	Server    Kind = "server"    // the server, the platform or the way there
	Timeout   Kind = "timeout"   // no reply, or no end of one, within Options.Timeout
	Truncated Kind = "truncated" // the reply ended without its end
	Empty     Kind = "empty"     // a reply without sound
	Protocol  Kind = "protocol"  // the reply is not what the door says
	Local     Kind = "local"     // this machine: names, certificates, sockets
	Closed    Kind = "closed"    // the session or the client was closed
)

// Errors to compare with, by errors.Is.
var (
	ErrSaturated = &Error{Kind: Saturated}
	ErrThrottled = &Error{Kind: Throttled}
	ErrStale     = &Error{Kind: Stale}
	ErrInvalid   = &Error{Kind: Invalid}
	ErrModel     = &Error{Kind: Model}
	ErrServer    = &Error{Kind: Server}
	ErrTimeout   = &Error{Kind: Timeout}
	ErrTruncated = &Error{Kind: Truncated}
	ErrEmpty     = &Error{Kind: Empty}
	ErrProtocol  = &Error{Kind: Protocol}
	ErrLocal     = &Error{Kind: Local}
	ErrClosed    = &Error{Kind: Closed}
)

// Error is why a text was not spoken, or not to its end.
type Error struct {
	Kind       Kind
	Cause      string        // in words, without addresses
	Status     int           // of HTTP, 0 where none came
	RetryAfter time.Duration // what the server asks for; 0: it does not say
	Tries      int           // how often it was tried
	Spent      bool          // it would have been tried again, had the budget of retries not been spent
}

func (e *Error) Error() string {
	var more []string
	if e.Tries > 1 {
		more = append(more, fmt.Sprintf("%d tries", e.Tries))
	}
	if e.Spent {
		more = append(more, "the budget of retries is spent")
	}
	if e.RetryAfter > 0 {
		more = append(more, fmt.Sprintf("the server asks for %v", e.RetryAfter))
	}
	s := "speech: " + string(e.Kind)
	if e.Cause != "" && e.Cause != string(e.Kind) {
		s += ": " + e.Cause
	}
	if len(more) > 0 {
		s += " (" + strings.Join(more, ", ") + ")"
	}
	return s
}

// Is says whether two errors are of one kind.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Kind == e.Kind
}

// Retryable says whether the same text may well be spoken later.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case Saturated, Throttled, Stale, Server, Timeout, Truncated, Empty:
		return true
	}
	return false
}

var kinds = map[sample.Outcome]Kind{
	sample.Rejected: Saturated, sample.Throttled: Throttled, sample.Stale: Stale, sample.ClientError: Invalid, sample.ModelError: Model,
	sample.ServerError: Server, sample.Timeout: Timeout, sample.Truncated: Truncated, sample.Empty: Empty, sample.ProtocolError: Protocol,
	sample.ClientFault: Local,
}

// failure is the error behind an outcome; nil where it is none.
func failure(o sample.Outcome, cause string, status int, after time.Duration) *Error {
	if o == sample.OK {
		return nil
	}
	return &Error{Kind: kinds[o], Cause: cause, Status: status, RetryAfter: after}
}

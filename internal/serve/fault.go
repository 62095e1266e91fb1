package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"loadline/internal/admission"
)

// Codes of errors, stable.
const (
	CodeSaturated  = "queue_saturated"    // 503: the gate is full
	CodeStale      = "request_stale"      // 408: waited too long for its place
	CodeInvalid    = "invalid_request"    // 400: field names what is wrong
	CodeTooLarge   = "payload_too_large"  // 413
	CodeShutdown   = "shutting_down"      // 503
	CodeStuck      = "not_progressing"    // 503, /ping only: work waits and nothing is completed
	CodeNotReady   = "not_ready"          // 503: before the warm-up has spoken
	CodeSynthesis  = "synthesis_failed"   // 500: the engine's failure
	CodeLimit      = "too_many_texts"     // 429, in a session
	CodeNotFound   = "not_found"          // 404
	CodeBadMethod  = "method_not_allowed" // 405
	maxRetryAfterS = 3600
)

// fault is an error as it goes over the wire: status, code and what the caller may do.
type fault struct {
	Status    int    `json:"-"`
	Code      string `json:"error"`
	Message   string `json:"message"`
	RequestID string `json:"request_id"`
	Retryable bool   `json:"retryable"`

	Field      string   `json:"field,omitempty"`
	QueueDepth *int     `json:"queue_depth,omitempty"`
	MaxDepth   *int     `json:"max_queue_depth,omitempty"`
	RetryAfter *float64 `json:"retry_after_s,omitempty"`

	allow   string
	upgrade bool
}

func (f *fault) Error() string { return f.Code + ": " + f.Message }

var (
	errDraining = &fault{Status: http.StatusServiceUnavailable, Code: CodeShutdown, Retryable: true,
		Message: "this instance is shutting down: send the request again"}
	errNotReady = &fault{Status: http.StatusServiceUnavailable, Code: CodeNotReady, Retryable: true,
		Message: "this instance has not spoken its warm-up text yet"}
)

func invalid(field, format string, args ...any) *fault {
	return &fault{Status: http.StatusBadRequest, Code: CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) *fault {
	return &fault{Status: http.StatusRequestEntityTooLarge, Code: CodeTooLarge, Message: fmt.Sprintf(format, args...)}
}

// asFault is the fault behind any error on the way of a request.
func asFault(err error) *fault {
	var f *fault
	var full *admission.Saturated
	var old *admission.Expired
	var cut *interrupted
	var field *FieldError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &full):
		// Room appears with every departure, but whoever comes back then finds the others who were told the same: the wait
		// named is that of the whole queue.
		after := math.Min(maxRetryAfterS, math.Max(1, math.Ceil(full.Drain.Seconds()*10)/10))
		return &fault{Status: http.StatusServiceUnavailable, Code: CodeSaturated, Retryable: true, Message: full.Error(),
			QueueDepth: &full.Depth, MaxDepth: &full.Max, RetryAfter: &after}
	case errors.As(err, &old):
		return &fault{Status: http.StatusRequestTimeout, Code: CodeStale, Retryable: true, Message: old.Error()}
	case errors.As(err, &cut):
		return errDraining
	case errors.As(err, &field):
		return invalid(field.Field, "%s", field.Message)
	}
	// The engine's own words stay in the log: they may name files or texts.
	return &fault{Status: http.StatusInternalServerError, Code: CodeSynthesis, Retryable: true,
		Message: "the engine failed to speak this text"}
}

// refuse answers with the fault.
func (s *Server) refuse(w http.ResponseWriter, id string, f *fault) {
	answer := *f
	answer.RequestID = id
	b, err := json.Marshal(&answer)
	if err != nil {
		panic(err) // strings, numbers and a bool
	}
	b = append(b, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("X-Request-Id", id)
	if f.RetryAfter != nil {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(*f.RetryAfter))))
	}
	if f.allow != "" {
		h.Set("Allow", f.allow)
	}
	if f.upgrade {
		h.Set("Upgrade", "websocket")
	}
	if f.Code == CodeShutdown || f.Code == CodeTooLarge {
		h.Set("Connection", "close")
	}
	s.writeBy(w)
	w.WriteHeader(f.Status)
	_, _ = w.Write(b) // a caller who is gone needs no answer
}

// writeBy gives the reader until WriteWait from now. net/http keeps a connection's last write deadline for its next
// request, so every answer sets its own.
func (s *Server) writeBy(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.cfg.WriteWait)) // an in-memory writer has none
}

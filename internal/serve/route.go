package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// route answers every path: /ping, /invocations, and JSON errors elsewhere.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	// Until a body was read whole the deadline stays, whatever the answer: net/http reads on to discard the rest, for as
	// long as the sender likes.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.BodyWait)) // an in-memory writer has none
	switch r.URL.Path {
	case "/ping":
		s.ping(w, r)
	case "/invocations":
		s.invocations(w, r)
	default:
		s.refuse(w, s.requestID(r), &fault{Status: http.StatusNotFound, Code: CodeNotFound,
			Message: fmt.Sprintf("no route %q: this container answers /ping and /invocations", r.URL.Path)})
	}
}

// ping says whether the platform may send work here. A full queue is no reason to be replaced, so only a server that has
// not spoken yet, or that is leaving, answers 503.
func (s *Server) ping(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead:
		s.refuse(w, s.requestID(r), badMethod(r, "GET, POST"))
	case draining:
		s.refuse(w, s.requestID(r), errDraining)
	case !s.isReady():
		s.refuse(w, s.requestID(r), errNotReady)
	default:
		s.writeBy(w)
		w.WriteHeader(http.StatusOK)
	}
}

func badMethod(r *http.Request, allow string) *fault {
	return &fault{Status: http.StatusMethodNotAllowed, Code: CodeBadMethod, allow: allow,
		Message: fmt.Sprintf("%s %s: send %s", r.Method, r.URL.Path, strings.ReplaceAll(allow, ", ", " or "))}
}

// invocations reads, admits, speaks and writes one request.
func (s *Server) invocations(w http.ResponseWriter, r *http.Request) {
	id := s.requestID(r)
	if r.Method != http.MethodPost {
		s.refuse(w, id, badMethod(r, "POST"))
		return
	}
	if !s.isReady() {
		s.refuse(w, id, errNotReady)
		return
	}
	a, err := s.read(w, r)
	if err != nil {
		s.refuse(w, id, asFault(err))
		return
	}
	// The ticket is taken after the body was understood: nothing malformed, slow or abandoned on its way in ever holds one.
	t, err := s.admit()
	if err != nil {
		s.refuse(w, id, asFault(err))
		return
	}
	a.ID, a.Arrived = id, time.Now() // its wait counts from here
	out := http.NewResponseController(w)
	sp := s.speak(r.Context(), out, t, a)
	defer sp.end()
	wr := &reply{ctx: sp.ctx, w: w, out: out, wait: s.cfg.WriteWait, rate: s.info.Rate}
	if s.cfg.Instance != "" {
		w.Header().Set("X-Amzn-SageMaker-Custom-Attributes", "instance="+s.cfg.Instance)
	}
	w.Header().Set("X-Request-Id", id)
	if a.stream {
		err = s.stream(wr, a, sp)
	} else {
		err = s.whole(wr, a, sp)
	}
	if err == nil {
		return
	}
	sp.end()
	if f := asFault(err); f.Code == CodeSynthesis && r.Context().Err() == nil {
		s.log.line(fmt.Sprintf("request %s: %s: %v", id, f.Code, err))
	}
	if wr.started {
		// A tidy end would pass for a whole answer. Breaking the connection is the only signal left.
		panic(http.ErrAbortHandler)
	}
	s.refuse(w, id, asFault(err))
}

// read takes the body within its limits of size and time.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (ask, error) {
	if r.ContentLength > s.cfg.MaxBody {
		return ask{}, tooLarge("the body has %d bytes, more than the %d this server reads", r.ContentLength, s.cfg.MaxBody)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBody))
	if err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return ask{}, tooLarge("the body has more than the %d bytes this server reads", big.Limit)
		}
		w.Header().Set("Connection", "close")
		return ask{}, invalid("body", "the body did not arrive whole: %d bytes came", len(raw))
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return parse(raw, s.info.Rate)
}

// stream writes each block as it is spoken.
func (s *Server) stream(wr *reply, a ask, sp *speech) error {
	first, err := sp.next()
	if err != nil {
		return err
	}
	if err := wr.head(a.wav, -1); err != nil {
		return err
	}
	for b := first; ; {
		if err := wr.block(b); err != nil {
			return err
		}
		if b, err = sp.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// whole waits for the last block, and writes them all with true sizes.
func (s *Server) whole(wr *reply, a ask, sp *speech) error {
	var blocks [][]byte
	size := int64(0)
	for {
		b, err := sp.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		blocks = append(blocks, b)
		if size += int64(len(b)); size+wavHeader > s.cfg.MaxReply {
			return tooLarge("the reply is more than the %d bytes that one answer may hold: ask for a stream, or send less text", s.cfg.MaxReply)
		}
	}
	// The caller of a reply of known length has all of it before this handler returns, and may send its next request at
	// once: the ticket must be back by then.
	wr.ctx = context.WithoutCancel(sp.ctx)
	sp.end()
	audio := seconds(size, s.info.Rate)
	h := wr.w.Header()
	h.Set("X-Audio-Duration", strconv.FormatFloat(audio, 'f', 3, 64))
	h.Set("X-Inference-Time-Ms", strconv.FormatFloat(sp.took().Seconds()*1e3, 'f', 1, 64))
	h.Set("X-RTF", strconv.FormatFloat(sp.took().Seconds()/audio, 'f', 4, 64))
	h.Set("X-Characters-Processed", strconv.Itoa(len([]rune(a.Text))))
	if err := wr.head(a.wav, size); err != nil {
		return err
	}
	for _, b := range blocks {
		if err := wr.block(b); err != nil {
			return err
		}
	}
	return nil
}

// requestID is the caller's Inference-Id where it is fit to be repeated, else one of ours.
func (s *Server) requestID(r *http.Request) string {
	if id := r.Header.Get("X-Amzn-SageMaker-Inference-Id"); id != "" && len(id) <= 64 &&
		strings.IndexFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) < 0 {
		return id
	}
	return fmt.Sprintf("%016x", s.idBase+s.ids.Add(1))
}

func idBase() uint64 { return rand.Uint64() }

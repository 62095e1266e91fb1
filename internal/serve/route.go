package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"loadline/internal/audio"
	"loadline/internal/speech"
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
		s.invocations(w, r, parserOf(r))
	case pathSpeech:
		s.invocations(w, r, parseSpeech)
	case "/invocations-bidirectional-stream":
		s.session(w, r)
	default:
		s.refuse(w, s.requestID(r), &fault{Status: http.StatusNotFound, Code: CodeNotFound,
			Message: fmt.Sprintf("no route %q: this container answers /ping, /invocations, %s and /invocations-bidirectional-stream", r.URL.Path, pathSpeech)})
	}
}

// ping says whether the platform may send work here. A full queue is no reason to be replaced, so only a server that has
// not spoken yet, that is leaving, or in which nothing is completed while work waits, answers 503.
func (s *Server) ping(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	draining, stalled := s.draining, s.gate.Stalled(time.Now())
	s.mu.Unlock()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead:
		s.refuse(w, s.requestID(r), badMethod(r, "GET, POST"))
	case draining:
		s.refuse(w, s.requestID(r), errDraining)
	case !s.isReady():
		s.refuse(w, s.requestID(r), errNotReady)
	case stalled > s.cfg.Stuck:
		s.refuse(w, s.requestID(r), &fault{Status: http.StatusServiceUnavailable, Code: CodeStuck, Retryable: true,
			Message: fmt.Sprintf("nothing was completed for %.0f s while work waits", stalled.Seconds())})
	default:
		s.writeBy(w)
		w.WriteHeader(http.StatusOK)
	}
}

func badMethod(r *http.Request, allow string) *fault {
	return &fault{Status: http.StatusMethodNotAllowed, Code: CodeBadMethod, allow: allow,
		Message: fmt.Sprintf("%s %s: send %s", r.Method, r.URL.Path, strings.ReplaceAll(allow, ", ", " or "))}
}

// invocations reads, admits, speaks and writes one request, in the form that parse knows.
func (s *Server) invocations(w http.ResponseWriter, r *http.Request, parse parser) {
	id := s.requestID(r)
	if r.Method != http.MethodPost {
		s.refuse(w, id, badMethod(r, "POST"))
		return
	}
	if !s.isReady() {
		s.refuse(w, id, errNotReady)
		return
	}
	a, err := s.read(w, r, parse)
	if err != nil {
		s.refuse(w, id, asFault(err))
		return
	}
	parts, removed, err := s.parts(a)
	if err != nil {
		s.refuse(w, id, asFault(err))
		return
	}
	// The ticket is taken after the body was understood: nothing malformed, slow or abandoned on its way in ever holds one.
	t, err := s.admit(!a.stream)
	if err != nil {
		s.refuse(w, id, asFault(err))
		return
	}
	a.ID, a.Arrived = id, time.Now() // its wait counts from here
	out := http.NewResponseController(w)
	sp := s.speak(r.Context(), out, t, a, list(parts))
	defer sp.end()
	sp.removed = removed
	wr := &reply{ctx: sp.ctx, w: w, out: out, wait: s.cfg.WriteWait, format: a.format, codec: s.cfg.Codecs[a.format], rate: a.rate, tune: s.tuner(a.rate),
		trailers: wantsTrailers(r)}
	if s.cfg.Instance != "" {
		w.Header().Set("X-Amzn-SageMaker-Custom-Attributes", "instance="+s.cfg.Instance)
	}
	w.Header().Set("X-Request-Id", id)
	if a.stream {
		err = s.stream(wr, sp)
	} else {
		err = s.whole(wr, a, sp)
	}
	var cut *interrupted
	told := errors.As(err, &cut) && wr.trailers && wr.finish() == nil
	wr.end()
	if err == nil {
		return
	}
	sp.end()
	f := asFault(err)
	if f.Code == CodeSynthesis && r.Context().Err() == nil {
		s.log.line(fmt.Sprintf("request %s: %s: %v", id, f.Code, err))
	}
	if !wr.started {
		s.refuse(w, id, f)
		return
	}
	if cut != nil {
		s.log.line(fmt.Sprintf("request %s: %v", id, err))
	}
	if told {
		wr.trail(sp)
		w.Header().Set(trailerResume, strconv.Itoa(cut.resume))
		return
	}
	// A tidy end would pass for a whole answer. Breaking the connection is the only signal left.
	panic(http.ErrAbortHandler)
}

// parts is the script of a text, and the first of the tags that do nothing.
func (s *Server) parts(a ask) (parts []speech.Part, removed []string, err error) {
	var split speech.Splitter
	if s.info.Whole {
		parts = split.Uncut(a.Text)
	} else {
		parts = append(split.Write(a.Text), split.Flush()...)
	}
	left := a.resume
	for len(parts) > 0 && left > 0 {
		if !parts[0].More {
			left--
		}
		parts = parts[1:]
	}
	if len(parts) == 0 {
		return nil, nil, invalid("resume_at", "resume_at is %d: the text has %d sentences", a.resume, a.resume-left)
	}
	if d := split.Pause(); d > 0 {
		parts = append(parts, speech.Part{Pause: d})
	}
	return parts, split.Tags(), nil
}

// tuner changes the engine's rate into another, nil where they are one.
func (s *Server) tuner(rate int) *audio.Resampler {
	if rate == s.info.Rate {
		return nil
	}
	t, err := audio.NewResampler(s.info.Rate, rate)
	if err != nil {
		panic(err) // both were checked
	}
	return t
}

func wantsTrailers(r *http.Request) bool {
	for _, v := range r.Header.Values("TE") {
		for _, c := range strings.Split(v, ",") {
			if name, _, _ := strings.Cut(strings.TrimSpace(c), ";"); strings.EqualFold(name, "trailers") {
				return r.ProtoAtLeast(1, 1)
			}
		}
	}
	return false
}

// read takes the body within its limits of size and time.
func (s *Server) read(w http.ResponseWriter, r *http.Request, parse parser) (ask, error) {
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
	return parse(raw, s.cfg.Codecs)
}

// stream writes each piece as it is spoken.
func (s *Server) stream(wr *reply, sp *speaking) error {
	for {
		p, _, err := sp.next(nil)
		if err == io.EOF {
			if err := wr.finish(); err != nil {
				return err
			}
			wr.trail(sp)
			return nil
		}
		if err != nil {
			return err
		}
		if err := wr.stream(p.sound); err != nil {
			return err
		}
		if p.ends {
			sp.sentences++
		}
	}
}

// trail sets the trailers that were announced.
func (r *reply) trail(sp *speaking) {
	if r.trailers {
		r.w.Header().Set(trailerSentences, strconv.Itoa(sp.sentences))
		r.w.Header().Set(trailerSamples, strconv.FormatInt(r.bytes/2, 10))
		r.w.Header().Set(trailerOmitted, strconv.Itoa(sp.omitted.count))
		r.w.Header().Set(trailerRemoved, strconv.Itoa(len(sp.removed)))
	}
}

// whole waits for the last piece, and writes them all with true sizes.
func (s *Server) whole(wr *reply, a ask, sp *speaking) error {
	kept := &kept{most: s.cfg.MaxReply - wavHeader}
	length := int64(0) // of the sound
	add := func(b []byte) error {
		length += int64(len(b))
		if wr.encoder != nil {
			return wr.feed(b)
		}
		return kept.add(b)
	}
	if wr.encoded() {
		if err := wr.encode(kept); err != nil {
			return err
		}
	}
	for {
		p, _, err := sp.next(nil)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for _, b := range p.sound {
			if wr.tune != nil {
				b = wr.tune.Write(nil, b)
			}
			if err := add(b); err != nil {
				return err
			}
		}
	}
	if wr.tune != nil {
		if err := add(wr.tune.Flush(nil)); err != nil {
			return err
		}
	}
	if wr.encoder != nil {
		if err := wr.encoder.Close(); err != nil {
			return err
		}
	}
	// The caller of a reply of known length has all of it before this handler returns, and may send its next request at
	// once: the ticket must be back by then.
	wr.ctx = context.WithoutCancel(sp.ctx)
	sp.end()
	audio := seconds(length, a.rate)
	h := wr.w.Header()
	h.Set("X-Audio-Duration", strconv.FormatFloat(audio, 'f', 3, 64))
	h.Set("X-Inference-Time-Ms", strconv.FormatFloat(sp.took().Seconds()*1e3, 'f', 1, 64))
	h.Set("X-RTF", strconv.FormatFloat(sp.took().Seconds()/audio, 'f', 4, 64))
	h.Set(trailerOmitted, strconv.Itoa(sp.omitted.count))
	h.Set(trailerRemoved, strconv.Itoa(len(sp.removed)))
	h.Set("X-Characters-Processed", strconv.Itoa(len([]rune(a.Text))))
	if err := wr.head(kept.size); err != nil {
		return err
	}
	for _, b := range kept.blocks {
		if err := wr.write(b); err != nil {
			return err
		}
	}
	return nil
}

// kept is a reply that is not written yet.
type kept struct {
	blocks     [][]byte
	size, most int64
}

func (k *kept) add(b []byte) error {
	k.blocks = append(k.blocks, b)
	if k.size += int64(len(b)); k.size > k.most {
		return tooLarge("the reply is more than the %d bytes that one answer may hold: ask for a stream, or send less text", k.most+wavHeader)
	}
	return nil
}

// Write keeps what an encoder made.
func (k *kept) Write(b []byte) (int, error) {
	if err := k.add(bytes.Clone(b)); err != nil {
		return 0, err
	}
	return len(b), nil
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

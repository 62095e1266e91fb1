package speech_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"loadline/speech"
)

func server(t *testing.T) *running {
	t.Helper()
	r := serving()
	t.Cleanup(r.stop)
	return r
}

func client(t *testing.T, o speech.Options) *speech.Client {
	t.Helper()
	c, err := speech.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// soon are retries that a test need not wait for.
var soon = speech.Retry{Tries: 8, Budget: 1, Base: time.Millisecond, Most: time.Millisecond}

// One text sounds the same through every door.
func TestSynthesizeThroughEveryDoor(t *testing.T) {
	r := server(t)
	events := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for b := sound("Hello."); len(b) > 0; b = b[min(len(b), 777):] {
			fmt.Fprintf(w, "data: {\"audio\":%q}\n\n", base64.StdEncoding.EncodeToString(b[:min(len(b), 777)]))
		}
		io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer events.Close()
	for _, o := range []speech.Options{
		{URL: r.URL + "/invocations"},
		{URL: r.URL, Transport: "openai-speech", Body: `{"input":"{{.Text}}","response_format":"wav"}`},
		{URL: r.ws()},
		{URL: r.URL + "/invocations-bidirectional-stream", Transport: "websocket"},
		{URL: events.URL, Transport: "sse"},
	} {
		c := client(t, o)
		for range 2 {
			reply, err := c.Synthesize(t.Context(), "Hello.")
			if err != nil {
				t.Fatalf("%s %s: %v", o.Transport, o.URL, err)
			}
			if heard(reply.WAV[44:]) != "Hello." || reply.Rate != 24000 || reply.Duration != 60*time.Millisecond || reply.Tries != 1 {
				t.Errorf("%s: %q, %d Hz, %v, %d tries", o.URL, heard(reply.WAV[44:]), reply.Rate, reply.Duration, reply.Tries)
			}
			if at := reply.Times; !(at.Connected >= 0 && at.FirstAudio > 0 && at.FirstAudio <= at.End && at.Chunks > 0) {
				t.Errorf("%s: %+v", o.URL, at)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []speech.Options{
		{}, {URL: "http://x/", Endpoint: "x"}, {URL: "ftp://x/"}, {URL: "http://x/", Transport: "invoke"}, {URL: "http://x/", Body: "no place"},
		{Endpoint: "x", Transport: "websocket"}, {Endpoint: "x"},
	} {
		if c, err := speech.New(o); err == nil {
			c.Close()
			t.Errorf("%+v was taken", o)
		}
	}
}

// Errors say what can be done.
func TestErrorsAreTyped(t *testing.T) {
	var status int
	var body, after string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	defer srv.Close()
	c := client(t, speech.Options{URL: srv.URL, Retry: speech.Retry{Tries: 1}})
	for _, tc := range []struct {
		status      int
		body, after string
		want        error
		retryable   bool
		wait        time.Duration
	}{
		{503, `{"error":"queue_saturated","message":"50 of 50","retry_after_s":1.5}`, "2", speech.ErrSaturated, true, 1500 * time.Millisecond},
		{503, `{"error":{"code":"queue_saturated","retry_after":3}}`, "", speech.ErrSaturated, true, 3 * time.Second},
		{503, "upstream is gone", "7", speech.ErrServer, true, 7 * time.Second}, // a platform's, not a full queue
		{429, "", "", speech.ErrThrottled, true, 0},
		{408, `{"error":"request_stale"}`, "", speech.ErrStale, true, 0},
		{400, `{"error":"invalid_request","field":"voice"}`, "", speech.ErrInvalid, false, 0},
		{500, "", "", speech.ErrServer, true, 0},
		{200, "", "", speech.ErrEmpty, true, 0},
		{200, `{"error":"boom"}`, "", speech.ErrModel, false, 0},
	} {
		status, body, after = tc.status, tc.body, tc.after
		_, err := c.Synthesize(t.Context(), "Hello.")
		var e *speech.Error
		if !errors.Is(err, tc.want) || !errors.As(err, &e) {
			t.Errorf("%d %s: %v", tc.status, tc.body, err)
			continue
		}
		if e.Retryable() != tc.retryable || e.RetryAfter != tc.wait || e.Status != tc.status {
			t.Errorf("%d %s: %+v", tc.status, tc.body, e)
		}
	}
	srv.Close()
	if _, err := c.Synthesize(t.Context(), "Hello."); !errors.Is(err, speech.ErrServer) {
		t.Errorf("nobody there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Synthesize(ctx, "Hello."); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// A server in trouble is not sent much more than it was before: retries have a budget.
func TestRetriesHaveABudget(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Error(w, "no", 503)
	}))
	defer srv.Close()
	retry := soon
	retry.Budget = 0.1
	c := client(t, speech.Options{URL: srv.URL, Retry: retry})
	spent := 0
	for range 200 {
		_, err := c.Synthesize(t.Context(), "Hello.")
		var e *speech.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		if e.Spent {
			spent++
		}
	}
	if n := asked.Load(); n < 200+10 || n > 200+10+20+1 || spent < 150 {
		t.Errorf("200 texts asked %d times, %d told that the budget is spent", n, spent)
	}
}

const long = "One thing first. Then another one! And is that all? It may be, for “quotes” end too. So it ends."

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("after %q: %v", heard(b), err)
	}
	return heard(b)
}

// A stream that breaks anywhere goes on where it stood: nothing is heard twice, and nothing is left out.
func TestStreamGoesOn(t *testing.T) {
	want := ""
	for _, door := range []string{"http", "websocket"} {
		t.Run(door, func(t *testing.T) {
			r := server(t)
			o := speech.Options{URL: r.URL + "/invocations", Retry: soon}
			if door == "websocket" {
				o.URL = r.ws()
			}
			c := client(t, o)
			for after := int64(0); after < 60_000; after += 2_111 {
				if after > 0 {
					r.listener.left.Store(after)
				}
				s, err := c.Stream(t.Context(), long)
				if err != nil {
					t.Fatal(err)
				}
				got := readAll(t, s)
				if want == "" {
					want = got
				}
				if got != want || s.Format() != (speech.Format{Rate: 24000, Channels: 1, Bits: 16}) || !(s.FirstAudio() > 0) {
					t.Fatalf("cut after %d bytes: %q, %+v, want %q", after, got, s.Format(), want)
				}
				s.Close()
			}
			if r.listener.cuts.Load() < 15 {
				t.Errorf("%d cuts", r.listener.cuts.Load())
			}
		})
	}
	if strings.Join(strings.Fields(want), "") != strings.Join(strings.Fields(long), "") {
		t.Errorf("%q is not the text", want)
	}
}

func TestStreamFails(t *testing.T) {
	r := server(t)
	c := client(t, speech.Options{URL: r.URL + "/invocations", Body: `{"text":"{{.Text}}","voice":"nobody"}`})
	s, err := c.Stream(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(s); !errors.Is(err, speech.ErrInvalid) || len(b) > 0 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := c.Stream(t.Context(), " … "); !errors.Is(err, speech.ErrInvalid) {
		t.Errorf("nothing to say: %v", err)
	}
	if s, err = c.Stream(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, speech.ErrClosed) && !errors.Is(err, speech.ErrInvalid) {
		t.Errorf("after Close: %v", err)
	}
}

// A session speaks text after text on one connection, and goes on over another where that one breaks.
func TestSession(t *testing.T) {
	r := server(t)
	c := client(t, speech.Options{URL: r.ws(), Retry: soon})
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	say := func() string {
		turn, err := s.Say(t.Context(), long)
		if err != nil {
			t.Fatal(err)
		}
		return readAll(t, turn)
	}
	want := say()
	if say() != want || r.listener.conns.Load() != 1 {
		t.Errorf("a second text, %d connections", r.listener.conns.Load())
	}
	for after := int64(1); after < 60_000; after += 2_111 {
		r.listener.left.Store(after)
		if got := say(); got != want {
			t.Fatalf("cut after %d bytes: %q, want %q", after, got, want)
		}
	}
	if r.listener.cuts.Load() < 15 {
		t.Errorf("%d cuts", r.listener.cuts.Load())
	}
	if _, err := c.Session(t.Context()); err != nil {
		t.Errorf("a second session: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := s.Begin(t.Context()); !errors.Is(err, speech.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A text may come in pieces that end anywhere, inside a character too.
func TestSessionTakesPieces(t *testing.T) {
	r := server(t)
	c := client(t, speech.Options{URL: r.ws()})
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	turn, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const text = "Zażółć gęślą jaźń. Und größer."
	if _, err := io.Copy(turn, iotest.OneByteReader(strings.NewReader(text))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context()); !errors.Is(err, speech.ErrInvalid) {
		t.Errorf("two texts at once: %v", err)
	}
	if err := turn.End(); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, turn); strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(text), "") {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"\xff.", "ends in \xc3"} {
		turn, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = turn.WriteString(bad)
		if err == nil {
			err = turn.End()
		}
		if !errors.Is(err, speech.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
		turn.Close()
	}
	turn, err = s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	turn.WriteString("Wait")
	turn.Flush()
	b := make([]byte, 8*2*perByte)
	if n, err := io.ReadAtLeast(turn, b, 4*2*perByte); err != nil || heard(b[:4*2*perByte]) != "Wait" {
		t.Errorf("%d bytes, %v", n, err)
	}
	turn.Interrupt()
	if _, err := io.ReadAll(turn); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

// Nothing is left running.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	func() {
		r := serving()
		defer r.stop()
		for range 10 {
			c, err := speech.New(speech.Options{URL: r.ws()})
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			turn, err := s.Say(t.Context(), long)
			if err != nil {
				t.Fatal(err)
			}
			turn.Read(make([]byte, 10))
			s.Close() // in the middle
			st, err := c.Stream(t.Context(), long)
			if err != nil {
				t.Fatal(err)
			}
			st.Read(make([]byte, 10))
			st.Close()
			c.Close()
		}
	}()
	for until := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before+2; runtime.Gosched() {
		if time.Now().After(until) {
			b := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
		}
	}
}

// A reader may be far behind: what was asked for is kept, no more is asked for, and closing waits for nobody.
func TestStreamWaitsForItsReader(t *testing.T) {
	r := server(t)
	c := client(t, speech.Options{URL: r.URL + "/invocations"})
	text := strings.Repeat("Here is a sentence of fifty letters, more or less. ", 250) // 6 MB of sound
	for _, read := range []bool{true, false} {
		s, err := c.Stream(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 2*perByte)
		if _, err := io.ReadFull(s, first); err != nil || heard(first) != "H" {
			t.Fatalf("%q, %v", heard(first), err)
		}
		if read {
			if got := "H" + readAll(t, s); len(got) != 250*50 {
				t.Errorf("%d letters of sound", len(got))
			}
		}
		s.Close()
	}
}

package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

// slowly is an engine that takes 1 s for each second of sound, one character a second.
func slowly() *fake {
	return &fake{places: 10, sentences: true, say: func(r Request) *fakeUtterance {
		return &fakeUtterance{len(r.Text), func(ctx context.Context) ([]byte, error) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return bytes.Repeat(block100, 10), ctx.Err()
		}}
	}}
}

// A server that stops lets streams of 10 and 25 s end, ends one of 90 s at a sentence before 28 s and says where to resume,
// closes idle sessions at once and refuses what is new.
func TestDrainSaysWhereToResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{Engine: slowly()})
		l := inMemory(t, s)
		idle := dial(t, "http://x"+sessionPath, l.dial)
		long := dial(t, "http://x"+sessionPath, l.dial)
		long.send(`{"text": "` + strings.Repeat("Seven c. ", 12) + `", "request_id": "long"}`)
		long.send(`{"text": "Next.", "request_id": "next"}`)
		client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }}}
		defer client.CloseIdleConnections()
		type end struct {
			after    time.Duration
			bytes    int
			err      error
			trailers http.Header
		}
		began := time.Now()
		get := func(text string, te bool) chan end {
			c := make(chan end, 1)
			go func() {
				req, _ := http.NewRequest("POST", "http://x/invocations", strings.NewReader(fmt.Sprintf(`{"text": %q, "format": "pcm"}`, text)))
				if te {
					req.Header.Set("TE", "trailers")
				}
				res, err := client.Do(req)
				if err != nil {
					c <- end{err: err}
					return
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				c <- end{time.Since(began), len(b) / 48000, err, res.Trailer}
			}()
			return c
		}
		ten, twentyFive := get("A tenth c.", true), get("Twenty five characters c.", false)
		broken, told := get(strings.Repeat("Seven c. ", 12), false), get(strings.Repeat("Seven c. ", 12), true)
		synctest.Wait()
		time.Sleep(500 * time.Millisecond) // on the bubble's clock
		ctx, cancel := context.WithTimeout(context.Background(), 28*time.Second)
		defer cancel()
		drained := make(chan error, 1)
		go func() { drained <- s.Drain(ctx) }()
		synctest.Wait()
		if code := idle.closed(); code != websocket.StatusGoingAway || time.Since(began) != 500*time.Millisecond {
			t.Errorf("the idle session closed with %d after %v", code, time.Since(began))
		}
		time.Sleep(time.Second)
		if res, err := client.Post("http://x/invocations", "", strings.NewReader(`{"text": "new"}`)); err != nil || res.StatusCode != 503 {
			t.Errorf("new work: %v %v", res, err)
		} else {
			res.Body.Close()
		}
		if _, res, err := websocket.Dial(t.Context(), "ws://x"+sessionPath, &websocket.DialOptions{HTTPClient: client}); err == nil || res == nil || res.StatusCode != 503 {
			t.Errorf("a new session: %v", err)
		}
		long.send(`{"text": "Late.", "request_id": "late"}`)
		if m := long.until(24000, msgError); m.RequestID != "late" || m.Error != CodeShutdown {
			t.Errorf("late: %+v", m)
		}
		// Ended after the third of its sentences of eight seconds: a fourth would not have been over by then.
		if m := long.until(24000, msgInterrupted); m.RequestID != "long" || m.Reason != CodeShutdown || m.ResumeAt == nil || *m.ResumeAt != 3 || m.Sentences != 3 || m.Samples != 24*24000 || time.Since(began) != 24*time.Second {
			t.Errorf("long: %+v", m)
		}
		if m := long.until(24000, msgError); m.RequestID != "next" || m.Error != CodeShutdown {
			t.Errorf("next: %+v", m)
		}
		if code := long.closed(); code != websocket.StatusGoingAway {
			t.Errorf("closed with %d", code)
		}
		if e := <-ten; e.err != nil || e.bytes != 10 || e.trailers.Get(trailerSentences) != "1" || e.trailers.Get(trailerSamples) != "240000" || e.trailers.Get(trailerResume) != "" {
			t.Errorf("ten: %+v", e)
		}
		if e := <-twentyFive; e.err != nil || e.bytes != 25 {
			t.Errorf("twenty-five: %+v", e)
		}
		if e := <-broken; !errors.Is(e.err, io.ErrUnexpectedEOF) || e.bytes != 24 {
			t.Errorf("without trailers: %+v", e)
		}
		if e := <-told; e.err != nil || e.trailers.Get(trailerResume) != "3" || e.bytes != 24 {
			t.Errorf("with trailers: %+v", e)
		}
		if err := <-drained; err != nil || time.Since(began) > 28500*time.Millisecond {
			t.Errorf("drained after %v: %v", time.Since(began), err)
		}
	})
}

// /ping fails when nothing is completed while work waits, and only then.
func TestPingWhenStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{Engine: &fake{say: func(r Request) *fakeUtterance {
			if r.Text == "hang" {
				return taking(time.Hour, 1)(r)
			}
			return taking(20*time.Second, 5)(r)
		}}})
		ping := func() int { return call(s, "GET", "/ping", "").Code }
		time.Sleep(time.Hour) // on the bubble's clock: an idle server is well
		if ping() != 200 {
			t.Error("idle")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		say := func(text string) {
			defer close(done)
			r := httptest.NewRequestWithContext(ctx, "POST", "/invocations", strings.NewReader(fmt.Sprintf(`{"text": %q}`, text)))
			s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		}
		go say("slow")
		for range 90 {
			time.Sleep(time.Second)
			if ping() != 200 {
				t.Fatal("slow, but each piece is completed")
			}
		}
		<-done
		done = make(chan struct{})
		go say("hang")
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{29 * time.Second, 200}, {2 * time.Second, 503}} {
			time.Sleep(step.wait)
			if got := ping(); got != step.want {
				t.Errorf("hanging: %d, want %d", got, step.want)
			}
		}
		cancel()
		<-done
		if ping() != 200 {
			t.Error("after the work was given up")
		}
	})
}

// A listener who leaves in the middle of a long text, in whatever way, frees the place within the piece that is being made:
// the next one hears the first sound as soon as on an idle server. A hundred times over.
func TestListenerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 100 * time.Millisecond
		s := start(t, Config{Engine: &fake{sentences: true, say: taking(takes, 3)}})
		l := inMemory(t, s)
		long := fmt.Sprintf(`{"text": %q}`, strings.Repeat("Five words in a sentence. ", 1000))
		leave := []func() func(){
			func() func() { // a response stream, closed
				c := l.dial()
				if _, err := fmt.Fprintf(c, "POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(long), long); err != nil {
					t.Fatal(err)
				}
				_, _ = io.ReadFull(c, make([]byte, 1000))
				return func() { _ = c.Close() }
			},
			func() func() { // a session, closed in words
				p := dial(t, "http://x"+sessionPath, l.dial)
				p.send(long)
				p.until(24000, msgStart)
				return func() { _ = p.c.Close(websocket.StatusNormalClosure, "enough") }
			},
			func() func() { // a session whose connection breaks
				p := dial(t, "http://x"+sessionPath, l.dial)
				p.send(long)
				p.until(24000, msgStart)
				return func() { _ = p.c.CloseNow() }
			},
			func() func() { // a session that is interrupted, and stays for a while
				p := dial(t, "http://x"+sessionPath, l.dial)
				p.send(long)
				p.until(24000, msgStart)
				return func() {
					p.send(`{"type": "interrupt"}`)
					p.until(24000, msgInterrupted)
					_ = p.c.CloseNow()
				}
			},
		}
		for round := range 100 {
			gone := leave[round%len(leave)]()
			time.Sleep(takes / 2) // on the bubble's clock: in the middle of a piece
			gone()
			began := time.Now()
			w := &firstWrite{ResponseRecorder: httptest.NewRecorder()}
			s.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/invocations", strings.NewReader(`{"text": "Only three words."}`)))
			if d := w.at.Sub(began); w.Code != 200 || d > takes*3/2 {
				t.Fatalf("round %d: %d, the first sound after %v", round, w.Code, d)
			}
		}
		synctest.Wait()
		if c := s.Counts(); c.InSystem != 0 || c.Executing != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// firstWrite notes when the first sound was written.
type firstWrite struct {
	*httptest.ResponseRecorder
	at time.Time
}

func (f *firstWrite) Write(b []byte) (int, error) {
	if f.at.IsZero() && len(b) > 44 {
		f.at = time.Now()
	}
	return f.ResponseRecorder.Write(b)
}

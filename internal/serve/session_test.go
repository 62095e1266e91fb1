package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

// peer is a client of a session that keeps what it heard.
type peer struct {
	t     *testing.T
	c     *websocket.Conn
	sound []byte
}

// dial opens a session, over dial where that is given.
func dial(t *testing.T, url string, over func() net.Conn) *peer {
	t.Helper()
	tr := &http.Transport{}
	if over != nil {
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return over(), nil }
	}
	c, _, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1), &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &peer{t: t, c: c}
}

func (p *peer) send(message string) {
	p.t.Helper()
	if err := p.c.Write(p.t.Context(), websocket.MessageText, []byte(message)); err != nil {
		p.t.Fatal(err)
	}
}

// message is any message to the client.
type message struct {
	Type       string
	RequestID  string  `json:"request_id"`
	SampleRate int     `json:"sample_rate"`
	Sentences  int     `json:"sentences"`
	Samples    int     `json:"samples"`
	Duration   float64 `json:"total_duration_s"`
	Reason     string
	ResumeAt   *int `json:"resume_at"`
	Error      string
	Field      string
	Message    string
	Retryable  bool
	RetryAfter float64 `json:"retry_after_s"`
}

// until reads to the next message of one of the types, and checks the frames on the way.
func (p *peer) until(rate int, types ...string) message {
	p.t.Helper()
	last := 0
	for {
		kind, b, err := p.c.Read(p.t.Context())
		if err != nil {
			p.t.Fatalf("waiting for %v: %v", types, err)
		}
		if kind == websocket.MessageBinary {
			if ms := len(b) * 500 / rate; ms > 100 || last > 0 && last < 20 || len(b)%2 != 0 {
				p.t.Errorf("a frame of %d ms, %d bytes, after one of %d ms", ms, len(b), last)
			} else {
				last = ms
			}
			p.sound = append(p.sound, b...)
			continue
		}
		last = 0
		var m message
		if err := json.Unmarshal(b, &m); err != nil {
			p.t.Fatalf("%s: %v", b, err)
		}
		for _, want := range types {
			if m.Type == want {
				return m
			}
		}
		if m.Type != msgStart && m.Type != msgSentence && m.Type != msgProgress {
			p.t.Fatalf("waiting for %v: %s", types, b)
		}
	}
}

// closed waits for the end, and says with what code.
func (p *peer) closed() websocket.StatusCode {
	p.t.Helper()
	for {
		if _, _, err := p.c.Read(p.t.Context()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

const sessionPath = "/invocations-bidirectional-stream"

// spell is an engine whose sound is its text, 100 ms a character.
func spell() *fake {
	return &fake{sentences: true, say: func(r Request) *fakeUtterance {
		text := r.Text
		return &fakeUtterance{len(text), func(ctx context.Context) ([]byte, error) {
			b := bytes.Repeat([]byte{text[0], 1}, 2400)
			text = text[1:]
			return b, ctx.Err()
		}}
	}}
}

func spelled(sound []byte) string {
	var s strings.Builder
	for i := 0; i < len(sound); i += 4800 {
		s.WriteByte(sound[i])
	}
	return s.String()
}

func TestSession(t *testing.T) {
	s := start(t, Config{Engine: spell(), Ahead: -1})
	hs := open(t, s)
	p := dial(t, hs.URL+sessionPath, nil)

	// A whole text, as the published clients send it, in a binary frame as well.
	if err := p.c.Write(t.Context(), websocket.MessageBinary, []byte(`{"text": "One. **Two!**", "request_id": "r1"}`)); err != nil {
		t.Fatal(err)
	}
	if m := p.until(24000, msgStart); m.RequestID != "r1" || m.SampleRate != 24000 {
		t.Errorf("start %+v", m)
	}
	if m := p.until(24000, msgSentence); m.Sentences != 1 || m.Samples != 4*2400 || spelled(p.sound) != "One." {
		t.Errorf("first sentence %+v after %q", m, spelled(p.sound))
	}
	if m := p.until(24000, msgComplete); m.RequestID != "r1" || m.Sentences != 2 || m.Samples != len(p.sound)/2 || m.Duration != 0.8 || spelled(p.sound) != "One.Two!" {
		t.Errorf("complete %+v after %q", m, spelled(p.sound))
	}

	// Text in pieces: a sentence is spoken once it is whole, the rest at the end.
	p.sound = nil
	p.send(`{"type": "text", "request_id": "r2", "text": "It is 3."}`)
	p.send(`{"type": "text", "text": "14 now. And"}`)
	if m := p.until(24000, msgSentence); m.RequestID != "r2" || spelled(p.sound) != "It is 3.14 now." {
		t.Errorf("%+v after %q", m, spelled(p.sound))
	}
	p.send(`{"type": "flush"}`)
	if p.until(24000, msgSentence); spelled(p.sound) != "It is 3.14 now.And" {
		t.Errorf("flushed %q", spelled(p.sound))
	}
	p.send(`{"type": "text", "text": "so on."}`) // whole by itself: nothing more comes for a while
	if p.until(24000, msgSentence); spelled(p.sound) != "It is 3.14 now.Andso on." {
		t.Errorf("idle %q", spelled(p.sound))
	}
	p.send(`{"type": "end"}`)
	if m := p.until(24000, msgComplete); m.Sentences != 3 || m.RequestID != "r2" {
		t.Errorf("complete %+v", m)
	}

	// Other rates by one resampler, from a sentence on.
	p.sound = nil
	p.send(`{"text": "One. Two. Three.", "sample_rate": 8000, "resume_at": 1}`)
	if m := p.until(8000, msgComplete); m.Sentences != 3 || m.Samples != 10*800 || len(p.sound) != 2*10*800 || m.RequestID == "" {
		t.Errorf("at 8 kHz %+v and %d bytes", m, len(p.sound))
	}

	// What cannot be spoken is an error, and the session goes on.
	for _, c := range []struct{ in, code, field string }{
		{`{"text": ""}`, CodeInvalid, "text"}, {`{"text": "   "}`, CodeInvalid, "text"}, {`{"text": "\n\n"}`, CodeInvalid, "text"},
		{`{"text": "..."}`, CodeInvalid, "text"}, {`{"text": "?!"}`, CodeInvalid, "text"}, {`{"text": "—"}`, CodeInvalid, "text"},
		{`{"text": "\u200b"}`, CodeInvalid, "text"}, {`{"text": "\u00a0"}`, CodeInvalid, "text"},
		{`{"text": "a", "resume_at": 4}`, CodeInvalid, "resume_at"}, {`{"text": "a", "voice": "nobody"}`, CodeInvalid, "voice"},
		{`{"text": "a", "speed": 9}`, CodeInvalid, "speed"}, {`{"voice": "a"}`, CodeInvalid, "text"}, {`{"type": "dance"}`, CodeInvalid, "type"},
		{`{"type": "end"}`, CodeInvalid, "type"}, {`{"text": `, CodeInvalid, "body"}, {`[1]`, CodeInvalid, "body"},
		{`{"text": "` + strings.Repeat("a. ", 70000) + `"}`, CodeTooLarge, ""},
	} {
		if c.code != CodeTooLarge {
			p.send(c.in)
			if m := p.until(24000, msgError); m.Error != c.code || m.Field != c.field || m.Message == "" {
				t.Errorf("%s: %+v", c.in, m)
			}
		}
	}
	p.sound = nil
	p.send(`{"text": "[pause] Hello. … Bye."}`)
	if m := p.until(24000, msgComplete); m.Sentences != 2 || spelled(p.sound)[:6] != "Hello." {
		t.Errorf("after the errors %+v, %q", m, spelled(p.sound))
	}
	p.send(`{"type": "close"}`)
	if code := p.closed(); code != websocket.StatusNormalClosure {
		t.Errorf("closed with %d", code)
	}
	until(t, func() bool { return s.InFlight() == 0 && s.sessionCount() == 0 })
}

func (s *Server) sessionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

func TestSessionSettingsByQuery(t *testing.T) {
	s := start(t, Config{Engine: spell()})
	hs := open(t, s)
	p := dial(t, hs.URL+sessionPath+"?sample_rate=16000&speed=1.5&voice=somebody", nil)
	p.send(`{"text": "One."}`)
	if m := p.until(16000, msgComplete); m.Samples != 4*1600 {
		t.Errorf("%+v", m)
	}
	for query, field := range map[string]string{"speed=fast": "speed", "sample_rate=1": "sample_rate"} {
		_, res, err := websocket.Dial(t.Context(), strings.Replace(hs.URL, "http", "ws", 1)+sessionPath+"?"+query, nil)
		if err == nil || res == nil || res.StatusCode != 400 {
			t.Fatalf("%s: %v", query, err)
		}
		if b, _ := io.ReadAll(res.Body); !strings.Contains(string(b), `"field":"`+field+`"`) {
			t.Errorf("%s: %s", query, b)
		}
	}
}

func TestBadFrames(t *testing.T) {
	s := start(t, Config{Engine: spell(), MaxBody: 1000})
	hs := open(t, s)
	for _, c := range []struct {
		kind websocket.MessageType
		body string
		want websocket.StatusCode
	}{
		{websocket.MessageText, "{\"text\": \"\xff\"}", websocket.StatusInvalidFramePayloadData},
		{websocket.MessageBinary, "RIFF", websocket.StatusUnsupportedData},
		{websocket.MessageText, `{"text": "` + strings.Repeat("a", 1000) + `"}`, websocket.StatusMessageTooBig},
	} {
		p := dial(t, hs.URL+sessionPath, nil)
		if err := p.c.Write(t.Context(), c.kind, []byte(c.body)); err != nil {
			t.Fatal(err)
		}
		if code := p.closed(); code != c.want {
			t.Errorf("%.20q: closed with %d, want %d", c.body, code, c.want)
		}
	}
	until(t, func() bool { return s.sessionCount() == 0 })
}

// An interruption stops the sound at once, frees the place, and the next text is spoken.
func TestInterrupt(t *testing.T) {
	s := start(t, Config{Engine: spell(), Ahead: 500 * time.Millisecond})
	hs := open(t, s)
	p := dial(t, hs.URL+sessionPath, nil)
	p.send(`{"text": "` + strings.Repeat("A sentence. ", 1000) + `", "request_id": "long"}`)
	p.send(`{"text": "Waits.", "request_id": "second"}`)
	p.send(`{"text": "Next.", "request_id": "third"}`)
	p.until(24000, msgStart)
	if _, _, err := p.c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.send(`{"type": "interrupt", "request_id": "second"}`)
	p.send(`{"type": "interrupt", "request_id": "long"}`)
	if m := p.until(24000, msgInterrupted); m.RequestID != "long" || m.Reason != byClient || m.ResumeAt == nil || *m.ResumeAt != m.Sentences || m.Samples > 20*2400 {
		t.Errorf("%+v", m)
	}
	if m := p.until(24000, msgInterrupted); m.RequestID != "second" || m.Samples != 0 {
		t.Errorf("%+v", m)
	}
	if m := p.until(24000, msgComplete); m.RequestID != "third" {
		t.Errorf("%+v", m)
	}
	p.send(`{"type": "text", "text": "Never mind"}`)
	p.send(`{"type": "interrupt"}`)
	if m := p.until(24000, msgInterrupted); m.Samples != 0 {
		t.Errorf("%+v", m)
	}
	p.send(`{"text": "Good."}`)
	p.until(24000, msgComplete)
	if s.InFlight() != 0 {
		t.Errorf("%d in flight", s.InFlight())
	}
}

// More texts than a session takes are an error, not an end.
func TestSixthText(t *testing.T) {
	s := start(t, Config{Engine: spell(), Ahead: 100 * time.Millisecond})
	p := dial(t, open(t, s).URL+sessionPath, nil)
	for i := range 6 {
		p.send(fmt.Sprintf(`{"text": "A sentence that takes its time.", "request_id": "r%d"}`, i+1))
	}
	if m := p.until(24000, msgError); m.RequestID != "r6" || m.Error != CodeLimit || !m.Retryable {
		t.Errorf("%+v", m)
	}
	p.send(`{"type": "interrupt"}`)
	for i := range 5 {
		if m := p.until(24000, msgInterrupted); m.RequestID != fmt.Sprintf("r%d", i+1) {
			t.Errorf("%+v", m)
		}
	}
}

// A full gate refuses the upgrade like any request; a text of an open session is refused in words, and the session closed.
func TestSessionSaturated(t *testing.T) {
	hold := make(chan struct{})
	s := start(t, Config{QueueDepth: 1, Engine: &fake{say: func(Request) *fakeUtterance {
		return &fakeUtterance{1, func(ctx context.Context) ([]byte, error) {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return block100, ctx.Err()
		}}
	}}})
	hs := open(t, s)
	p := dial(t, hs.URL+sessionPath, nil)
	done := make(chan int)
	go func() { done <- call(s, "POST", "/invocations", `{"text": "a"}`).Code }()
	until(t, func() bool { return s.InFlight() == 1 })
	_, res, err := websocket.Dial(t.Context(), strings.Replace(hs.URL, "http", "ws", 1)+sessionPath, nil)
	if err == nil || res == nil || res.StatusCode != 503 {
		t.Fatalf("the upgrade: %v", err)
	}
	if b, _ := io.ReadAll(res.Body); !strings.Contains(string(b), `"error":"queue_saturated"`) || !strings.Contains(string(b), `"max_queue_depth":1`) {
		t.Errorf("the upgrade: %s", b)
	}
	p.send(`{"text": "b", "request_id": "b"}`)
	if m := p.until(24000, msgError); m.Error != CodeSaturated || m.RequestID != "b" || m.RetryAfter <= 0 {
		t.Errorf("%+v", m)
	}
	if code := p.closed(); code != websocket.StatusTryAgainLater {
		t.Errorf("closed with %d", code)
	}
	close(hold)
	if code := <-done; code != 200 {
		t.Errorf("who was inside: %d", code)
	}
	if c := s.Counts(); c.Refused != 2 || c.InSystem != 0 {
		t.Errorf("%+v", c)
	}
}

// What a client of no library writes: the opening, and a text message.
const upgrade = "GET " + sessionPath + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"

func frame(text string) string {
	return string([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}) + text // masked with zeros
}

// While a synthesis takes 90 s, pings are answered at once and something is heard every ten seconds. A peer who does not
// answer ours is cut off, and its work cancelled.
func TestPingsDuringLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{Engine: &fake{say: taking(90*time.Second, 1)}})
		l := inMemory(t, s)
		p := dial(t, "http://x"+sessionPath, l.dial)
		p.send(`{"text": "Long."}`)
		pings := make(chan error, 1)
		stop := make(chan struct{})
		go func() {
			tick := time.NewTicker(4900 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-stop:
					if n < 17 {
						pings <- fmt.Errorf("%d pings in 90 s", n)
					}
					close(pings)
					return
				case <-tick.C:
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				err := p.c.Ping(ctx)
				cancel()
				if err != nil {
					pings <- err
					close(pings)
					return
				}
			}
		}()
		began := time.Now()
		for i := range 8 {
			if p.until(24000, msgProgress); time.Since(began) != time.Duration(i+1)*sayAnyway {
				t.Errorf("progress %d after %v", i+1, time.Since(began))
			}
		}
		if m := p.until(24000, msgComplete); m.Samples != 2400 || time.Since(began) != 90*time.Second {
			t.Errorf("%+v after %v", m, time.Since(began))
		}
		close(stop)
		if err := <-pings; err != nil {
			t.Error(err)
		}
		_ = p.c.CloseNow()
	})
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{Engine: &fake{say: taking(90*time.Second, 1)}})
		l := inMemory(t, s)
		c := l.dial()
		defer c.Close()
		go io.Copy(io.Discard, c) // it reads, and answers nothing
		if _, err := io.WriteString(c, upgrade+frame(`{"text": "Long."}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.InFlight() != 1 {
			t.Fatal("nothing is spoken")
		}
		<-time.After(39 * time.Second) // on the bubble's clock
		synctest.Wait()
		if s.InFlight() != 1 {
			t.Error("cut off before its time")
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if s.InFlight() != 0 || s.sessionCount() != 0 {
			t.Error("still there after two intervals without an answer")
		}
	})
}

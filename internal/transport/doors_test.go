package transport

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"loadline/internal/audio"
	"loadline/internal/load"
	"loadline/internal/local"
	"loadline/internal/sample"
)

// doors is every way in: the forms, and those whose request or reply is of another shape.
func doors(t *testing.T) []form {
	out := forms(t)
	add := func(name, path string, make func(url string) (load.Transport, error)) {
		srv := newServer(t, HTTP1)
		tr, err := make(srv.URL + path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { tr.Close() })
		out = append(out, form{name, srv, tr})
	}
	add("openai-speech", "/v1/audio/speech", func(url string) (load.Transport, error) {
		body, err := ParseTemplate(BodyOpenAI)
		if err != nil {
			return nil, err
		}
		return NewHTTP(HTTPOptions{URL: url, Body: body, Net: Net{Streams: 4}})
	})
	add("raw", "/speak", func(url string) (load.Transport, error) {
		body, err := ParseTemplate(BodyRaw)
		if err != nil {
			return nil, err
		}
		return NewHTTP(HTTPOptions{URL: url, Body: body, Net: Net{Streams: 4}})
	})
	add("sse", "/events", func(url string) (load.Transport, error) {
		return NewHTTP(HTTPOptions{URL: url, Events: true, Net: Net{Streams: 4}})
	})
	add("websocket", "/session", func(url string) (load.Transport, error) {
		return NewWebSocket(WebSocketOptions{URL: strings.Replace(url, "http", "ws", 1), Net: Net{Streams: 4}})
	})
	add("bidi", "", func(url string) (load.Transport, error) {
		d := front(t, strings.TrimPrefix(url, "http://"), local.Config{VerifySignatures: true})
		return NewBidi(config(""), BidiOptions{Net: Net{Streams: 4, TLS: d.tls}, URL: d.url, Endpoint: "speech", Path: "session"})
	})
	return out
}

func (f form) socket() bool { return f.name == "websocket" }

// shares says whether sessions share a connection: a new session may be on an old one.
func (f form) shares() bool { return f.http2() || f.name == "bidi" }

// told is a piece of sound as an event, written as services write them: with and without a space, with comments between.
func told(sound []byte) []byte {
	return fmt.Appendf(nil, ": ping\r\n\r\ndata:{\"type\":\"speech.audio.delta\",\r\ndata: \"audio\":%q}\r\n\r\n", base64.StdEncoding.EncodeToString(sound))
}

// session plays the script over a WebSocket, in the protocol of speech-server's sessions, for one text after another.
func (s *server) session(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		s.t.Errorf("accept: %v", err)
		return
	}
	defer c.CloseNow()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	asked := make(chan []byte)
	go func() { // also answers pings
		defer cancel()
		for {
			_, b, err := c.Read(ctx)
			if err != nil {
				return
			}
			asked <- b
		}
	}()
	for {
		var text []byte
		select {
		case text = <-asked:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		s.bodies[len(s.bodies)-1] = string(text)
		s.mu.Unlock()
		sc := s.script
		if !s.speak(ctx, c, sc, text) {
			if c, ok := r.Context().Value(connKey{}).(*net.TCPConn); ok && sc.end == reset {
				c.SetLinger(0)
			}
			return
		}
	}
}

// speak answers one text; false ends the session.
func (s *server) speak(ctx context.Context, c *websocket.Conn, sc script, text []byte) bool {
	var ask struct {
		ID string `json:"request_id"`
	}
	if err := json.Unmarshal(text, &ask); err != nil {
		s.t.Errorf("%s: %v", text, err)
	}
	say := func(m string) {
		if err := c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, m, ask.ID)); err != nil && !errors.Is(err, context.Canceled) {
			s.t.Logf("write: %v", err)
		}
	}
	if sc.talk != nil {
		sc.talk(c)
		return false
	}
	say(`{"type":"synthesis_start","request_id":%q}`)
	<-s.told
	for _, st := range sc.steps {
		s.now.Store(int64(st.at))
		if err := c.Write(ctx, websocket.MessageBinary, st.body); err != nil {
			return false
		}
		s.sent.Add(int64(len(st.body)))
		for s.taken.Load() < s.sent.Load() {
			select {
			case <-s.told:
			case <-ctx.Done():
				return false
			}
		}
	}
	switch sc.end {
	case cut, reset:
		return false
	case stall:
		s.expire()
		<-ctx.Done()
		return false
	}
	if last := sc.last; last != "" {
		say(last)
	} else {
		say(`{"type":"synthesis_complete","request_id":%q}`)
	}
	return true
}

// growing is a body cut into pieces of 1, 2, 3, … bytes, one a millisecond.
func growing(body []byte) (steps []step) {
	for n := 1; len(body) > 0; n++ {
		steps = append(steps, step{n, body[:min(n, len(body))]})
		body = body[min(n, len(body)):]
	}
	return steps
}

// sized is a WAV header whose data size says what it likes.
func sized(t testing.TB, data uint32) []byte {
	b := header(t)
	binary.LittleEndian.PutUint32(b[40:], data)
	return b
}

// The cases of real trouble that a reply can be, through every door: the same bytes of sound come to the same record,
// whatever carries them.
func TestDoors(t *testing.T) {
	second := speech(48000)
	at := func(ms int) sample.Nanos { return sample.Since(time.Duration(ms) * time.Millisecond) }
	for _, tc := range []struct {
		name   string
		script script
		check  func(t *testing.T, f form, got sample.Request)
	}{
		{"B5 silence first", script{steps: []step{{20, header(t)}, {400, silence(4800)}, {900, speech(4800)}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.OK, "")
			if got.FirstByte != at(20) || got.FirstAudio != at(400) || got.FirstAudible != at(900) {
				t.Errorf("byte %d, audio %d, audible %d", got.FirstByte, got.FirstAudio, got.FirstAudible)
			}
		}},
		{"B5 header split", script{steps: []step{{20, header(t)[:20]}, {30, header(t)[20:]}, {400, silence(4800)}, {900, speech(4800)}}}, func(t *testing.T, f form, got sample.Request) {
			if got.FirstByte != at(20) || got.FirstAudio != at(400) || got.FirstAudible != at(900) {
				t.Errorf("byte %d, audio %d, audible %d", got.FirstByte, got.FirstAudio, got.FirstAudible)
			}
		}},
		{"B5 no sound", script{steps: []step{{20, header(t)}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.Empty, "no audio: 44 bytes")
			if got.FirstAudio.Known() || got.FirstAudible.Known() {
				t.Error("a mark of sound that never was")
			}
		}},
		{"C1 in pieces of every size", script{steps: growing(append(header(t), speech(960)...))}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.OK, "")
			if got.Audio != 0.02 || got.Bytes != 1004 || got.FirstByte != at(1) || got.FirstAudio != at(10) {
				t.Errorf("%v s of %d bytes, first byte %d, first audio %d", got.Audio, got.Bytes, got.FirstByte, got.FirstAudio)
			}
		}},
		{"C5 a model that is long at work", script{steps: []step{{1, header(t)}, {90_000, speech(4800)}, {180_000, speech(4800)}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.OK, "")
			if got.FirstAudio != at(90_000) || got.End != at(180_000) {
				t.Errorf("first audio %d, end %d", got.FirstAudio, got.End)
			}
		}},
		{"C2 cut inside a sample", script{mime: "audio/pcm", steps: []step{{30, speech(4063)}, {31, nil}, {60, speech(1697)}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.OK, "")
			if got.Audio != 0.12 || got.Bytes != 5760 {
				t.Errorf("%v s of %d bytes, want 0.12 of 5760", got.Audio, got.Bytes)
			}
		}},
		{"C2 a byte left", script{mime: "audio/pcm", steps: []step{{30, speech(4063)}, {60, speech(1697)}, {70, speech(1)}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.Truncated, "truncated: 1 byte left")
			if got.Audio != 0.12 {
				t.Errorf("%v s, want the 0.12 that came", got.Audio)
			}
		}},
		{"C2 runes in the text", script{text: "Zażółć “gęślą” jaźń 👋", steps: []step{{20, header(t)}, {30, speech(2)}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.OK, "")
			r, body := f.srv.last()
			text := body
			if f.name != "raw" {
				var v struct{ Text, Input string }
				if err := json.Unmarshal([]byte(body), &v); err != nil {
					t.Fatalf("%s %q: %v", r.URL.Path, body, err)
				}
				text = v.Text + v.Input
			}
			if text != "Zażółć “gęślą” jaźń 👋" {
				t.Errorf("the server got %q", text)
			}
		}},
		{"C3 no end", script{steps: []step{{20, header(t)}, {400, speech(9600)}, {500, speech(9600)}}, end: cut}, func(t *testing.T, f form, got sample.Request) {
			if got.Outcome != sample.Truncated && !(f.http2() && got.Outcome == sample.ServerError) { // a stream of HTTP/2 is reset
				t.Errorf("%s (%s)", got.Outcome, got.Cause)
			}
		}},
		{"C4 0xFFFFFFFF", script{steps: []step{{20, sized(t, 0xFFFFFFFF)}, {30, second}}}, oneSecond},
		{"C4 0x7FFFFFFF", script{steps: []step{{20, sized(t, 0x7FFFFFFF)}, {30, second}}}, oneSecond},
		{"C4 two thousand million", script{steps: []step{{20, sized(t, 2_000_000_000)}, {30, second}}}, oneSecond},
		{"C4 nothing", script{steps: []step{{20, sized(t, 0)}, {30, second}}}, oneSecond},
		{"C4 declared and short", script{steps: []step{{20, sized(t, 48000)}, {30, second[:24000]}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.Truncated, "truncated: 24000 of the 48000")
		}},
		{"C4 less declared than came", script{steps: []step{{20, sized(t, 24000)}, {30, second}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.OK, "")
			if got.Audio != 0.5 {
				t.Errorf("%v s, want the half second that is stated", got.Audio)
			}
		}},
		{"C4 a second header", script{steps: []step{{20, header(t)}, {30, speech(9600)}, {40, header(t)}, {50, speech(9600)}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.ProtocolError, "header inside the stream: a second RIFF at byte 9644")
		}},
		{"E5 a long stream", script{steps: []step{{20, header(t)}, {100, speech(4800)}, {300_000, speech(4800)}}}, func(t *testing.T, f form, got sample.Request) {
			wants(t, got, sample.OK, "")
			if got.Started != 0 || got.End != at(300_000) { // it is in flight from its start to its end: five of these a minute apart
				t.Errorf("in flight from %d to %d, want 300 s", got.Started, got.End)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, f := range doors(t) {
				t.Run(f.name, func(t *testing.T) {
					f.srv.t = t
					got := f.srv.ask(f.t, tc.script)
					tc.check(t, f, got)
					if err := got.Check(); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// B4: connections are used again whatever the door, and the time to get one stands apart.
func TestDoorsKeepConnections(t *testing.T) {
	for _, f := range doors(t) {
		t.Run(f.name, func(t *testing.T) {
			f.srv.t = t
			for i := range 4 {
				got := f.srv.ask(f.t, script{steps: []step{{5, header(t)}, {6, speech(2)}}})
				wants(t, got, sample.OK, "")
				if got.Reused != (i > 0) || !got.Conn.Known() || got.Conn > got.FirstByte {
					t.Errorf("request %d: reused %v, a connection at %d", i, got.Reused, got.Conn)
				}
			}
			want := int64(1)
			if f.name == "bidi" {
				want++ // the platform's own, for /ping
			}
			if n := f.srv.conns.Load(); n != want {
				t.Errorf("%d connections for four requests", n)
			}
			f.srv.ask(f.t, script{steps: []step{{5, header(t)}, {6, speech(2)}}, end: cut})
			if got := f.srv.ask(f.t, script{steps: []step{{5, header(t)}, {6, speech(2)}}}); got.Outcome != sample.OK || !f.shares() && got.Reused {
				t.Errorf("after a broken reply: %s (%s), reused %v", got.Outcome, got.Cause, got.Reused)
			}
		})
	}
}

func wants(t *testing.T, got sample.Request, o sample.Outcome, cause string) {
	t.Helper()
	if got.Outcome != o || !strings.HasPrefix(got.Cause, cause) {
		t.Errorf("%s (%s), want %s (%s)", got.Outcome, got.Cause, o, cause)
	}
}

func oneSecond(t *testing.T, f form, got sample.Request) {
	wants(t, got, sample.OK, "")
	if got.Audio != 1 {
		t.Errorf("%v s, want 1", got.Audio)
	}
}

// C1: events are the same however the bytes are cut.
func TestEventsCutAnywhere(t *testing.T) {
	const body = "data: {\"a\":1}\n\ndata: {\"b\":2}\n\ndata:{\"c\":3}\r\n\r\n: ping\n\nevent: last\rdata: é\r\rdata: [DONE]\n\n"
	want := []string{` {"a":1}`, ` {"b":2}`, ` {"c":3}`, "last é", " [DONE]"}
	read := func(pieces ...string) (got []string, left int) {
		var e eventStream
		for _, p := range pieces {
			if err := e.write([]byte(p), func(name string, data []byte) error {
				got = append(got, name+" "+string(data))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		return got, e.left()
	}
	for i := range body {
		for j := i; j <= len(body); j += 7 {
			if got, left := read(body[:i], body[i:j], body[j:]); strings.Join(got, "|") != strings.Join(want, "|") || left != 0 {
				t.Fatalf("cut at %d and %d: %q, %d left", i, j, got, left)
			}
		}
	}
	if got, left := read("\xEF\xBB\xBFdata: x\n\ndata: [DO"); len(got) != 1 || got[0] != " x" || left == 0 {
		t.Errorf("%q, %d left", got, left)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {\"a\":1}\r\n\r\n"), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, cut uint8) {
		read := func(size int) string {
			var e eventStream
			var b strings.Builder
			for rest := body; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				_ = e.write(rest[:min(size, len(rest))], func(name string, data []byte) error {
					fmt.Fprintf(&b, "%q %q\n", name, data)
					return nil
				})
			}
			return fmt.Sprint(b.String(), e.left())
		}
		if whole, pieces := read(len(body)+1), read(int(cut)%9+1); whole != pieces {
			t.Errorf("whole %s, in pieces %s", whole, pieces)
		}
	})
}

// What messages say, by the names that services use.
func TestMessages(t *testing.T) {
	pcm := base64.StdEncoding.EncodeToString([]byte{1, 2, 3, 4})
	for _, tc := range []struct {
		name, text, end string
		want            said
		wrong           string
	}{
		{"", `{"type":"speech.audio.delta","audio":"` + pcm + `"}`, "", said{sound: []byte{1, 2, 3, 4}}, ""},
		{"", `{"type":"response.audio.delta","delta":"` + pcm + `"}`, "", said{sound: []byte{1, 2, 3, 4}}, ""},
		{"", `{"type":"response.audio_transcript.delta","delta":"Hell"}`, "", said{}, ""},
		{"", `{"audio":"` + pcm + `","isFinal":null}`, "", said{sound: []byte{1, 2, 3, 4}}, ""},
		{"", `{"audio":null,"isFinal":true}`, "", said{end: true}, ""},
		{"", `{"type":"chunk","data":"` + pcm + `","done":false,"step_time":5}`, "", said{sound: []byte{1, 2, 3, 4}}, ""},
		{"", `{"audio":{"data":"` + pcm + `"},"type":7}`, "", said{sound: []byte{1, 2, 3, 4}}, ""},
		{"audio", pcm, "", said{sound: []byte{1, 2, 3, 4}}, ""},
		{"", "[DONE]", "", said{end: true}, ""},
		{"done", "", "", said{end: true}, ""},
		{"", `{"type":"audio.done"}`, "", said{}, ""}, // of one sentence
		{"", `{"type":"session.done"}`, "", said{end: true}, ""},
		{"", `{"status":"complete","duration_ms":80}`, "", said{end: true}, ""},
		{"", `{"type":"Flushed"}`, "type=Flushed", said{end: true}, ""},
		{"", `{"type":"done"}`, "type=Flushed", said{}, ""},
		{"", `over`, "over", said{end: true}, ""},
		{"error", `{"message":"no voice"}`, "", said{outcome: sample.ModelError, cause: "no voice"}, ""},
		{"", `{"type":"error","error":"queue_saturated","message":"50 of 50","retry_after_s":2.5}`, "", said{outcome: sample.Rejected, cause: "queue_saturated", after: 2500 * time.Millisecond}, ""},
		{"", `{"error":{"type":"rate_limit_exceeded","message":"slower"}}`, "", said{outcome: sample.Throttled, cause: "rate_limit_exceeded: slower"}, ""},
		{"", `{"type":"interrupted","reason":"shutting_down","sentences":2}`, "", said{outcome: sample.Truncated, cause: "truncated: interrupted by shutting_down"}, ""},
		{"", `{"ModelStreamError":{"ErrorCode":"X","Message":"fell over"}}`, "", said{outcome: sample.ModelError, cause: "ModelStreamError: X: fell over"}, ""},
		{"", `{"audio":"aGVs!bG8="}`, "", said{}, "damaged base64"},
		{"", `{"audio":"aGVsb"}`, "", said{}, "damaged base64"},
		{"", `{"audio":"aGV`, "", said{}, "not the JSON it begins as"},
		{"", "hello there", "", said{}, "damaged base64"},
		{"", "", "", said{}, ""},
	} {
		got, err := dialect{end: tc.end, events: true, payload: audio.Sound}.read(tc.name, []byte(tc.text))
		if tc.wrong != "" {
			if !errors.Is(err, errFrame) || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("%s: %v, want %s", tc.text, err, tc.wrong)
			}
			continue
		}
		got.sentences = nil
		if err != nil || !bytes.Equal(got.sound, tc.want.sound) || got.end != tc.want.end || got.outcome != tc.want.outcome || got.cause != tc.want.cause || got.after != tc.want.after {
			t.Errorf("%q %s: %+v, %v; want %+v", tc.name, tc.text, got, err, tc.want)
		}
	}
}

// A reply in events that is not whole is not taken for one.
func TestEventsAreHeldToTheirEnd(t *testing.T) {
	sound := string(told(speech(960)))
	for _, tc := range []struct {
		name, body, mime string
		end              string
		outcome          sample.Outcome
		cause            string
	}{
		{"whole", sound + "data: [DONE]\n\n", "", "", sample.OK, ""},
		{"no end", sound, "", "", sample.Truncated, "truncated: the stream of events ended without"},
		{"the end is the close", sound, "", EndClose, sample.OK, ""},
		{"cut inside an event", sound + "data: {\"type\":\"speech.audio.del", "", "", sample.Truncated, "truncated: 31 bytes left of an event"},
		{"cut before the empty line", sound + "data: [DONE]\n", "", "", sample.Truncated, "truncated: 11 bytes left of an event"},
		{"damaged", "data: {\"audio\":\"aGVs!bG8=\"}\n\ndata: [DONE]\n\n", "", "", sample.ProtocolError, "damaged event stream: sound in damaged base64"},
		{"an error in the middle", sound + "event: error\ndata: {\"error\":{\"code\":\"boom\",\"message\":\"fell over\"}}\n\n", "", "", sample.ModelError, "boom: fell over"},
		{"only a role", "data: {\"role\":\"assistant\"}\n\ndata: [DONE]\n\n", "", "", sample.Empty, "no bytes"},
		{"nothing", "", "", "", sample.Empty, "a stream of events without sound"},
		{"no events", "RIFF", "audio/wav", "", sample.ProtocolError, "not a stream of events"},
		{"counts that do not agree", "data: {\"sentences\":2}\n\n" + sound + "data: {\"type\":\"done\",\"sentences\":3}\n\n", "", "", sample.Truncated, "truncated: its end states 3 sentences, 2 came"},
		{"samples that do not agree", sound + "data: {\"type\":\"done\",\"samples\":960}\n\n", "", "", sample.Truncated, "truncated: its end states 960 samples, 480 came"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := newServer(t, HTTP1)
			srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				if tc.mime != "" {
					w.Header().Set("Content-Type", tc.mime)
				}
				io.WriteString(w, tc.body)
			})
			tr, err := NewHTTP(HTTPOptions{URL: srv.URL, Events: true, End: tc.end})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			wants(t, srv.ask(tr, script{}), tc.outcome, tc.cause)
		})
	}
}

// A stream of events that stays open after its last one is over all the same.
func TestEventsThatStayOpen(t *testing.T) {
	srv := newServer(t, HTTP1)
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(append(told(speech(960)), "data: [DONE]\n\n"...))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	tr, err := NewHTTP(HTTPOptions{URL: srv.URL, Events: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	rec := srv.ask(tr, script{})
	wants(t, rec, sample.OK, "")
	if rec.Audio != 0.02 || !rec.End.Known() {
		t.Errorf("%+v", rec)
	}
}

package transport

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"loadline/internal/sample"
)

func openSession(t *testing.T, o WebSocketOptions) (*server, *WebSocket) {
	srv := newServer(t, HTTP1)
	o.URL = strings.Replace(srv.URL, "http", "ws", 1) + "/session"
	tr, err := NewWebSocket(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return srv, tr
}

// C3: only the message that says so makes a reply whole, whatever the connection's own end looks like.
func TestTidyCloseIsNoEnd(t *testing.T) {
	text := func(c *websocket.Conn, m string) { c.Write(context.Background(), websocket.MessageText, []byte(m)) }
	sound := func(c *websocket.Conn) {
		for range 2 {
			c.Write(context.Background(), websocket.MessageBinary, speech(9600))
		}
	}
	for _, tc := range []struct {
		name    string
		end     string
		talk    func(c *websocket.Conn)
		outcome sample.Outcome
		cause   string
	}{
		{"a tidy close", "", func(c *websocket.Conn) { sound(c); c.Close(1000, "idle") }, sample.Truncated, "truncated: closed with 1000: idle before the message"},
		{"done, then a close", "", func(c *websocket.Conn) { sound(c); text(c, `{"type":"done"}`); c.Close(1000, "") }, sample.OK, ""},
		{"done, then a broken connection", "", func(c *websocket.Conn) { sound(c); text(c, `{"type":"done","samples":9600}`) }, sample.OK, ""},
		{"fewer sentences than said", "", func(c *websocket.Conn) {
			sound(c)
			text(c, `{"type":"sentence","sentences":2}`)
			text(c, `{"type":"done","sentences":3}`)
		}, sample.Truncated, "truncated: its end states 3 sentences, 2 came"},
		{"fewer samples than said", "", func(c *websocket.Conn) { sound(c); text(c, `{"type":"done","samples":14400}`) }, sample.Truncated, "truncated: its end states 14400 samples, 9600 came"},
		{"the close is the end", EndClose, func(c *websocket.Conn) { sound(c); c.Close(1000, "") }, sample.OK, ""},
		{"a broken connection is no close", EndClose, func(c *websocket.Conn) { sound(c) }, sample.Truncated, "truncated: the reply ended without its end"},
		{"the server stops", "", func(c *websocket.Conn) { c.Close(1001, "shutting_down") }, sample.ServerError, "closed with 1001: shutting_down"},
		{"the server stops midway", "", func(c *websocket.Conn) { sound(c); c.Close(1001, "shutting_down") }, sample.Truncated, "truncated: closed with 1001"},
		{"saturated", "", func(c *websocket.Conn) { c.Close(1013, "queue_saturated") }, sample.Rejected, "queue_saturated"},
		{"try later", "", func(c *websocket.Conn) { c.Close(1013, "") }, sample.Throttled, "closed with 1013"},
		{"a limit", "", func(c *websocket.Conn) { c.Close(1008, "limit") }, sample.ClientError, "closed with 1008: limit"},
		{"internal", "", func(c *websocket.Conn) { sound(c); c.Close(1011, "boom") }, sample.ServerError, "closed with 1011: boom"},
		{"nothing but an end", "", func(c *websocket.Conn) { text(c, `{"type":"done"}`) }, sample.Empty, "no bytes"},
		{"another text's", "", func(c *websocket.Conn) {
			text(c, `{"type":"synthesis_complete","request_id":"other"}`)
			sound(c)
			text(c, `{"type":"synthesis_complete"}`)
		}, sample.OK, ""},
		{"text that is none", "", func(c *websocket.Conn) { text(c, `{"type":`) }, sample.ProtocolError, "damaged event stream"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv, tr := openSession(t, WebSocketOptions{End: tc.end})
			wants(t, srv.ask(tr, script{talk: tc.talk}), tc.outcome, tc.cause)
		})
	}
}

// C5: a session that waits for sound answers pings meanwhile, and one that is idle does too.
func TestPingsAreAnswered(t *testing.T) {
	srv, tr := openSession(t, WebSocketOptions{})
	ping := func(c *websocket.Conn) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for range 3 {
			if err := c.Ping(ctx); err != nil {
				t.Errorf("a ping: %v", err)
			}
		}
	}
	idle := make(chan struct{})
	got := srv.ask(tr, script{talk: func(c *websocket.Conn) {
		ping(c)
		c.Write(context.Background(), websocket.MessageBinary, speech(960))
		c.Write(context.Background(), websocket.MessageText, []byte(`{"type":"done"}`))
		go func() { defer close(idle); ping(c) }()
		<-idle
	}})
	wants(t, got, sample.OK, "")
	<-idle
}

// C5, arm c: an error about a text leaves the session to the next one.
func TestSessionSurvivesAnError(t *testing.T) {
	srv, tr := openSession(t, WebSocketOptions{})
	got := srv.ask(tr, script{last: `{"type":"error","request_id":%q,"error":"too_many_texts","message":"5 are open"}`})
	wants(t, got, sample.Throttled, "too_many_texts: 5 are open")
	got = srv.ask(tr, script{steps: []step{{20, speech(960)}}})
	wants(t, got, sample.OK, "")
	if !got.Reused || srv.conns.Load() != 1 {
		t.Errorf("reused %v, %d connections", got.Reused, srv.conns.Load())
	}
}

// A generic service: several messages a text, a session each, sound in JSON.
func TestForeignSession(t *testing.T) {
	m, err := ParseMessages("{\"type\":\"session.config\",\"voice\":\"alba\"}\n{\"type\":\"input.text\",\"text\":\"{{.Text}}\"}\n{\"type\":\"input.done\"}")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 8)
	srv := newServer(t, HTTP1)
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		for range 3 {
			_, b, err := c.Read(r.Context())
			if err != nil {
				t.Error(err)
			}
			got <- string(b)
		}
		got <- r.Header.Get("Authorization")
		// One message in three frames, cut inside a rune; then sound.
		fr, err := c.Writer(r.Context(), websocket.MessageText)
		if err != nil {
			t.Error(err)
		}
		for _, part := range []string{`{"type":"info","message":"Caf`, "\xC3", "\xA9" + `"}`} {
			fr.Write([]byte(part))
		}
		fr.Close()
		c.Write(r.Context(), websocket.MessageText, []byte(`{"type":"audio.chunk","audio":"AEAAQABA"}`))
		c.Write(r.Context(), websocket.MessageText, []byte(`{"type":"session.done"}`))
		c.Close(1000, "")
	})
	tr, err := NewWebSocket(WebSocketOptions{URL: strings.Replace(srv.URL, "http", "ws", 1), Messages: m, Header: http.Header{"authorization": {"Bearer x"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for i := range 2 {
		rec := srv.ask(tr, script{})
		wants(t, rec, sample.OK, "")
		if rec.Bytes != 6 || rec.Reused {
			t.Errorf("%d bytes, reused %v", rec.Bytes, rec.Reused)
		}
		for _, want := range []string{`{"type":"session.config","voice":"alba"}`, `{"type":"input.text","text":"Say \"hi\"."}`, `{"type":"input.done"}`, "Bearer x"} {
			if g := <-got; g != want {
				t.Errorf("request %d: %s, want %s", i, g, want)
			}
		}
	}
}

func TestMessagesAreChecked(t *testing.T) {
	for _, bad := range []string{"no place", `{"text":{{.Text}}}`, `{"text":"{{.Text}}","voice":"{{.Voice}}"}`} {
		if _, err := ParseMessages(bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	m, err := ParseMessages("")
	if err != nil || !m.kept {
		t.Fatalf("%v, %v", m, err)
	}
	if got := string(m.fill(`"{{.ID}}" he said`, "7")[0]); got != `{"text":"\"{{.ID}}\" he said","request_id":"7"}` {
		t.Errorf("%s", got)
	}
}

func TestWebSocketOptions(t *testing.T) {
	for _, url := range []string{"ftp://x", "ws://", "127.0.0.1:80", ":"} {
		if _, err := NewWebSocket(WebSocketOptions{URL: url}); err == nil {
			t.Errorf("%s was taken", url)
		}
	}
	if _, err := NewWebSocket(WebSocketOptions{URL: "ws://x/", Header: http.Header{"A": {"b\nc"}}}); err == nil {
		t.Error("a header with a line feed was taken")
	}
	srv := newServer(t, HTTP1)
	srv.Config.Handler = http.NotFoundHandler()
	tr, err := NewWebSocket(WebSocketOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	wants(t, srv.ask(tr, script{}), sample.ClientError, "404 not found")
}

func TestWebSocketOverTLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		if _, _, err := c.Read(r.Context()); err != nil {
			return
		}
		c.Write(r.Context(), websocket.MessageBinary, speech(960))
		c.Write(r.Context(), websocket.MessageText, []byte(`{"type":"done"}`))
		c.Read(r.Context())
	}))
	defer srv.Close()
	url := strings.Replace(srv.URL, "https", "wss", 1)
	trusted := srv.Client().Transport.(*http.Transport).TLSClientConfig
	for _, config := range []*tls.Config{trusted, nil} {
		tr, err := NewWebSocket(WebSocketOptions{URL: url, Net: Net{TLS: config}})
		if err != nil {
			t.Fatal(err)
		}
		rec := newServer(t, HTTP1).ask(tr, script{})
		if config != nil {
			wants(t, rec, sample.OK, "")
		} else {
			wants(t, rec, sample.ClientFault, "TLS: ")
		}
		tr.Close()
	}
}

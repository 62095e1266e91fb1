package load_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"loadline/internal/audio"
	"loadline/internal/corpus"
	"loadline/internal/ladder"
	"loadline/internal/load"
	"loadline/internal/sample"
	"loadline/internal/transport"
)

// Case B4 (i): ten streams and two idle connections kept. What begins and ends together closes eight connections each time.
// (ii), the limit on HTTP/2 streams, and (iii), a busy loop on the one processor, are faults of bench/selfaudit.
func TestConnectionsDialledAnewAreSaid(t *testing.T) {
	arrived, begun := gate(10, 200), gate(10, 200)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived()
		w.Write([]byte("pong"))
	}))
	defer srv.Close()
	tr, err := transport.NewHTTP(transport.HTTPOptions{URL: srv.URL, Payload: audio.Bytes, Net: transport.Net{Streams: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	loop := load.NewClosed(load.Config{Transport: tr, Deadline: time.Minute, Texts: func(int) corpus.Text {
		begun()
		return corpus.Text{Body: "ping", Chars: 4}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	n := 0
	client, err := loop.Hold(ctx, 0, 10, func(r sample.Request) bool {
		if r.Outcome != sample.OK {
			t.Errorf("%s: %s", r.Outcome, r.Cause)
		}
		n++
		return n == 200
	})
	cancel()
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	if client.Reused > 0.3 || client.Conns < 140 {
		t.Errorf("%.0f %% of the requests reused a connection, %d were dialled: want about 18 and 164", 100*client.Reused, client.Conns)
	}
	if cause := ladder.ClientBound(client, 10, 50*time.Millisecond, true); !strings.Contains(cause, "connections were dialled for 10 streams") {
		t.Errorf("a rung that missed is said to be %q", cause)
	}
	if !strings.Contains(tr.Policy(), "up to 2 kept idle") || !strings.Contains(tr.Policy(), "resolved anew") { // case B7
		t.Errorf("policy %q", tr.Policy())
	}
}

// gate lets its callers pass n at a time, and after so many in all freely.
func gate(n, total int) func() {
	var mu sync.Mutex
	passed, waiting, open := 0, 0, make(chan struct{})
	return func() {
		mu.Lock()
		mine := open
		if waiting++; waiting == n || passed+waiting > total {
			passed += waiting
			close(open)
			waiting, open = 0, make(chan struct{})
		}
		mu.Unlock()
		<-mine
	}
}

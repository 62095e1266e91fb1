package transport

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadline/internal/audio"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// Requests beyond the streams of the connections wait, and the wait is to be seen: it is not the server's.
func TestWaitForAStreamIsAWaitForAConnection(t *testing.T) {
	const streams, held = 4, 20
	var now, most atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-time.After(30 * time.Millisecond)
		w.Write([]byte("pong"))
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	srv.Start()
	defer srv.Close()
	for _, conns := range []int{1, 2} {
		tr, err := NewHTTP(HTTPOptions{URL: srv.URL, Payload: audio.Bytes, Net: Net{Version: H2C, MaxConns: conns}})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		start := time.Now()
		clock := func() sample.Nanos { return sample.Since(time.Since(start)) }
		ask := func() sample.Request {
			r := sample.New(0)
			r.Started = clock()
			tr.Do(t.Context(), load.Call{Clock: clock}, &r)
			if r.Outcome != sample.OK {
				t.Errorf("%s: %s", r.Outcome, r.Cause)
			}
			return r
		}
		if tr.PeerStreams() != 0 {
			t.Error("a limit is known before there is a connection")
		}
		for range conns { // each connection learns the limit before it is put to it
			if r := ask(); r.Reused {
				t.Error("the first request of a connection says that it was reused")
			}
		}
		most.Store(0)
		var longest sample.Nanos
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range held {
			wg.Go(func() {
				for range 2 {
					r := ask()
					mu.Lock()
					longest = max(longest, r.Conn-r.Started)
					mu.Unlock()
					if !r.Reused {
						t.Error("dialled anew")
					}
				}
			})
		}
		wg.Wait()
		if n := most.Load(); n > int64(conns*streams) {
			t.Errorf("%d requests at once over %d connections of %d streams", n, conns, streams)
		}
		if n := tr.PeerStreams(); n != streams {
			t.Errorf("the peer allows %d streams, want %d", n, streams)
		}
		if wait := longest.Duration(); wait < 50*time.Millisecond {
			t.Errorf("with %d connections nobody waited longer than %v for a stream", conns, wait)
		}
	}
}

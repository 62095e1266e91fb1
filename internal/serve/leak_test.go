package serve

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Ten thousand requests that end badly in every way leave nothing behind: the bound of 50 is whole again, goroutines and
// memory are back, and the next request is served.
func TestNothingLeaks(t *testing.T) {
	engine := &fake{say: func(r Request) *fakeUtterance {
		if r.Text == "long" {
			return blocks(5000) // 24 MB: more than any socket buffers
		}
		return blocks(1)
	}}
	s := start(t, Config{Engine: engine, Ahead: -1, QueueDepth: 50, BodyWait: 200 * time.Millisecond, WriteWait: 200 * time.Millisecond})
	hs := open(t, s)
	addr := hs.Listener.Addr().String()
	long := `{"text": "long"}`
	post := func(length int, body string) string {
		return fmt.Sprintf("POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length, body)
	}
	answered := func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) } // until the server's close or our deadline
	reset := func(c *net.TCPConn) { _ = c.SetLinger(0) }
	some := func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 4096))
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, _ = c.Read(make([]byte, 4096))
	}
	kinds := []struct {
		name string
		send string
		then func(c *net.TCPConn)
	}{
		{"not JSON", post(1, "{"), some},
		{"a list", post(2, "[]"), some},
		{"voice is a list", post(27, `{"text": "a", "voice": [1]}`), some},
		{"half a body, closed", post(100, `{"text": `), func(*net.TCPConn) {}},
		{"half a body, reset", post(100, `{"text": `), reset},
		{"half a body, silent", post(100, `{"text": `), answered},
		{"headers only", "POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", func(*net.TCPConn) {}},
		{"no route, no body", "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", answered},
		{"half a header", "POST /invocations HTTP/1.1\r\nHo", func(*net.TCPConn) {}},
		{"asked and gone", post(len(long), long), func(*net.TCPConn) {}},
		{"asked and reset", post(len(long), long), reset},
		{"upgrade without a key", "GET " + sessionPath + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", some},
		{"upgrade of another version", strings.Replace(upgrade, "13", "7", 1), some},
		{"upgrade, then gone", upgrade, some},
		{"upgrade, then reset", upgrade, func(c *net.TCPConn) { some(c); reset(c) }},
		{"upgrade, then noise", upgrade + "\xff\xff\xff\xff", some},
		{"upgrade, then half a frame", upgrade + frame(long)[:8], some},
		{"a text, then gone", upgrade + frame(long), some},
		{"a text, then reset", upgrade + frame(long), func(c *net.TCPConn) { some(c); reset(c) }},
		{"half a text, then gone", upgrade + frame(`{"type": "text", "text": "a"}`), some},
		{"five texts, interrupted", upgrade + strings.Repeat(frame(long), 5) + frame(`{"type": "interrupt"}`) + frame(`{"type": "close"}`), some},
		{"gone midway", post(len(long), long), some},
		{"reset midway", post(len(long), long), func(c *net.TCPConn) { some(c); reset(c) }},
	}
	all := 10_000
	if testing.Short() {
		all = 1000
	}
	_ = call(s, "POST", "/invocations", `{"text": "a"}`)
	before, heap := runtime.NumGoroutine(), heapInUse()
	var wg sync.WaitGroup
	tasks := make(chan int)
	one := func(i int) error {
		k := kinds[i%len(kinds)]
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		c := conn.(*net.TCPConn)
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.WriteString(c, k.send); err != nil {
			return err
		}
		if strings.HasPrefix(k.name, "not JSON") || strings.Contains(k.name, "list") {
			_ = c.CloseWrite()
		}
		k.then(c)
		return nil
	}
	for range 40 {
		wg.Go(func() {
			for i := range tasks {
				if err := one(i); err != nil {
					t.Errorf("request %d (%s): %v", i, kinds[i%len(kinds)].name, err)
				}
			}
		})
	}
	for i := range all - 40 {
		tasks <- i
	}
	close(tasks)
	wg.Wait()

	// Forty readers that stay, and take nothing, are cut by the write deadline.
	var stalled []net.Conn
	for range 40 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := io.WriteString(c, post(len(long), long)); err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, c)
	}
	until(t, func() bool { c := s.Counts(); return c.InSystem == 0 && c.Admitted >= 40 })
	for _, c := range stalled {
		c.Close()
	}
	if c := s.Counts(); c.Executing != 0 || c.Queued != 0 || c.Admitted != c.Finished+c.Abandoned {
		t.Errorf("counts at the end: %+v", c)
	}
	until(t, func() bool { return runtime.NumGoroutine() <= before && s.sessionCount() == 0 })
	if now := heapInUse(); now > heap+4<<20 {
		t.Errorf("%d KiB of heap more than at the start", (now-heap)>>10)
	}
	res, err := http.Post(hs.URL+"/invocations", "application/json", strings.NewReader(`{"text": "next"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 || len(b) != 44+len(block100) {
		t.Errorf("the next request: %s, %d bytes, %v", res.Status, len(b), err)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

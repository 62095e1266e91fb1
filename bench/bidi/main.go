//go:build linux

// Command bidi holds 1,000 bidirectional sessions at once through the local account's second door: HTTP/2 over TLS, every
// event signed and verified, a WebSocket to a replayed container behind each. Each session speaks two texts, one after the
// other, in real time. It says what a session costs in memory on either side, and that nothing is left of them.
//
//	go run ./bench/bidi
//
// The account and its container share one process, the client is another.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"loadline/bench/child"
	"loadline/bench/machine"
	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
	"loadline/internal/transport"
)

// text is 140 characters: about 10 s of sound, in pieces of 200 ms.
var text = strings.Repeat("twenty-eight characters long", 5)

const ramp = 4 * time.Second // over which the sessions of one round start

func main() {
	if len(os.Args) > 1 && os.Args[1] == "server" {
		if err := serveHere(); err != nil {
			fmt.Fprintln(os.Stderr, "bench/bidi: server:", err)
			os.Exit(3)
		}
		return
	}
	n := flag.Int("sessions", 1000, "held at once")
	flag.Parse()
	fmt.Printf("machine: %s\n", machine.String())
	fmt.Printf("input: %d sessions, two texts of %d characters each, started evenly over %s; the account, with its container, is another process\n\n", *n, len(text), ramp)
	ok, err := bench(*n)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/bidi:", err)
		os.Exit(3)
	}
	if !ok {
		os.Exit(1)
	}
}

// usage is what a process holds.
type usage struct {
	Goroutines int
	Resident   int64 // bytes
	CPU        float64
}

// self is this process's own, after what can be collected is.
func self() (usage, error) {
	debug.FreeOSMemory()
	u := usage{Goroutines: runtime.NumGoroutine()}
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			if _, err := fmt.Sscan(rest, &u.Resident); err != nil {
				return u, err
			}
			u.Resident <<= 10
		}
	}
	u.CPU = processorTime()
	return u, nil
}

// round is what one text of every session came to.
type round struct {
	first  []float64 // first audio, ms from its start, sorted
	most   int64     // spoken at once
	reused int
	wrong  map[string]int
	stall  float64 // the worst
	during [2]usage
}

func bench(n int) (bool, error) {
	line, stop, err := child.Server(child.Anywhere, "server", fmt.Sprint(n))
	if err != nil {
		return false, err
	}
	defer stop()
	var at struct{ Bidi, Stats, Certificate string }
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		return false, fmt.Errorf("the server said %q: %w", line, err)
	}
	stats := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	both := func() (u [2]usage, err error) { // client, server
		if u[1], err = of(stats, at.Stats); err == nil {
			u[0], err = self()
		}
		return u, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(at.Certificate))
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")}
	open := func() (*transport.Bidi, error) {
		return transport.NewBidi(cfg, transport.BidiOptions{URL: at.Bidi, Endpoint: "speech", Net: transport.Net{Streams: n, TLS: &tls.Config{RootCAs: roots}}})
	}
	warm, err := open()
	if err != nil {
		return false, err
	}
	if r := speak(warm, 1, 0, nil); len(r.wrong) > 0 {
		return false, fmt.Errorf("the first session: %v", r.wrong)
	}
	warm.Close()
	time.Sleep(time.Second)
	before, err := both()
	if err != nil {
		return false, err
	}
	b, err := open()
	if err != nil {
		return false, err
	}
	ok := true
	say := func(pass bool, format string, args ...any) {
		ok = ok && pass
		fmt.Printf(format+": "+verdict(pass)+"\n", args...)
	}
	for i := range 2 {
		began, err := both()
		if err != nil {
			return false, err
		}
		start := time.Now()
		r := speak(b, n, ramp, func() (u [2]usage) {
			u, _ = both() // 0 shows
			return u
		})
		wall := time.Since(start).Seconds()
		ended, err := both()
		if err != nil {
			return false, err
		}
		name := [2]string{"opening its session", "on the same session"}[i]
		fmt.Printf("text %d, %s, first audio: p50 %.1f, p95 %.1f, p99 %.1f ms; longest wait of a listener %.0f ms\n", i+1, name, p(r.first, 50), p(r.first, 95), p(r.first, 99), 1000*r.stall)
		u := r.during
		fmt.Printf("        memory a session: client %.0f KB, account and container %.0f KB; goroutines %.1f and %.1f; processors %.2f and %.2f\n",
			float64(u[0].Resident-before[0].Resident)/float64(n)/1024, float64(u[1].Resident-before[1].Resident)/float64(n)/1024,
			float64(u[0].Goroutines-before[0].Goroutines)/float64(n), float64(u[1].Goroutines-before[1].Goroutines)/float64(n),
			(ended[0].CPU-began[0].CPU)/wall, (ended[1].CPU-began[1].CPU)/wall)
		say(r.most == int64(n) && len(r.wrong) == 0, "        spoken at once: %d of %d; not whole: %v", r.most, n, r.wrong)
		if i == 1 {
			say(r.reused == n, "        on kept sessions: %d of %d", r.reused, n)
		}
	}
	b.Close()
	var after [2]usage
	for range 100 { // what ends, ends within seconds
		if after, err = both(); err != nil {
			return false, err
		}
		if after[0].Goroutines <= before[0].Goroutines && after[1].Goroutines <= before[1].Goroutines {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	say(after[0].Goroutines <= before[0].Goroutines && after[1].Goroutines <= before[1].Goroutines,
		"left of them: goroutines before %d and %d, after %d and %d", before[0].Goroutines, before[1].Goroutines, after[0].Goroutines, after[1].Goroutines)
	return ok, nil
}

func verdict(ok bool) string {
	if ok {
		return "pass"
	}
	return "FAIL"
}

func p(sorted []float64, percent float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(percent/100*float64(len(sorted))))]
}

// of is what another process says of itself.
func of(c *http.Client, url string) (u usage, err error) {
	resp, err := c.Get(url)
	if err != nil {
		return u, err
	}
	defer resp.Body.Close()
	return u, json.NewDecoder(resp.Body).Decode(&u)
}

// speak speaks one text in each of n sessions, started evenly over a time; look is called while all are spoken.
func speak(b *transport.Bidi, n int, over time.Duration, look func() [2]usage) round {
	begin := time.Now()
	clock := func() sample.Nanos { return sample.Since(time.Since(begin)) }
	r := round{wrong: map[string]int{}}
	var (
		mu       sync.Mutex
		speaking atomic.Int64
		wg, eyes sync.WaitGroup
	)
	for k := range n {
		wg.Go(func() {
			time.Sleep(time.Duration(k) * over / time.Duration(n))
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			rec := sample.New(k)
			rec.Started = clock()
			first := sync.OnceFunc(func() {
				now := speaking.Add(1)
				mu.Lock()
				r.most = max(r.most, now)
				mu.Unlock()
				if now == int64(n) && look != nil {
					eyes.Go(func() { r.during = look() })
				}
			})
			b.Do(ctx, load.Call{Text: corpus.Text{Body: text, Chars: len(text)}, Clock: clock, Sink: sink(first)}, &rec)
			first() // if it never began
			speaking.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			if rec.Outcome != sample.OK {
				r.wrong[string(rec.Outcome)+": "+rec.Cause]++
				return
			}
			r.first = append(r.first, float64(rec.FirstAudio-rec.Started)/1e6)
			r.stall = max(r.stall, rec.Stall)
			if rec.Reused {
				r.reused++
			}
		})
	}
	wg.Wait()
	eyes.Wait()
	slices.Sort(r.first)
	return r
}

// sink calls a function with the first sound.
type sink func()

func (s sink) Write(b []byte) (int, error) { s(); return len(b), nil }

// serveStats answers with what this process holds.
func serveStats() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		_ = http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // it ends with the process
			u, err := self()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(u) // the client shows what did not come
		}))
	}()
	return "http://" + ln.Addr().String(), nil
}

// wait returns when standard input ends: with the parent.
func wait() { _, _ = io.Copy(io.Discard, os.Stdin) }

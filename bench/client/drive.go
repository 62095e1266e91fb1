//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
	"loadline/internal/transport"
)

// result is what one client process measured.
type result struct {
	PerSecond float64       // requests (or chunks) a second
	CPU       float64       // processor seconds a second
	PerStream float64       // bytes of resident memory a stream
	Live      float64       // bytes of those in use: reachable heap and stacks
	Client    sample.Client // what the client says of itself
	Bad       map[string]int
}

// drive is the client process: it prints a result.
func drive(role, port string) error {
	debug.SetGCPercent(400) // as the commands do
	var r result
	var err error
	switch role {
	case "bare":
		r, err = bare(port)
	case "http-small", "sdk-small", "http-stream", "sdk-stream":
		r, err = loaded(role, port)
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// counting counts the bytes of the replies as they arrive.
type counting struct {
	load.Transport
	n atomic.Int64
}

func (c *counting) Write(b []byte) (int, error) { c.n.Add(int64(len(b))); return len(b), nil }

func (c *counting) Do(ctx context.Context, call load.Call, rec *sample.Request) {
	call.Sink = c
	c.Transport.Do(ctx, call, rec)
}

func build(role, port string) (load.Transport, error) {
	network := transport.Net{Streams: streams}
	by, path, _ := strings.Cut(role, "-")
	if by == "http" {
		return transport.NewHTTP(transport.HTTPOptions{Net: network, URL: "http://127.0.0.1:" + port + "/" + path})
	}
	return transport.NewSageMaker(aws.Config{
		Region:       "us-east-1",
		Credentials:  aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")),
		BaseEndpoint: aws.String("http://127.0.0.1:" + port),
	}, transport.SageMakerOptions{Net: network, Endpoint: path})
}

// loaded drives through package load, the way a measurement does.
func loaded(role, port string) (result, error) {
	t, err := build(role, port)
	if err != nil {
		return result{}, err
	}
	defer t.Close()
	streaming := role == "http-stream" || role == "sdk-stream"
	n, warm, window := small, smallWarm, smallWindow
	if streaming {
		t, n, warm, window = &counting{Transport: t}, streams, streamWarm, streamWindow
	}
	loop := load.NewClosed(load.Config{Transport: t, Deadline: 2 * time.Minute,
		Texts: func(seq int) corpus.Text { return corpus.Text{Body: "Good morning.", Chars: 13} }})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	// One stream first, so that what every client needs once is not counted to the streams.
	first := time.Second
	if _, err := hold(ctx, loop, 1, first, func(sample.Request) {}); err != nil {
		return result{}, err
	}
	rss0, live0 := memory()
	if _, err := hold(ctx, loop, n, warm, func(sample.Request) {}); err != nil {
		return result{}, err
	}
	var r result
	r.Bad = map[string]int{}
	done := 0
	var bytes0 int64
	if c, ok := t.(*counting); ok {
		bytes0 = c.n.Load()
	}
	cpu0, at := cpu(), time.Now()
	r.Client, err = hold(ctx, loop, n, window, func(q sample.Request) {
		if q.Outcome == sample.OK {
			done++
		} else {
			r.Bad[q.Cause]++
		}
	})
	if err != nil {
		return r, err
	}
	wall := time.Since(at).Seconds()
	r.CPU = (cpu() - cpu0).Seconds() / wall
	r.PerSecond = float64(done) / wall
	if c, ok := t.(*counting); ok {
		r.PerSecond = float64(c.n.Load()-bytes0) / chunkBytes / wall
		rss, live := memory()
		r.PerStream, r.Live = float64(rss-rss0)/streams, float64(live-live0)/streams
	}
	return r, nil
}

func hold(ctx context.Context, loop *load.Closed, n int, d time.Duration, see func(sample.Request)) (sample.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	c, err := loop.Hold(ctx, 0, n, func(r sample.Request) bool { see(r); return false })
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return c, err
}

// bare is a net/http client that records nothing: what the library alone costs.
func bare(port string) (result, error) {
	rt := &http.Transport{MaxIdleConnsPerHost: small, DisableCompression: true}
	url := "http://127.0.0.1:" + port + "/small"
	var done atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	errs := make(chan error, small)
	for range small {
		wg.Go(func() {
			for !stop.Load() {
				req, err := http.NewRequest("POST", url, bytes.NewReader([]byte(`{"text":"Good morning."}`)))
				if err == nil {
					req.Header.Set("Content-Type", "application/json")
					var resp *http.Response
					if resp, err = rt.RoundTrip(req); err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
				if err != nil {
					errs <- err
					return
				}
				done.Add(1)
			}
		})
	}
	time.Sleep(smallWarm)
	n0, cpu0, at := done.Load(), cpu(), time.Now()
	time.Sleep(smallWindow)
	wall := time.Since(at).Seconds()
	r := result{PerSecond: float64(done.Load()-n0) / wall, CPU: (cpu() - cpu0).Seconds() / wall}
	stop.Store(true)
	wg.Wait()
	select {
	case err := <-errs:
		return r, err
	default:
		return r, nil
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory is resident bytes as they are, and those in use after a collection.
func memory() (resident, live int64) {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size int64
		fmt.Sscan(string(b), &size, &resident)
		resident *= int64(os.Getpagesize())
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return resident, int64(m.HeapAlloc + m.StackInuse)
}

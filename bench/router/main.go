// Command router measures what the local platform adds to a request: 500 streams held on one instance through package
// local's router, and 500 on it directly at the same time, with the same client; and that the shipped profile quick keeps
// its pace through it.
//
//	go run ./bench/router
//
// Client, platform and instance share this process and its processors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"loadline/bench/container"
	"loadline/bench/machine"
	"loadline/internal/engine/replay"
	"loadline/internal/local"
)

const (
	streams  = 500
	maxAdded = 2 * time.Millisecond // at p99
	paceBand = 0.02                 // of profile quick's own pace
)

// wide holds every stream for two seconds, in ten pieces: 500 streams are 250 requests and 2,500 pieces a second.
const wide = `
name: wide
service: {places: 2000, base_ms: 200, law: {kind: deterministic}}
audio: {per_char_s: 0.07, piece_s: 0.2}
instance: {type: ml.g5.xlarge}
`

const (
	text  = `{"text":"Twenty-eight characters long"}` // 1.96 s of sound: ten pieces, one each 200 ms
	chars = 28
)

func main() {
	window := flag.Duration("window", 8*time.Second, "measured each time, after a warm-up of 4 s")
	reps := flag.Int("reps", 3, "repetitions")
	flag.Parse()
	fmt.Printf("machine: %s\n", machine.String())
	fmt.Printf("input: %d streams each way at once, closed loop, 2 s each in 10 pieces, %d × %s\n\n", streams, *reps, *window)
	ok, err := bench(*window, *reps)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/router:", err)
		os.Exit(3)
	}
	if !ok {
		os.Exit(1)
	}
}

func bench(window time.Duration, reps int) (bool, error) {
	p, err := replay.Parse([]byte(wide))
	if err != nil {
		return false, err
	}
	var added []float64
	err = platform(p, func(direct, through string) error {
		for i := range reps {
			// At the same moments, so that what else the machine does befalls both.
			var d, t result
			var errs [2]error
			var wg sync.WaitGroup
			wg.Go(func() { d, errs[0] = hold(direct, streams, window) })
			wg.Go(func() { t, errs[1] = hold(through, streams, window) })
			wg.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				return err
			}
			added = append(added, t.p(99)-d.p(99))
			fmt.Printf("run %d: direct p50 %.2f p99 %.2f ms, %.0f/s; through p50 %.2f p99 %.2f ms, %.0f/s; added p50 %.2f p99 %.2f ms\n", i+1,
				d.p(50), d.p(99), d.rate, t.p(50), t.p(99), t.rate, t.p(50)-d.p(50), t.p(99)-d.p(99))
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	slices.Sort(added)
	median := added[len(added)/2]
	ok := median <= float64(maxAdded.Milliseconds())
	fmt.Printf("added at p99 of whole streams: median %.2f ms (%.2f to %.2f); target at most %s: %s\n\n",
		median, added[0], added[len(added)-1], maxAdded, verdict(ok))

	quick, err := replay.Builtin("quick")
	if err != nil {
		return false, err
	}
	kept := false
	err = platform(quick, func(_, through string) error {
		pace := 1 / quick.Mean(chars).Seconds()
		r, err := hold(through, 32, window)
		kept = math.Abs(r.rate/pace-1) <= paceBand
		fmt.Printf("profile quick, 32 streams through: %.1f/s, p50 %.1f ms, p95 %.1f ms; target %.1f/s ± %.0f %%: %s\n", r.rate, r.p(50), r.p(95), pace, 100*paceBand, verdict(kept))
		return err
	})
	return ok && kept, err
}

func verdict(ok bool) string {
	if ok {
		return "pass"
	}
	return "FAIL"
}

// platform runs an account with one instance of the profile and tells f the URLs of its instance and of its endpoint.
func platform(p replay.Profile, f func(direct, through string) error) error {
	var direct string
	l, err := local.New(local.Config{
		Start: func(_ context.Context, s local.Spec) (local.Instance, error) {
			i, err := container.Start(p, s.Seed, 0)
			if err == nil {
				direct = "http://" + i.Addr() + "/invocations"
			}
			return i, err
		},
		Addr: "127.0.0.1:0",
		Endpoints: []local.Endpoint{{Name: "speech", Variants: []local.Variant{{Name: "primary", InstanceType: p.Instance.Type,
			Instances: 1, Routing: local.LeastOutstanding}}}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	select {
	case <-l.Ready():
		err = f(direct, l.URL()+"/endpoints/speech/invocations-response-stream")
		cancel()
		<-done
		return err
	case err := <-done:
		cancel()
		return err
	}
}

// result is the latencies of the streams that ended in a window, sorted, in milliseconds, and the streams ended a second.
type result struct {
	ms   []float64
	rate float64
}

func (r result) p(percent float64) float64 {
	return r.ms[min(len(r.ms)-1, int(percent/100*float64(len(r.ms))))]
}

// hold keeps n streams on the URL, started evenly over two seconds, and measures them after a warm-up. What is timed is the
// whole stream: every piece passes through.
func hold(url string, n int, window time.Duration) (result, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}}
	defer client.CloseIdleConnections()
	begin := time.Now()
	from := begin.Add(4 * time.Second)
	to := from.Add(window)
	var (
		mu    sync.Mutex
		out   result
		first error
		wg    sync.WaitGroup
	)
	for k := range n {
		wg.Go(func() {
			time.Sleep(time.Duration(k) * 2 * time.Second / time.Duration(n))
			buf := make([]byte, 64<<10)
			for time.Now().Before(to) {
				sent := time.Now()
				err := stream(client, url, buf)
				ended := time.Now()
				mu.Lock()
				if err != nil && first == nil {
					first = err
				}
				if err == nil && ended.After(from) && ended.Before(to) {
					out.ms = append(out.ms, float64(ended.Sub(sent))/1e6)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if first != nil {
		return out, first
	}
	slices.Sort(out.ms)
	out.rate = float64(len(out.ms)) / window.Seconds()
	return out, nil
}

func stream(client *http.Client, url string, buf []byte) error {
	resp, err := client.Post(url, "application/json", strings.NewReader(text))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // quoted as far as it came
		return fmt.Errorf("%s: %s", resp.Status, b)
	}
	_, err = io.CopyBuffer(io.Discard, struct{ io.Reader }{resp.Body}, buf)
	return err
}

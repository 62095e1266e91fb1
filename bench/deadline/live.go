package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"loadline/internal/admission"
	"loadline/internal/audio"
	"loadline/internal/engine/replay"
	"loadline/internal/sample"
	"loadline/internal/serve"
)

// alive holds n listeners on a real server, on loopback and in real time, by each order, beside the simulation of the same.
func alive(d time.Duration, n int, judge func(bool) string) {
	fmt.Printf("live on loopback, %d listeners, %v each:\norder        served   p50 ms   p95 ms   starved   simulated p95 ms   starved\n", n, d)
	for _, o := range []admission.Order{admission.FIFO, admission.Deadline} {
		r, err := listen(o, n, d)
		if err != nil {
			fmt.Println(err, judge(false))
			return
		}
		s := closed(accel, config(o), n, 1, span)
		share := func(r result) float64 { return 100 * float64(r.starved) / float64(max(1, len(r.first))) }
		fmt.Printf("%-9s %9d %8.0f %8.0f %8.2f %% %18.0f %8.2f %%\n", o, len(r.first), ms(quantile(r.first, 0.5)), ms(quantile(r.first, 0.95)), share(r), ms(quantile(s.first, 0.95)), share(s))
		if o == admission.Deadline {
			fmt.Printf("\n%d listeners live by deadline: %s\n", n, judge(len(r.first) > 0 && kept(r)))
		}
	}
}

// listen runs n listeners for d after they have all begun.
func listen(o admission.Order, n int, d time.Duration) (result, error) {
	p, err := replay.Parse(fmt.Appendf(nil, "name: bench\nservice: {base_ms: %v, per_char_ms: %v}\naudio: {per_char_s: %v, sentences: true, first_s: 1.2, second_s: 2.4}\n",
		ms(accel.cost), 1e3*accel.rtf*accel.perChar, accel.perChar))
	if err != nil {
		return result{}, err
	}
	engine, err := replay.New(p, 1)
	if err != nil {
		return result{}, err
	}
	server, err := serve.New(serve.Config{Engine: engine, Order: o, SLO: slo})
	if err != nil {
		return result{}, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	hs := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second}
	var back, front sync.WaitGroup
	back.Go(func() { _ = server.Run(ctx) })
	back.Go(func() { _ = hs.Serve(ln) })
	<-server.Ready()

	var mu sync.Mutex
	var out result
	const settle = 20 * time.Second
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	began := time.Now()
	end := began.Add(settle + d)
	for u := range n {
		front.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(u), 5))
			pause(end, time.Duration(rng.Float64()*float64(settle/2)))
			for time.Now().Before(end) {
				asked := time.Now()
				first, silence, played, err := hear(client, "http://"+ln.Addr().String()+"/invocations", words(rng, accel.perChar))
				mu.Lock()
				if err != nil && out.refused == 0 {
					fmt.Println("live:", err)
				}
				if err != nil {
					out.refused++
				} else if asked.After(began.Add(settle)) && asked.Before(end) {
					out.first = append(out.first, first)
					if silence > patience {
						out.starved++
					}
				}
				mu.Unlock()
				pause(end, played+time.Duration(rng.ExpFloat64()*3e9)-time.Since(asked))
			}
		})
	}
	front.Wait()
	client.CloseIdleConnections()
	_ = hs.Close()
	cancel()
	back.Wait()
	return out, nil
}

func pause(end time.Time, d time.Duration) { time.Sleep(min(d, time.Until(end))) }

// hear asks for a text and reads it as it comes: when the first sound came, how much silence there was in the middle, and
// when it was played to its end, all from the asking.
func hear(client *http.Client, url, text string) (first, silence, played time.Duration, err error) {
	began := time.Now()
	res, err := client.Post(url, "application/json", strings.NewReader(fmt.Sprintf(`{"text": %q, "format": "pcm"}`, text)))
	if err != nil {
		return 0, 0, 0, err
	}
	defer res.Body.Close()
	var m audio.Meter
	m.Start(audio.Sound, res.Header.Get("Content-Type"))
	buf := make([]byte, 64<<10)
	for {
		n, err := res.Body.Read(buf)
		m.Write(sample.Nanos(time.Since(began)), buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, 0, err
		}
	}
	h := m.End()
	if h.Outcome != sample.OK {
		return 0, 0, 0, fmt.Errorf("%s: %s", res.Status, h.Cause)
	}
	first = time.Duration(h.FirstAudio)
	silence = time.Duration(h.Stall * 1e9)
	return first, silence, first + silence + time.Duration(h.Seconds*1e9), nil
}

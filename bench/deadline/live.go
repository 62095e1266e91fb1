package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"loadline/bench/listener"
	"loadline/bench/times"
	"loadline/internal/admission"
	"loadline/internal/engine/replay"
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
		fmt.Printf("%-9s %9d %8.0f %8.0f %8.2f %% %18.0f %8.2f %%\n", o, len(r.first), times.MS(times.Quantile(r.first, 0.5)), times.MS(times.Quantile(r.first, 0.95)), share(r), times.MS(times.Quantile(s.first, 0.95)), share(s))
		if o == admission.Deadline {
			fmt.Printf("\n%d listeners live by deadline: %s\n", n, judge(len(r.first) > 0 && kept(r)))
		}
	}
}

// listen runs n listeners for d after they have all begun.
func listen(o admission.Order, n int, d time.Duration) (result, error) {
	p, err := replay.Parse(fmt.Appendf(nil, "name: bench\nservice: {base_ms: %v, per_char_ms: %v}\naudio: {per_char_s: %v, sentences: true, first_s: 1.2, second_s: 2.4}\n",
		times.MS(accel.cost), 1e3*accel.rtf*accel.perChar, accel.perChar))
	if err != nil {
		return result{}, err
	}
	engine, err := replay.New(p, 1)
	if err != nil {
		return result{}, err
	}
	url, stop, err := listener.Serve(serve.Config{Engine: engine, Order: o, SLO: slo})
	if err != nil {
		return result{}, err
	}
	defer stop()
	const settle = 20 * time.Second
	crowd := listener.Crowd{N: n, Begin: settle / 2, From: settle, Until: settle + d, Think: 3 * time.Second,
		Text: func(r *rand.Rand) string { return words(r, accel.perChar) }}
	heard := crowd.Listen(context.Background(), url)
	if heard.Err != nil {
		fmt.Println("live:", heard.Err)
	}
	return result{first: heard.First, starved: heard.Starved}, nil
}

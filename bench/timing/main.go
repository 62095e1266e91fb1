// Command timing measures how well the stamp of the first audio is taken: against the server's own stamp of the write,
// on 256 streams at once, for plain HTTP and for a SageMaker response stream, beside a bare net/http client of the same
// replies in the same run.
//
//	go run ./bench/timing
//
// The server flushes its headers and a WAV header at once and the first audio after a while, so a client that takes
// either for audio reads tens of milliseconds early. The error is the client's stamp less the server's, taken right before
// its write. The clients take turns, each first in its turn, and are judged by the median over the rounds, of the p99 by that of its ratio to the
// bare client's in the same round: a slow moment of the machine then spoils a round, not the answer.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"loadline/bench/machine"
	"loadline/internal/load"
	"loadline/internal/sample"
	"loadline/internal/transport"
)

// The targets.
const (
	p50Target = 0.25 // ms
	p99Target = 1.25 // of the bare client's
)

func main() {
	streams := flag.Int("streams", 256, "requests in flight")
	each := flag.Int("each", 6, "requests a stream and round")
	rounds := flag.Int("rounds", 9, "rounds")
	flag.Parse()
	ok, err := bench(*streams, *each, *rounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/timing:", err)
		os.Exit(3)
	}
	if !ok {
		os.Exit(1)
	}
}

// A client sends the request of the given number and says when its first audio came.
type client struct {
	name string
	bare int // index of the client that it is judged by, -1 for one that is not judged
	send func(ctx context.Context, id int) (audio time.Duration, err error)

	rounds [][]float64 // errors in ms, sorted, by round
	early  int         // stamped before the audio was written
	failed map[string]int
}

func bench(streams, each, rounds int) (ok bool, err error) {
	debug.SetGCPercent(400) // as the commands do
	srv, err := serve(streams * each * rounds * 4)
	if err != nil {
		return false, err
	}
	defer srv.close()
	clients, closeAll, err := newClients(srv, streams)
	if err != nil {
		return false, err
	}
	defer closeAll()
	fmt.Printf("%s %s/%s, %d processors, %s; server and clients in one process on loopback; GOGC 400\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), machine.Load())
	fmt.Printf("%d streams, %d rounds of %d requests a stream; first audio 50 to 150 ms after the headers, then 4 chunks 20 ms apart\n\n", streams, rounds, each)

	id := 0
	for r := range rounds {
		for k := range clients {
			round(srv, &clients[(r+k)%len(clients)], streams, each, id)
			id += streams * each
		}
	}

	ok = true
	fmt.Printf("%-28s %8s %24s %24s %24s   (median of the rounds, least to most)\n", "error of the first audio", "requests", "p50, ms", "p99, ms", "p99 over the bare one's")
	for i := range clients {
		c := &clients[i]
		p50, p99 := c.quantiles(0.5), c.quantiles(0.99)
		line := fmt.Sprintf("%-28s %8d %24s %24s", c.name, rounds*streams*each, spread(p50), spread(p99))
		if c.bare >= 0 {
			ratio := clients[c.bare].quantiles(0.99)
			for k := range ratio {
				ratio[k] = p99[k] / ratio[k]
			}
			line += fmt.Sprintf(" %24s", spread(ratio))
			ok = verdict(&line, fmt.Sprintf("p50 at most %g ms", p50Target), median(p50) <= p50Target) && ok
			ok = verdict(&line, fmt.Sprintf("p99 at most %g × bare", p99Target), median(ratio) <= p99Target) && ok
		}
		fmt.Println(line)
		if c.early > 0 {
			fmt.Printf("  FAIL: %d stamps before the audio was written\n", c.early)
			ok = false
		}
		for cause, n := range c.failed {
			fmt.Printf("  FAIL: %d requests: %s\n", n, cause)
			ok = false
		}
	}
	fmt.Printf("\nheaders and a WAV header came early %d times and were never read as audio: %v\n", id, !slices.ContainsFunc(clients, func(c client) bool { return c.early > 0 }))
	return ok, nil
}

func verdict(line *string, what string, met bool) bool {
	word := "pass"
	if !met {
		word = "FAIL"
	}
	*line += fmt.Sprintf("  %s: %s", what, word)
	return met
}

// round keeps all streams busy with the client's requests, numbered from first.
func round(srv *server, c *client, streams, each, first int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []float64
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for s := range streams {
		wg.Go(func() {
			for k := range each {
				id := first + s*each + k
				audio, err := c.send(ctx, id)
				late := audio - srv.wrote(id)
				mu.Lock()
				switch {
				case err != nil:
					c.failed[err.Error()]++
				case late < 0:
					c.early++
				default:
					errs = append(errs, float64(late)/1e6)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(errs)
	c.rounds = append(c.rounds, errs)
	runtime.GC() // between rounds, so that none pays for another's garbage
}

// through sends requests by one of Loadline's transports.
func through(t load.Transport, srv *server) func(context.Context, int) (time.Duration, error) {
	clock := func() sample.Nanos { return sample.Since(srv.now()) }
	return func(ctx context.Context, id int) (time.Duration, error) {
		rec := sample.New(id)
		rec.Started = clock()
		t.Do(ctx, load.Call{Text: text(id), Clock: clock}, &rec)
		if rec.Outcome != sample.OK {
			return 0, fmt.Errorf("%s: %s", rec.Outcome, rec.Cause)
		}
		return rec.FirstAudio.Duration(), nil
	}
}

func newClients(srv *server, streams int) (clients []client, closeAll func(), err error) {
	n := transport.Net{Streams: streams}
	plain, err := transport.NewHTTP(transport.HTTPOptions{URL: srv.url + plainPath, Net: n})
	if err != nil {
		return nil, nil, err
	}
	sdk, err := transport.NewSageMaker(srv.config(), transport.SageMakerOptions{Endpoint: endpoint, Net: n})
	if err != nil {
		return nil, nil, err
	}
	bare, closeBare := newBare(srv, streams)
	clients = []client{
		{name: "bare net/http, plain", bare: -1, send: bare(plainPath)},
		{name: "Loadline, plain HTTP", bare: 0, send: through(plain, srv)},
		{name: "bare net/http, event stream", bare: -1, send: bare(streamPath)},
		{name: "Loadline, response stream", bare: 2, send: through(sdk, srv)},
	}
	for i := range clients {
		clients[i].failed = map[string]int{}
	}
	return clients, func() { plain.Close(); sdk.Close(); closeBare() }, nil
}

// quantiles is a quantile of each round.
func (c *client) quantiles(q float64) []float64 {
	out := make([]float64, len(c.rounds))
	for i, r := range c.rounds {
		if out[i] = math.NaN(); len(r) > 0 {
			out[i] = r[int(math.Ceil(q*float64(len(r))))-1]
		}
	}
	return out
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

func spread(v []float64) string {
	return fmt.Sprintf("%.3f (%.3f to %.3f)", median(v), slices.Min(v), slices.Max(v))
}

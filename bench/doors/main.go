// Command doors measures one speech server through every door that leads to it, one after the other, round by round, and
// compares the medians of the first audio: what is measured must be the server, not the way in.
//
//	go run ./bench/doors
//
// The server speaks the first sound of each text after a fixed time. It has its own routes (JSON, OpenAI's, a WebSocket),
// two in the shape of other services (a bare text, server-sent events), and a local SageMaker account before it, whose
// router and second door are in the figures of response-stream, invoke and bidi. All are on loopback, in one process. Doors
// take turns and are held against the first in the same round, so that a slow moment of the machine spoils a round and not
// the answer. It exits 1 where two lie more than 1 ms apart.
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
	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// apart is how far the medians of two doors may lie from each other, ms.
const apart = 1.0

func main() {
	takes := flag.Duration("takes", 25*time.Millisecond, "time to the first sound in the server")
	streams := flag.Int("streams", 2, "requests in flight")
	each := flag.Int("each", 30, "requests a stream and round")
	rounds := flag.Int("rounds", 9, "rounds")
	flag.Parse()
	ok, err := bench(*takes, *streams, *each, *rounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/doors:", err)
		os.Exit(3)
	}
	if !ok {
		os.Exit(1)
	}
}

func bench(takes time.Duration, streams, each, rounds int) (ok bool, err error) {
	debug.SetGCPercent(400) // as the commands do
	h, err := open(takes)
	if err != nil {
		return false, err
	}
	defer h.stop()
	doors, err := h.doors(streams)
	for _, d := range doors {
		defer d.to.Close()
	}
	if err != nil {
		return false, err
	}
	fmt.Printf("%s %s/%s, %d processors, %s; server, account and client in one process on loopback\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), machine.Load())
	fmt.Printf("%d streams, %d rounds of %d requests a stream and door; first audio %v after a text has come\n\n", streams, rounds, each, takes)
	for _, d := range doors {
		d.round(streams, 2) // connections and sessions
		d.medians = nil
	}
	for r := range rounds {
		for k := range doors {
			doors[(r+k)%len(doors)].round(streams, each)
		}
	}
	least, most := math.Inf(1), math.Inf(-1)
	ok = true
	fmt.Printf("%-16s %8s %42s %34s\n", "door", "requests", "median of the first audio, ms", "over "+doors[0].name+" in the same round")
	for _, d := range doors {
		over := make([]float64, len(d.medians))
		for r, m := range d.medians {
			over[r] = m - doors[0].medians[r]
		}
		o := median(over)
		least, most = min(least, o), max(most, o)
		fmt.Printf("%-16s %8d %16.3f (%.3f to %.3f) %14.3f (%.3f to %.3f)\n", d.name, rounds*streams*each, median(d.medians), slices.Min(d.medians), slices.Max(d.medians),
			o, slices.Min(over), slices.Max(over))
		for cause, n := range d.failed {
			fmt.Printf("  FAIL: %d requests: %s\n", n, cause)
			ok = false
		}
	}
	word := "pass"
	if !(most-least <= apart) {
		word, ok = "FAIL", false
	}
	fmt.Printf("\ndoors lie %.3f ms apart; wanted at most %g ms: %s\n", most-least, apart, word)
	return ok, nil
}

// round keeps all streams busy with the door's requests.
func (d *door) round(streams, each int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var first []float64
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	start := time.Now()
	clock := func() sample.Nanos { return sample.Since(time.Since(start)) }
	for range streams {
		wg.Go(func() {
			for range each {
				rec := sample.New(0)
				rec.Started = clock()
				d.to.Do(ctx, load.Call{Text: corpus.Text{Body: "Your table is ready.", Chars: 20}, Clock: clock}, &rec)
				mu.Lock()
				if rec.Outcome == sample.OK {
					first = append(first, float64(rec.FirstAudio-rec.Started)/1e6)
				} else {
					d.failed[fmt.Sprintf("%s: %s", rec.Outcome, rec.Cause)]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(first) == 0 {
		first = []float64{math.NaN()}
	}
	d.medians = append(d.medians, median(first))
	runtime.GC() // between rounds, so that none pays for another's garbage
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// Command rates holds the open-loop ladder against the closed form: what tts-bench rates finds in flight on a local
// endpoint with the kokoro-g5 profile, at 50 to 90 % of what it completes, against M/D/1.
//
//	go run ./bench/rates            # about 10 minutes
//	go run ./bench/rates -hold 60s  # shorter, and less sure
//
// It builds both programs, prints a table and exits 1 when a target is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"loadline/bench/chain"
	"loadline/internal/artifact"
)

const (
	target = 0.10 // of M/D/1's occupancy
	ladder = "internal/artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json"

	// overhead is what the profile adds outside its serial place, in seconds: in flight, but not in the queue.
	overhead = 0.0036 + 0.0007
)

func main() {
	hold := flag.Duration("hold", 2*time.Minute, "how long each rate is measured")
	seed := flag.Int("seed", 1234, "of the arrivals")
	flag.Parse()
	ok, err := run(*hold, *seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/rates:", err)
		os.Exit(3)
	}
	if !ok {
		fmt.Println("FAIL")
		os.Exit(1)
	}
	fmt.Println("PASS")
}

func run(hold time.Duration, seed int) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "loadline-rates-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 8*(hold+3*time.Minute))
	defer cancel()
	if err := chain.Build(ctx, dir); err != nil {
		return false, err
	}
	url, stop, err := chain.Serve(ctx, dir)
	if err != nil {
		return false, err
	}
	defer stop()
	bench := exec.CommandContext(ctx, filepath.Join(dir, "tts-bench"), "rates", "--qmax", ladder, "--allow-config-mismatch",
		"--endpoint-url", url, "--corpus", "clips", "--hold", hold.String(), "--seed", fmt.Sprint(seed), "--yes", "--out", dir, "--json")
	bench.Stderr = os.Stderr
	out, err := bench.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return false, err
	}
	doc, err := artifact.ReadRates(out)
	if err != nil {
		return false, fmt.Errorf("the artifact: %w", err)
	}

	fmt.Printf("in flight of Poisson arrivals against M/D/1: kokoro-g5, each rate held %s after its warm-up, seed %d, %s %s, %d CPUs\n\n",
		hold, seed, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	fmt.Println("  a second   of μ  in flight  adjusted  M/D/1  error   max  10 s max  CW mean/max  p95 ms  valid")
	worst := 0.0
	for _, r := range doc.Rungs {
		want := math.NaN()
		if r.Fixed != nil && r.Adjusted != nil {
			want = *r.Fixed + r.Rate*overhead
		}
		off := math.NaN()
		if r.Adjusted != nil {
			off = *r.Adjusted/want - 1
		}
		if r.Valid {
			worst = math.Max(worst, math.Abs(off))
		}
		cw := "-"
		if r.CW != nil && r.CW.ConcurrencyMean != nil && r.CW.ConcurrencyMax != nil {
			cw = fmt.Sprintf("%.2f/%.0f", *r.CW.ConcurrencyMean, *r.CW.ConcurrencyMax)
		}
		valid := "yes"
		if !r.Valid {
			valid = "no: " + r.Cause
		}
		fmt.Printf("%10.2f %5.1f %% %9.2f %9.2f %6.2f %+5.1f %% %5d %9.1f %12s %7s  %s\n", r.Rate, 100*r.Share, r.Mean, value(r.Adjusted), want, 100*off, r.Max, r.TenMax, cw, figure(r.P95), valid)
	}
	fmt.Printf("\n\"adjusted\" is the mean less what these very arrivals have by chance; M/D/1 is Pollaczek and Khinchine's mean and %.1f ms of overhead a request.\n", 1000*overhead)
	fmt.Printf("worst valid rate %.1f %% (target %.0f %%); %d of %d rates valid\n", 100*worst, 100*target, valids(doc), len(doc.Rungs))
	return worst <= target && valids(doc) == len(doc.Rungs) && len(doc.Rungs) == 5, nil
}

func valids(doc *artifact.Rates) (n int) {
	for _, r := range doc.Rungs {
		if r.Valid {
			n++
		}
	}
	return n
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func figure(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", *v)
}

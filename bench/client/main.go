//go:build linux

// Command client measures what a request costs the client: requests a second on one processor of its own, memory a
// stream, and the processor that many slow streams take; through plain HTTP and through the AWS SDK, beside a bare
// net/http client in the same run.
//
//	go run ./bench/client
//
// The client is a process pinned to processor 0, the server one pinned to processor 1. Rates are judged by what a
// processor of its own would do (requests a processor-second), because other work on the machine takes time from the
// clock but not from that figure; both are printed.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"loadline/bench/child"
)

// The loads, and how long they are held.
const (
	small        = 64
	smallWarm    = time.Second
	smallWindow  = 3 * time.Second
	streams      = 4000
	streamWarm   = 5 * time.Second
	streamWindow = 6 * time.Second
)

func main() {
	as := flag.String("as", "", "what this process is: empty for the bench, server, or a client's role")
	port := flag.String("port", "", "of the server")
	reps := flag.Int("reps", 3, "repetitions")
	only := flag.String("only", "", "a role to run alone")
	flag.Parse()
	var err error
	ok := true
	switch *as {
	case "":
		ok, err = bench(*reps, *only)
	case "server":
		err = serve()
	default:
		err = drive(*as, *port)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/client:", err)
		os.Exit(3)
	}
	if !ok {
		os.Exit(1)
	}
}

// A row is one figure and its target.
type row struct {
	name, unit string
	target     float64
	least      bool // the target is a least, not a most
	value      func(result) float64
}

var roles = []struct {
	name, what string
	rows       []row
}{
	{"bare", "bare net/http client, small requests", []row{{"requests a processor-second", "/s", 0, true, perCPU}, {"requests a second", "/s", 0, true, perSecond}}},
	{"http-small", "plain HTTP, small requests", []row{{"requests a processor-second", "/s", 40000, true, perCPU}, {"requests a second", "/s", 0, true, perSecond}}},
	{"http-stream", "plain HTTP, 4,000 streams × 10 chunks/s", streamRows(45, 0.6)},
	{"sdk-small", "AWS SDK, small requests", []row{{"requests a processor-second", "/s", 7000, true, perCPU}, {"requests a second", "/s", 0, true, perSecond}}},
	{"sdk-stream", "AWS SDK, 4,000 streams × 10 chunks/s", streamRows(85, 1.2)},
}

func streamRows(kb, cores float64) []row {
	return []row{
		{"processors in use", "", cores, false, func(r result) float64 { return r.CPU }},
		{"resident memory a stream", "KB", kb, false, func(r result) float64 { return r.PerStream / 1000 }},
		{"of it in use", "KB", 0, false, func(r result) float64 { return r.Live / 1000 }},
		{"chunks a second", "/s", 39000, true, perSecond},
	}
}

func perSecond(r result) float64 { return r.PerSecond }
func perCPU(r result) float64    { return r.PerSecond / max(r.CPU, 1e-9) }

func bench(reps int, only string) (ok bool, err error) {
	if runtime.NumCPU() < 2 {
		return false, fmt.Errorf("wants two processors: one for the client, one for the server")
	}
	fmt.Printf("%s %s/%s, %d processors; client pinned to 0, server to 1; %d repetitions; GOGC 400\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), reps)
	results := map[string][]result{}
	for range reps { // round by round, so that a slow minute of the machine falls on every role
		for _, role := range roles {
			if only != "" && role.name != only {
				continue
			}
			r, err := once(role.name)
			if err != nil {
				return false, fmt.Errorf("%s: %w", role.name, err)
			}
			results[role.name] = append(results[role.name], r)
		}
	}
	ok = true
	for _, role := range roles {
		got := results[role.name]
		if got == nil {
			continue
		}
		fmt.Printf("\n%s\n", role.what)
		for _, row := range role.rows {
			v := make([]float64, len(got))
			for i, r := range got {
				v[i] = row.value(r)
			}
			slices.Sort(v)
			mid := v[len(v)/2]
			verdict := ""
			if row.target > 0 {
				met, bound := mid <= row.target, "at most"
				if row.least {
					met, bound = mid >= row.target, "at least"
				}
				verdict = fmt.Sprintf("  %s %.4g: pass", bound, row.target)
				if !met {
					verdict, ok = strings.Replace(verdict, "pass", "FAIL", 1), false
				}
			}
			fmt.Printf("  %-30s %9.4g %-3s (%.4g to %.4g)%s\n", row.name, mid, row.unit, v[0], v[len(v)-1], verdict)
		}
		for _, r := range got {
			for cause, n := range r.Bad {
				fmt.Printf("  %d requests failed: %s\n", n, cause)
				ok = false
			}
		}
		if c := got[len(got)-1].Client; c.CanaryN > 0 {
			fmt.Printf("  of itself: canary p99 %.2f ms (%d), lateness p99 %.3f ms, scheduler p99 %.2f ms, processor %.0f %%, pressure %.0f %%, %d collections' pauses at most %.2f ms\n",
				c.CanaryP99*1e3, c.CanaryN, c.LatenessP99*1e3, c.SchedP99*1e3, c.CPU*100, c.PSI*100, c.GCPauses, c.GCPauseMax*1e3)
		}
	}
	if bare, ours := results["bare"], results["http-small"]; bare != nil && ours != nil {
		var ratios []float64
		for i := range min(len(bare), len(ours)) {
			ratios = append(ratios, perCPU(ours[i])/perCPU(bare[i]))
		}
		slices.Sort(ratios)
		fmt.Printf("\nplain HTTP against the bare client in the same round: %.2f (%.2f to %.2f)\n", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	}
	return ok, nil
}

// once runs one role against a server of its own.
func once(role string) (r result, err error) {
	port, stop, err := child.Server(1, "-as", "server")
	if err != nil {
		return r, err
	}
	defer stop()
	return r, child.Run(0, &r, "-as", role, "-port", port)
}

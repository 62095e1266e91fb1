//go:build linux

// Command peers holds load generators that people know against this project's: vegeta and fortio (built from their modules, in
// a folder that is thrown away), and wrk, hey, ab, siege and h2load of Debian, as far as they are installed. One mock server for
// all; every figure is read outside of the tool that it is of: requests and their times at the server, processor time and
// memory from the kernel.
//
//	go run ./bench/peers
//
// The tools run on processor 0, one at a time, and the mock on processor 1. Requests a processor-second are of small requests from
// 64 connections; memory a stream is what 500 slow streams take more than one does; lateness is how far the requests of an even
// rate are from even, at the server: of this project's, whose arrivals are not even, how late it sent by its own record. "none" is
// a tool that has no rate.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"loadline/bench/child"
)

const (
	conns   = 64
	streams = 500
	rate    = 400 // a second
	hold    = 5   // seconds
)

// tool is one load generator: how it is asked for small requests, for streams, and for an even rate.
type tool struct {
	name, from string
	small      func(url string) []string
	stream     func(url string, n int) []string
	even       func(url string) []string // nil: it has no rate
}

func words(format string, args ...any) []string { return strings.Fields(fmt.Sprintf(format, args...)) }

// tools are the peers; what is not installed is said and left out.
var tools = []tool{
	{"vegeta", "v12.13.0",
		func(u string) []string {
			return words("vegeta attack -rate 0 -max-workers %d -duration %ds -output /dev/null", conns, hold)
		},
		func(u string, n int) []string {
			return words("vegeta attack -rate 0 -max-workers %d -workers %d -duration %ds -output /dev/null", n, n, hold)
		},
		func(u string) []string {
			return words("vegeta attack -rate %d -duration %ds -output /dev/null", rate, hold)
		}},
	{"fortio", "v1.63.0",
		func(u string) []string { return words("fortio load -quiet -qps 0 -c %d -t %ds %s", conns, hold, u) },
		func(u string, n int) []string { return words("fortio load -quiet -qps 0 -c %d -t %ds %s", n, hold, u) },
		func(u string) []string {
			return words("fortio load -quiet -uniform -qps %d -c 16 -t %ds %s", rate, hold, u)
		}},
	{"wrk", "apt: wrk",
		func(u string) []string { return words("wrk -t1 -c%d -d%ds %s", conns, hold, u) },
		func(u string, n int) []string { return words("wrk -t1 -c%d -d%ds --timeout 10s %s", n, hold, u) }, nil},
	{"hey", "apt: hey",
		func(u string) []string { return words("hey -c %d -z %ds %s", conns, hold, u) },
		func(u string, n int) []string { return words("hey -c %d -z %ds %s", n, hold, u) },
		func(u string) []string { return words("hey -c 1 -q %d -z %ds %s", rate, hold, u) }},
	{"ab", "apt: apache2-utils",
		func(u string) []string { return words("ab -q -k -c %d -t %d -n 10000000 %s", conns, hold, u) },
		func(u string, n int) []string { return words("ab -q -k -c %d -t %d -n 1000000 %s", n, hold, u) }, nil},
	{"siege", "apt: siege",
		func(u string) []string { return words("siege -q -b -c%d -t%dS %s", conns, hold, u) },
		func(u string, n int) []string { return words("siege -q -b -c%d -t%dS %s", n, hold, u) }, nil},
	{"h2load", "apt: nghttp2-client",
		func(u string) []string { return words("h2load --h1 -t1 -c%d -D%d %s", conns, hold, u) },
		func(u string, n int) []string { return words("h2load --h1 -t1 -c%d -D%d %s", n, hold, u) }, nil},
}

func main() {
	as := flag.String("as", "", "what this process is: empty for the bench, or mock")
	only := flag.String("only", "", "a tool to run alone")
	rounds := flag.Int("rounds", 3, "repetitions, the tools in turn")
	flag.Parse()
	var err error
	if *as == "mock" {
		err = mock()
	} else {
		err = bench(*only, *rounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/peers:", err)
		os.Exit(3)
	}
}

// seen is what the mock saw since it was last asked.
type seen struct {
	Requests int
	Most     int       // in flight at once
	At       []float64 // arrivals, seconds
}

// mock answers /small at once with 256 bytes, /stream with 10 pieces of 320 bytes a second for two seconds, and /seen with
// what it has seen, which it then forgets.
func mock() error {
	var mu sync.Mutex
	var now seen
	flying, began := 0, time.Now()
	track := func(d int) {
		mu.Lock()
		defer mu.Unlock()
		if flying += d; d > 0 {
			now.Requests++
			now.Most = max(now.Most, flying)
			now.At = append(now.At, time.Since(began).Seconds())
		}
	}
	body, piece := []byte(strings.Repeat("x", 256)), []byte(strings.Repeat("x", 320))
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(w http.ResponseWriter, r *http.Request) {
		track(1)
		defer track(-1)
		_, _ = w.Write(body) // who has gone is not told
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		track(1)
		defer track(-1)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 20 {
			if _, err := w.Write(piece); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("/seen", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(now)
		now = seen{}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: mux}
	go func() { // the bench closes the pipe when it is done
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = srv.Close()
	}()
	fmt.Println("http://" + l.Addr().String())
	if err := srv.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// spent is what one run of a tool took, and what the mock saw of it.
type spent struct {
	seen
	cpu  float64 // seconds
	most int64   // bytes of memory
}

// run runs a tool on processor 0.
func run(dir, url string, argv []string, target string) (spent, error) {
	if _, err := ask(url); err != nil { // forget what came before
		return spent{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	program := argv[0]
	if built := filepath.Join(dir, program); exists(built) {
		program = built
	}
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", "0", program}, argv[1:]...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if argv[0] == "vegeta" {
		cmd.Stdin = strings.NewReader("GET " + target + "\n")
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return spent{}, fmt.Errorf("%s: %w", argv[0], err)
	}
	over, most := make(chan struct{}), make(chan int64, 1)
	go func() { most <- watch(cmd.Process.Pid, over) }()
	err := cmd.Wait() // some exit with an error because their time was up
	close(over)
	s := spent{most: <-most}
	if ctx.Err() != nil {
		return spent{}, fmt.Errorf("%s did not end: %w\n%s", argv[0], err, said.String())
	}
	if s.seen, err = ask(url); err != nil {
		return spent{}, err
	}
	if s.Requests == 0 {
		return spent{}, fmt.Errorf("%s sent nothing: %s", argv[0], said.String())
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	s.cpu = time.Duration(use.Utime.Nano() + use.Stime.Nano()).Seconds()
	return s, nil
}

// watch is the most memory that a process has had until it is over, in bytes. The figure that the kernel gives of a process that
// has ended is no less than what its parent had when it was started, which is more than small tools take.
func watch(pid int, over <-chan struct{}) (most int64) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return most
		case <-tick.C:
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has just ended
		}
		var kb int64
		if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &kb)
		}
		most = max(most, kb*1024)
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func ask(url string) (s seen, err error) {
	reply, err := http.Get(url + "/seen")
	if err != nil {
		return s, err
	}
	defer reply.Body.Close()
	return s, json.NewDecoder(reply.Body).Decode(&s)
}

// uneven is how far arrivals are from even, the 99th percentile in seconds, after the first tenth: each against the even
// schedule that none of them is ahead of.
func uneven(at []float64) float64 {
	at = slices.Sorted(slices.Values(at))
	at = at[len(at)/10:]
	late := make([]float64, len(at))
	first := math.Inf(1)
	for i, t := range at {
		late[i] = t - float64(i)/rate
		first = min(first, late[i])
	}
	slices.Sort(late)
	return late[len(late)*99/100] - first
}

func bench(only string, rounds int) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	dir, err := os.MkdirTemp("", "loadline-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	build := func(module string, packages ...string) error {
		cmd := exec.Command("go", append([]string{"build", "-o", dir + "/"}, packages...)...)
		cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), module)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %v: %w\n%s", packages, err, out)
		}
		return nil
	}
	if err := build(".", "./cmd/tts-bench"); err != nil {
		return err
	}
	if err := build("bench/peers/peers", "github.com/tsenart/vegeta/v12", "fortio.org/fortio"); err != nil {
		fmt.Printf("vegeta and fortio are left out: %v\n", err)
	}
	_ = os.Rename(filepath.Join(dir, "v12"), filepath.Join(dir, "vegeta")) // named by their module's last word
	url, stop, err := child.Server(min(1, runtime.NumCPU()-1), "-as", "mock")
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%s %s, %d CPUs, %s; tool on processor 0, mock on processor 1; %d s each, %d repetitions in turn; median (least to most)\n\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), hold, rounds)
	all := append([]tool{{name: "tts-bench", from: "this"}}, tools...)
	got := make(map[string][]figures)
	failed := make(map[string]error)
	for round := range rounds {
		for _, t := range all {
			if only != "" && only != t.name || failed[t.name] != nil {
				continue
			}
			var f figures
			switch _, err := exec.LookPath(t.name); {
			case t.name == "tts-bench":
				if f, err = ours(dir, url, round); err != nil {
					return err
				}
			case err != nil && !exists(filepath.Join(dir, t.name)):
				failed[t.name] = fmt.Errorf("it is not installed (%s)", t.from)
				continue
			default:
				if f, err = one(dir, url, t); err != nil {
					failed[t.name] = err
					continue
				}
			}
			got[t.name] = append(got[t.name], f)
		}
	}
	fmt.Printf("%-10s %-20s %24s %22s %12s %24s\n", "tool", "version", "requests a CPU-s", "memory a stream, KB", "held of 500", "late p99, ms")
	for _, t := range all {
		if err := failed[t.name]; err != nil {
			fmt.Printf("%-10s is left out: %v\n", t.name, err)
		} else if f := got[t.name]; len(f) > 0 {
			late := spread(f, "%.1f", func(f figures) float64 { return f.late })
			if t.even == nil && t.name != "tts-bench" {
				late = "none"
			}
			fmt.Printf("%-10s %-20s %24s %22s %12s %24s\n", t.name, t.from, spread(f, "%.0f", func(f figures) float64 { return f.each }),
				spread(f, "%.1f", func(f figures) float64 { return f.memory }), spread(f, "%.0f", func(f figures) float64 { return f.held }), late)
		}
	}
	return nil
}

// figures are one repetition's of one tool.
type figures struct {
	each   float64 // small requests a processor-second
	memory float64 // KB a stream
	held   float64 // streams at once
	late   float64 // ms; infinite where less than 0.9 of the rate was sent
}

func figure(small, single, many spent) figures {
	return figures{float64(small.Requests) / small.cpu, float64(many.most-single.most) / 1024 / (streams - 1), float64(many.Most), 0}
}

// spread is the median of a figure, and its least and most.
func spread(all []figures, format string, of func(figures) float64) string {
	v := make([]float64, len(all))
	for i, f := range all {
		v[i] = of(f)
	}
	slices.Sort(v)
	least, median, most := fmt.Sprintf(format, v[0]), fmt.Sprintf(format, v[(len(v)-1)/2]), fmt.Sprintf(format, v[len(v)-1])
	if least == most {
		return median
	}
	return fmt.Sprintf("%s (%s to %s)", median, least, most)
}

func one(dir, url string, t tool) (figures, error) {
	small, err := run(dir, url, t.small(url+"/small"), url+"/small")
	if err != nil {
		return figures{}, err
	}
	single, err := run(dir, url, t.stream(url+"/stream", 1), url+"/stream")
	if err != nil {
		return figures{}, err
	}
	many, err := run(dir, url, t.stream(url+"/stream", streams), url+"/stream")
	if err != nil {
		return figures{}, err
	}
	f := figure(small, single, many)
	if t.even != nil {
		even, err := run(dir, url, t.even(url+"/small"), url+"/small")
		if err != nil {
			return figures{}, err
		}
		f.late = 1000 * uneven(even.At)
		if float64(even.Requests)/hold < 0.9*rate {
			f.late = math.Inf(1)
		}
	}
	return f, nil
}

// ours is this project's: tts-bench qmax on a fixed schedule, and rates.
func ours(dir, url string, round int) (figures, error) {
	records := filepath.Join(dir, fmt.Sprint(round))
	ask := func(path, steps, out string) []string {
		return words("tts-bench qmax --url %s --body raw --payload bytes --slo-on total --slo-ms 20000 --name mock --concurrency %s --hold %ds --measure-window %ds --idle 0s --out %s",
			url+path, steps, hold, hold-1, filepath.Join(records, out))
	}
	held := func(path string, n int) []string {
		return ask(path, fmt.Sprint(n), fmt.Sprintf("out%s-%d", path, n))
	}
	if _, err := run(dir, url, ask("/small", fmt.Sprintf("1,%d", conns), "ladder"), ""); err != nil { // rates goes by one
		return figures{}, err
	}
	small, err := run(dir, url, held("/small", conns), "")
	if err != nil {
		return figures{}, err
	}
	single, err := run(dir, url, held("/stream", 1), "")
	if err != nil {
		return figures{}, err
	}
	many, err := run(dir, url, held("/stream", streams), "")
	if err != nil {
		return figures{}, err
	}
	ladder, err := filepath.Glob(filepath.Join(records, "ladder", "qmax-*.json"))
	if err != nil || len(ladder) != 1 {
		return figures{}, fmt.Errorf("tts-bench left %d ladders (%v)", len(ladder), err)
	}
	var doc struct {
		Rungs []struct {
			X float64 `json:"x_rps"`
		}
	}
	if err := decode(ladder[0], &doc); err != nil || len(doc.Rungs) == 0 {
		return figures{}, fmt.Errorf("%s has %d rungs (%v)", ladder[0], len(doc.Rungs), err)
	}
	if _, err := run(dir, url, words("tts-bench rates --qmax %s --url %s --body raw --payload bytes --shares %.4f --hold %ds --out %s", ladder[0], url+"/small",
		rate/doc.Rungs[len(doc.Rungs)-1].X, hold, filepath.Join(records, "rates")), ""); err != nil {
		return figures{}, err
	}
	sent, err := filepath.Glob(filepath.Join(records, "rates", "rates-*.json"))
	if err != nil || len(sent) != 1 {
		return figures{}, fmt.Errorf("tts-bench left %d open-loop ladders (%v)", len(sent), err)
	}
	var open struct {
		Rungs []struct {
			Client struct {
				Lateness float64 `json:"lateness_p99_s"`
			}
		}
	}
	if err := decode(sent[0], &open); err != nil || len(open.Rungs) == 0 {
		return figures{}, fmt.Errorf("%s has %d rungs (%v)", sent[0], len(open.Rungs), err)
	}
	f := figure(small, single, many)
	f.late = 1000 * open.Rungs[0].Client.Lateness
	return f, nil
}

func decode(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

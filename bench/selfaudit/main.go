//go:build linux

// Command selfaudit breaks the client on purpose, in every way that is known to fool load tests, and looks whether the
// rung says so; and it measures with nothing broken, where no rung may say anything.
//
//	go run ./bench/selfaudit
//
// Each run is a process of its own against a server process, over loopback, judged by the code that judges a measurement.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"loadline/bench/child"
	"loadline/internal/ladder"
)

func main() {
	var o options
	flag.StringVar(&o.as, "as", "", "what this process is: empty for the audit, server, busy, or the index of a fault, -1 for none")
	flag.StringVar(&o.port, "port", "", "of the server")
	flag.IntVar(&o.streams, "streams", 0, "HTTP/2 streams that the server allows a connection")
	flag.DurationVar(&o.hold, "hold", 4*time.Second, "how long each rung is held")
	flag.IntVar(&o.reps, "reps", 3, "runs of each fault")
	flag.IntVar(&o.clean, "clean", 50, "runs with nothing wrong")
	flag.Parse()
	ok, err := o.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/selfaudit:", err)
		os.Exit(3)
	}
	if !ok {
		os.Exit(1)
	}
}

type options struct {
	as, port    string
	streams     int
	hold        time.Duration
	reps, clean int
}

func (o options) run() (ok bool, err error) {
	switch o.as {
	case "":
		return o.audit()
	case "server":
		return true, serve(o.streams)
	case "busy":
		busy()
		return true, nil
	}
	i, err := strconv.Atoi(o.as)
	if err != nil || i < -1 || i >= len(faults) {
		return false, fmt.Errorf("-as %q: want server, busy or -1 to %d", o.as, len(faults)-1)
	}
	r, err := pick(i).rung(o.port, o.hold)
	if err != nil {
		return false, err
	}
	return true, json.NewEncoder(os.Stdout).Encode(r)
}

func pick(i int) fault {
	if i < 0 {
		return clean
	}
	return faults[i]
}

func (o options) audit() (ok bool, err error) {
	fmt.Printf("%s %s/%s, %d processors; rungs of %v, SLO %v; %d runs of each fault, %d with nothing wrong\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), o.hold, slo, o.reps, o.clean)
	ok = true
	for i, f := range faults {
		caught, last := 0, ""
		for range o.reps {
			r, err := once(i, o.hold)
			if err != nil {
				return false, fmt.Errorf("%s: %w", f.name, err)
			}
			last = r.Cause
			if f.found(r) {
				caught++
			}
		}
		verdict := "pass"
		if caught < o.reps {
			verdict, ok = "FAIL", false
		}
		fmt.Printf("%s: %d of %d invalid with the cause named: %s\n    %s\n", f.name, caught, o.reps, verdict, last)
	}
	alarms := 0
	for range o.clean {
		r, err := once(-1, o.hold)
		if err != nil {
			return false, err
		}
		if !r.Valid {
			alarms++
			fmt.Printf("    false alarm: %s\n", r.Cause)
		}
	}
	verdict := "pass"
	if alarms > 0 {
		verdict, ok = "FAIL", false
	}
	fmt.Printf("%s: %d false alarms in %d runs, at most 0: %s\n", clean.name, alarms, o.clean, verdict)
	return ok, nil
}

// found says whether the rung is invalid and names the fault.
func (f fault) found(r ladder.Rung) bool {
	for _, s := range f.says {
		if !strings.Contains(r.Cause, s) {
			return false
		}
	}
	return !r.Valid
}

// once runs one fault, -1 for none, in processes of its own.
func once(i int, hold time.Duration) (r ladder.Rung, err error) {
	f := pick(i)
	port, stop, err := child.Server(child.Anywhere, "-as", "server", "-streams", strconv.Itoa(f.streams))
	if err != nil {
		return r, err
	}
	defer stop()
	cpu := child.Anywhere
	if f.alone {
		cpu = 0
	}
	return r, child.Run(cpu, &r, "-as", strconv.Itoa(i), "-port", port, "-hold", hold.String())
}

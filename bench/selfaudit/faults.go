//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"loadline/internal/corpus"
	"loadline/internal/ladder"
	"loadline/internal/load"
	"loadline/internal/sample"
	"loadline/internal/transport"
)

const slo = 300 * time.Millisecond

// fault is something wrong with the client, and what the rung must say of it.
type fault struct {
	name    string
	n       int // requests held
	service time.Duration
	net     transport.Net
	streams int           // HTTP/2 streams that the server allows a connection, 0: its default
	alone   bool          // the client has one processor only, 0
	spoil   func() func() // makes it wrong; what it returns puts it right
	says    []string      // all of these are in the cause
}

var faults = []fault{
	{name: "goroutines that never rest, on the one processor", n: 32, service: 50 * time.Millisecond, alone: true, spoil: spin,
		says: []string{"client-bound", "processor"}},
	{name: "processes that never rest, on the one processor", n: 64, service: time.Millisecond, alone: true, spoil: compete,
		says: []string{"client-bound", "compete"}},
	{name: "10 connections for 50 streams", n: 50, service: 100 * time.Millisecond, net: transport.Net{MaxConns: 10},
		says: []string{"client-bound", "connection"}},
	{name: "one HTTP/2 connection of 10 streams for 50", n: 50, service: 100 * time.Millisecond, streams: 10,
		net: transport.Net{MaxConns: 1, Version: transport.H2C}, says: []string{"client-bound", "connection"}},
	{name: "a garbage collection that never ends", n: 32, service: 50 * time.Millisecond, alone: true, spoil: litter,
		says: []string{"client-bound"}},
	{name: "30 descriptors for 50 streams", n: 50, service: 100 * time.Millisecond, spoil: starve,
		says: []string{"client fault", "too many open files"}},
}

// clean is a client with nothing wrong.
var clean = fault{name: "nothing wrong", n: 32, service: 50 * time.Millisecond}

// rung holds the fault's load for a time and judges it as a measurement would.
func (f fault) rung(port string, hold time.Duration) (ladder.Rung, error) {
	debug.SetGCPercent(400) // as the commands do
	f.net.Streams = f.n
	t, err := transport.NewHTTP(transport.HTTPOptions{Net: f.net,
		URL: fmt.Sprintf("http://127.0.0.1:%s/speak?ms=%d", port, f.service.Milliseconds())})
	if err != nil {
		return ladder.Rung{}, err
	}
	defer t.Close()
	judge, err := ladder.NewSchedule(ladder.Config{SLO: slo}, ladder.Steps{Concurrency: []int{f.n}, Hold: hold, Window: hold * 3 / 4})
	if err != nil {
		return ladder.Rung{}, err
	}
	probe, ok := judge.Next()
	if !ok {
		return ladder.Rung{}, errors.New("the schedule asks for nothing")
	}
	start := time.Now()
	loop := load.NewClosed(load.Config{Transport: t, Deadline: 10 * time.Second, Start: start,
		Texts: func(int) corpus.Text { return corpus.Text{Body: "Good morning.", Chars: 13} }})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	// One request first: the canary is up and the code is warm before anything breaks.
	if _, err := loop.Hold(ctx, probe.Index, 1, func(sample.Request) bool { return true }); err != nil {
		return ladder.Rung{}, err
	}
	if f.spoil != nil {
		defer f.spoil()()
	}
	began := sample.Since(time.Since(start))
	held, done := context.WithTimeout(ctx, hold)
	defer done()
	client, err := loop.Hold(held, probe.Index, probe.N, judge.Add)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return ladder.Rung{}, err
	}
	r := judge.Close(ladder.Evidence{Client: client, Began: began, Ended: sample.Since(time.Since(start))})
	r.Client = &client
	return r, nil
}

// spin keeps the processor busy within this process.
func spin() func() {
	stop := make(chan struct{})
	for range 4 {
		go func() {
			for x := 1; ; x++ {
				if x%(1<<20) == 0 {
					select {
					case <-stop:
						return
					default:
					}
				}
			}
		}()
	}
	return func() { close(stop) }
}

// compete keeps it busy from other processes, which are on the same processor because they inherit where this one runs.
func compete() func() {
	self, _ := os.Executable()
	var all []*exec.Cmd
	for range 4 {
		c := exec.Command(self, "-as", "busy")
		c.Stdin, _ = os.Open(os.DevNull)
		if c.Start() == nil {
			all = append(all, c)
		}
	}
	return func() {
		for _, c := range all {
			c.Process.Kill()
			c.Wait()
		}
	}
}

// busy is such a process; it ends by itself should nobody end it.
func busy() {
	runtime.GOMAXPROCS(1)
	for start := time.Now(); time.Since(start) < time.Minute; {
	}
}

// litter allocates without end beside a large heap of pointers, with the collector set to run all the time.
func litter() func() {
	type node struct {
		next *node
		pad  [4]*node
	}
	var live *node
	for range 3_000_000 {
		live = &node{next: live}
	}
	was := debug.SetGCPercent(5)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		at := live
		for {
			select {
			case <-stop:
				return
			default:
			}
			for range 1000 { // each node in its turn is replaced
				at.next = &node{next: at.next.next}
				if at = at.next; at.next == nil || at.next.next == nil {
					at = live
				}
			}
		}
	}()
	return func() { close(stop); <-ended; debug.SetGCPercent(was); runtime.KeepAlive(live) }
}

// starve allows this process 30 descriptors.
func starve() func() {
	var was unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &was)
	unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 30, Max: was.Max})
	return func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &was) }
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"loadline/internal/engine/replay"
	"loadline/internal/local"
	"loadline/internal/serve"
)

// starter starts instances that play the profile: package serve's container on a port of its own. Those that are added
// take ready from their start until they are healthy, the first of it until their container starts.
func starter(p replay.Profile, ready time.Duration) local.Starter {
	return func(_ context.Context, s local.Spec) (local.Instance, error) {
		engine, err := replay.New(p, s.Seed)
		if err != nil {
			return nil, err
		}
		cfg := serve.Config{Engine: engine, SLO: p.SLO(), Instance: s.ID, Log: s.Output}
		if err := cfg.FromEnv(s.Model.Env); err != nil {
			return nil, err
		}
		var pull time.Duration
		if of := p.Startup.Ready(); !s.AtOnce && of > 0 {
			pull = time.Duration(float64(ready) * p.Startup.Container / of)
			cfg.Engine = &slow{Engine: engine, shares: p.Startup, total: ready - pull, rng: rand.New(rand.NewPCG(s.Seed, 0x510))}
			if pull > 0 && s.Output != nil {
				fmt.Fprintln(s.Output, "starting the container")
			}
		}
		cfg.Started = time.Now().Add(pull)
		server, err := serve.New(cfg)
		if err != nil {
			return nil, err
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		i := &instance{profile: p, began: time.Now(), server: server, addr: ln.Addr().String(),
			http: &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}}
		ctx, stop := context.WithCancel(context.Background())
		i.stop = stop
		i.work.Go(func() {
			if wait(ctx, pull) == nil {
				i.ran = server.Run(ctx)
			}
		})
		i.work.Go(func() { _ = i.http.Serve(ln) }) // it ends when Stop closes it
		return i, nil
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// slow is an engine that takes its time to load and to warm up, all of total, in the profile's proportions. What the
// server speaks to warm up is part of that time.
type slow struct {
	serve.Engine
	shares replay.Startup
	total  time.Duration
	rng    *rand.Rand
	warm   time.Time // not before; set by Load
	warmed atomic.Bool
}

func (s *slow) Load(ctx context.Context, mark func(string)) error {
	if err := s.Engine.Load(ctx, func(string) {}); err != nil {
		return err
	}
	sum := s.shares.Framework + s.shares.Weights + s.shares.Warmup
	takes := func(share float64) time.Duration {
		sigma := math.Sqrt(math.Log1p(s.shares.Spread * s.shares.Spread))
		spread := math.Exp(sigma*s.rng.NormFloat64() - sigma*sigma/2) // log-normal, of mean 1
		if sum <= 0 {
			return 0
		}
		return time.Duration(float64(s.total) * share / sum * spread)
	}
	for _, stage := range []struct {
		share float64
		done  []string
	}{
		{s.shares.Framework, []string{serve.StageFramework}},
		{s.shares.Weights, []string{serve.StageFetched, serve.StageWeights}},
	} {
		if err := wait(ctx, takes(stage.share)); err != nil {
			return err
		}
		for _, name := range stage.done {
			mark(name)
		}
	}
	s.warm = time.Now().Add(takes(s.shares.Warmup))
	return nil
}

func (s *slow) Prepare(ctx context.Context, r serve.Request) (serve.Utterance, error) {
	u, err := s.Engine.Prepare(ctx, r)
	if err != nil || s.warmed.Swap(true) {
		return u, err
	}
	return warming{u, s.warm}, nil
}

// warming is the first utterance: it ends when the warm-up does.
type warming struct {
	serve.Utterance
	until time.Time
}

func (w warming) Next(ctx context.Context, since time.Time) ([][]byte, error) {
	sound, err := w.Utterance.Next(ctx, since)
	if err == nil && w.Size() == 0 {
		err = wait(ctx, time.Until(w.until))
	}
	return sound, err
}

// instance is one server in this process.
type instance struct {
	profile replay.Profile
	began   time.Time
	server  *serve.Server
	http    *http.Server
	addr    string
	stop    context.CancelFunc
	work    sync.WaitGroup
	ran     error // how the server's Run ended
}

// Addr is where it listens.
func (i *instance) Addr() string { return i.addr }

// Usage follows from how long its places were taken, by the profile's figures for idle and busy.
func (i *instance) Usage() local.Usage {
	p, alive := i.profile.Instance, time.Since(i.began).Seconds()
	busy := i.server.Busy().Seconds() / float64(i.profile.Service.Places)
	used := func(idle, full float64) float64 { return (alive*idle + busy*(full-idle)) / 100 }
	return local.Usage{CPU: used(p.CPUIdle, p.CPUBusy), GPU: used(p.GPUIdle, p.GPUBusy), Memory: p.Memory, GPUMemory: p.GPUMemory}
}

// Stop lets what is inside end until ctx does, and returns when nothing is left.
func (i *instance) Stop(ctx context.Context) error {
	err := i.server.Drain(ctx)
	// Every request has been answered; its connection may have the last bytes still to send.
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if i.http.Shutdown(soon) != nil {
		_ = i.http.Close() // what it closes is not used any more
	}
	i.stop()
	i.work.Wait()
	return errors.Join(err, i.ran)
}

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
	"time"

	"loadline/internal/engine/replay"
	"loadline/internal/local"
	"loadline/internal/serve"
)

// starter starts instances that play the profile: package serve's container on a port of its own. Those that are added
// take ready from their start until they are healthy.
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
		if !s.AtOnce {
			cfg.Engine = slow{engine, p.Startup, ready, rand.New(rand.NewPCG(s.Seed, 0x510))}
		}
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
		i.work.Go(func() { i.ran = server.Run(ctx) })
		i.work.Go(func() { _ = i.http.Serve(ln) }) // it ends when Stop closes it
		return i, nil
	}
}

// slow is an engine that takes its time to load, all of total, in the profile's proportions.
type slow struct {
	serve.Engine
	shares replay.Startup
	total  time.Duration
	rng    *rand.Rand
}

func (s slow) Load(ctx context.Context, mark func(string)) error {
	if err := s.Engine.Load(ctx, func(string) {}); err != nil {
		return err
	}
	sum := s.shares.Framework + s.shares.Weights + s.shares.Warmup
	for _, stage := range []struct {
		share float64
		done  []string
	}{
		{s.shares.Framework, []string{serve.StageFramework}},
		{s.shares.Weights, []string{serve.StageFetched, serve.StageWeights}},
		{s.shares.Warmup, nil},
	} {
		sigma := math.Sqrt(math.Log1p(s.shares.Spread * s.shares.Spread))
		spread := math.Exp(sigma*s.rng.NormFloat64() - sigma*sigma/2) // log-normal, of mean 1
		if sum > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(float64(s.total) * stage.share / sum * spread)):
			}
		}
		for _, name := range stage.done {
			mark(name)
		}
	}
	return nil
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

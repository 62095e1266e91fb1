// Package container runs replayed servers as the instances of a local account, in the bench's own process:
//
//	account, err := local.New(local.Config{
//		Start: func(_ context.Context, s local.Spec) (local.Instance, error) { return container.Start(profile, s.Seed, 0) },
//	})
package container

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"loadline/internal/engine/replay"
	"loadline/internal/local"
	"loadline/internal/serve"
)

// Instance is one server on a port of its own.
type Instance struct {
	server *serve.Server
	http   *http.Server
	addr   string
	cancel context.CancelFunc
	work   sync.WaitGroup
}

var _ local.Instance = (*Instance)(nil)

// Start starts one that plays a profile; depth is of its queue, 0: unbounded.
func Start(p replay.Profile, seed uint64, depth int) (*Instance, error) {
	engine, err := replay.New(p, seed)
	if err != nil {
		return nil, err
	}
	return Serve(serve.Config{Engine: engine, QueueDepth: depth})
}

// Serve starts any server.
func Serve(c serve.Config) (*Instance, error) {
	server, err := serve.New(c)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &Instance{server: server, http: &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second}, addr: ln.Addr().String(), cancel: cancel}
	i.work.Go(func() { _ = server.Run(ctx) })
	i.work.Go(func() { _ = i.http.Serve(ln) })
	return i, nil
}

// Addr is where it listens.
func (i *Instance) Addr() string { return i.addr }

// Ready is closed once it has spoken its warm-up text.
func (i *Instance) Ready() <-chan struct{} { return i.server.Ready() }

// Usage is not measured.
func (i *Instance) Usage() local.Usage { return local.Usage{} }

// Stop lets what is inside end until ctx does, and returns when nothing is left.
func (i *Instance) Stop(ctx context.Context) error {
	err := i.server.Drain(ctx)
	_ = i.http.Close() // nothing is inside any more
	i.cancel()
	i.work.Wait()
	return err
}

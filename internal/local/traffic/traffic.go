// Package traffic is SageMaker's runtime of a local account: invocations, whole, streamed and in both directions, from
// their callers to the instances and back, and what CloudWatch is told of them.
//
// It decides which instance a request finds, what its caller is answered when there is none or its container fails, and
// what is counted of it. Which instances there are is for those to say who add them to a route's pools; what goes over in
// both directions is package duplex's, what a period of a metric holds package metric's.
//
//	t := traffic.New(traffic.Config{…})
//	r, err := t.NewRoute("speech", []traffic.Variant{{Name: "primary", Routing: traffic.Random, Weight: 1}}, nil)
//	t.Serve(map[string]*traffic.Route{"speech": r})
//	r.Variant("primary").Add(traffic.NewInstance(output), container, time.Now())
//	http.ListenAndServe("127.0.0.1:0", t) // POST /endpoints/speech/invocations
package traffic

import (
	"log"
	"sync"
	"sync/atomic"
	"time"

	"loadline/internal/duplex"
	"loadline/internal/local/access"
	"loadline/internal/local/service"
	"loadline/internal/metric"
)

// Config of New.
type Config struct {
	Account   service.Account
	Now       func() time.Time
	Log       *log.Logger
	Access    *access.Access
	Absent    *service.Absent
	Metrics   *metric.Store
	Published time.Duration // after the end of a period its metrics can be read
	Pooled    bool          // the concurrency is one series, of the mean over the instances, and not one each
	Streams   duplex.Rules  // the times of bidirectional streams, SageMaker's where they are zero
	Seed      uint64
}

// Traffic of an account. It is safe for concurrent use.
type Traffic struct {
	cfg       Config
	routes    atomic.Pointer[map[string]*Route]
	listeners sync.WaitGroup // to callers of bidirectional streams

	mu     sync.Mutex // guards minute, and what instances have used
	minute time.Time  // metrics of a minute are published up to here
}

// New is the traffic of an account without endpoints.
func New(cfg Config) *Traffic {
	t := &Traffic{cfg: cfg}
	t.Serve(nil)
	return t
}

// Serve lets requests find these endpoints, and no others.
func (t *Traffic) Serve(routes map[string]*Route) { t.routes.Store(&routes) }

// Wait is for what may outlive the last request by a moment.
func (t *Traffic) Wait() { t.listeners.Wait() }

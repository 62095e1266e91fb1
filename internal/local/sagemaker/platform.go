// Package sagemaker is SageMaker's control plane of a local account: models, endpoint configurations, endpoints and
// inference components, and the instances that are started and stopped for them.
//
// It decides what a call may change and how what there is is told, and does for real what an endpoint's life asks for. That
// life is package fleet's, who scales it package autoscale's, what reaches the instances package traffic's, and what runs
// inside one the Starter's.
//
//	p := sagemaker.New(sagemaker.Config{Start: start, …})
//	front.Services = append(front.Services, p.Service(), p.Quotas())
//	p.Begin(ctx)
//	err := p.Create(ctx, []sagemaker.Endpoint{e}) // in service
//	p.End()                                       // once ctx has ended: nothing runs on
package sagemaker

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"sync"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
	"loadline/internal/local/access"
	"loadline/internal/local/logs"
	"loadline/internal/local/service"
	"loadline/internal/local/traffic"
)

// Model is a SageMaker model: one container.
type Model struct {
	Name  string
	Image string            // URI with a digest
	Env   map[string]string // of the container
}

// Variant is a production variant and what it runs.
type Variant struct {
	Name         string
	Model        Model
	InstanceType string
	Instances    int             // at the start
	Weight       float64         // 0: 1
	Routing      traffic.Routing // "": Random
	Stages       fleet.Stages
	// Min and Max register a scalable target with these bounds; both 0: none.
	Min, Max int

	hosting *fleet.Hosting // of inference components; nil: Model is what it runs
}

// Endpoint that is there from the start, in service at once. Its configuration is named after it, with -config.
type Endpoint struct {
	Name     string
	Variants []Variant
}

// Spec is what an instance is to run.
type Spec struct {
	ID       string // i-0…
	Endpoint string
	Variant  string
	Model    Model
	Type     string    // instance type
	Seed     uint64    // its own
	AtOnce   bool      // it has been there for a while: nothing of a start-up is to be played
	Output   io.Writer // what the container prints: its log stream, and metrics of the lines that say so
}

// Instance is one running container with the SageMaker contract: /ping and /invocations.
type Instance interface {
	traffic.Container
	// Stop is SIGTERM, and SIGKILL when ctx ends. It returns once nothing of the instance runs any more.
	Stop(ctx context.Context) error
}

// Starter starts an instance. It returns as soon as the process is there; readiness is asked of /ping.
type Starter func(ctx context.Context, s Spec) (Instance, error)

// Config of New. All but the faults must be given; without Start no endpoint can be created.
type Config struct {
	Account service.Account
	Now     func() time.Time
	Log     *log.Logger
	Access  *access.Access
	Traffic *traffic.Traffic
	Logs    *logs.Logs
	Tags    *service.Tags
	Scaling autoscale.Config // without its Fleet, which is the platform
	Start   Starter
	Stages  fleet.Stages // of instances of endpoints that are created later
	// CopyStages are those of copies of inference components.
	CopyStages fleet.Stages
	Quota      int          // instances of one type
	Faults     fleet.Faults // of changes and of the instances that they add
	Seed       uint64
}

// The platform's limits.
const (
	leaveGrace = time.Second      // from the last request that is routed to an instance to its SIGTERM
	stopGrace  = 30 * time.Second // from SIGTERM to SIGKILL
)

// Platform is the control plane. It is safe for concurrent use.
type Platform struct {
	cfg  Config
	kick chan struct{}   // wakes the clock: something is due at another time
	run  context.Context // Begin's
	work sync.WaitGroup  // what was started on its behalf

	mu         sync.Mutex // guards all below
	rng        *rand.Rand
	endpoints  map[string]*endpoint
	configs    map[string]*endpointConfig
	models     map[string]*model
	components map[string]*component
	scaler     *autoscale.Scaler
	ended      bool // nothing is started any more
}

// New is a platform without endpoints.
func New(cfg Config) *Platform {
	p := &Platform{cfg: cfg, kick: make(chan struct{}, 1), rng: rand.New(rand.NewPCG(cfg.Seed, 0x10ca1)),
		endpoints: map[string]*endpoint{}, configs: map[string]*endpointConfig{}, models: map[string]*model{}, components: map[string]*component{}}
	cfg.Scaling.Fleet = scaled{p}
	p.scaler = autoscale.New(cfg.Scaling)
	return p
}

// Scaler scales what the platform has. It is asked under Lock.
func (p *Platform) Scaler() *autoscale.Scaler { return p.scaler }

// Lock is held while Scaler is asked: what it decides is done at once.
func (p *Platform) Lock() sync.Locker { return &p.mu }

// Wake is called when something may be due at another time.
func (p *Platform) Wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// Begin lets the time go on until ctx ends, and with it everything that was started.
func (p *Platform) Begin(ctx context.Context) {
	p.run = ctx
	p.work.Go(func() { p.clock(ctx) })
}

// End stops every instance at once, after Begin's ctx has ended, and returns when none runs any more. Nothing is started
// after it.
func (p *Platform) End() {
	p.mu.Lock()
	p.ended = true
	for _, ep := range p.endpoints {
		for _, inst := range ep.live {
			p.work.Go(func() { p.stop(inst) })
		}
	}
	p.mu.Unlock()
	p.work.Wait()
}

// Check is what is wrong with endpoints that are to be there from the start, all of it.
func Check(endpoints []Endpoint, quota int) []error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	names := map[string]bool{}
	for _, e := range endpoints {
		if !nameForm.MatchString(e.Name) || len(e.Name) > 63 {
			say("endpoint name %q: use letters, digits and hyphens between them, at most 63", e.Name)
		}
		if names[e.Name] {
			say("endpoint %s is there twice", e.Name)
		}
		names[e.Name] = true
		count, variants := map[string]int{}, map[string]bool{}
		for _, v := range e.Variants {
			if !nameForm.MatchString(v.Name) || len(v.Name) > 63 {
				say("variant name %q of endpoint %s: use letters, digits and hyphens between them, at most 63", v.Name, e.Name)
			}
			if variants[v.Name] {
				say("variant %s of endpoint %s is there twice", v.Name, e.Name)
			}
			if v.Instances < 1 {
				say("variant %s of endpoint %s has %d instances: it needs at least 1", v.Name, e.Name, v.Instances)
			}
			variants[v.Name] = true
			if count[v.InstanceType] += v.Instances; count[v.InstanceType] > quota && quota > 0 {
				say("endpoint %s has %d instances of %s: the quota is %d", e.Name, count[v.InstanceType], v.InstanceType, quota)
			}
		}
		if len(e.Variants) == 0 {
			say("endpoint %s has no variant", e.Name)
		}
	}
	return wrong
}

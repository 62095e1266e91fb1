// Package local is a SageMaker account on loopback: the AWS wire protocols over package fleet's endpoints, with real HTTP
// servers behind them as instances, and their metrics published as CloudWatch publishes them.
//
// It decides how a request finds an instance, what it is answered and what is counted; what an endpoint goes through is
// fleet's, what a period of a metric holds is metric's, and what runs inside an instance is the Starter's.
//
//	l, err := local.New(local.Config{Addr: "127.0.0.1:0", Start: start, Endpoints: []local.Endpoint{e}})
//	fmt.Println(l.URL())
//	err = l.Run(ctx) // serves until ctx ends, and leaves nothing running
//
// One file a service, or several for the parts of a large one: sagemaker.go (models.go, configs.go, endpoints.go,
// components.go), runtime.go, bidi.go, autoscaling.go (scaling….go), cloudwatch.go (getdata.go, listmetrics.go, alarms.go,
// dashboards.go, tags.go), logs.go, iam.go, sts.go, quotas.go. The protocols are package wire's and know nothing of state;
// the state (platform.go, route.go, meter.go, logbook.go, state.go) knows nothing of the wire; the time comes from
// Config.Now.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/duplex"
	"loadline/internal/fleet"
	"loadline/internal/local/access"
	"loadline/internal/local/autoscaling"
	"loadline/internal/local/cloudwatch"
	"loadline/internal/local/logs"
	"loadline/internal/local/service"
	"loadline/internal/local/traffic"
	"loadline/internal/metric"
)

// Routing is how a variant's requests are spread over its instances.
type Routing = traffic.Routing

// The routing strategies.
const (
	Random           = traffic.Random
	LeastOutstanding = traffic.LeastOutstanding
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
	Instances    int     // at the start
	Weight       float64 // 0: 1
	Routing      Routing // "": Random
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

// Usage of an instance.
type Usage = traffic.Usage

// Instance is one running container with the SageMaker contract: /ping and /invocations.
type Instance interface {
	traffic.Container
	// Stop is SIGTERM, and SIGKILL when ctx ends. It returns once nothing of the instance runs any more.
	Stop(ctx context.Context) error
}

// Starter starts an instance. It returns as soon as the process is there; readiness is asked of /ping.
type Starter func(ctx context.Context, s Spec) (Instance, error)

// Config of the account.
type Config struct {
	Addr      string // loopback host:port; port 0: the kernel's choice
	BidiAddr  string // likewise of the door for bidirectional streams, HTTP/2 over TLS; "": it is not open
	Region    string // "": us-east-1
	Account   string // "": 000000000000
	Endpoints []Endpoint
	Start     Starter
	Stages    fleet.Stages // of instances of endpoints that are created later
	// CopyStages are those of copies of inference components.
	CopyStages fleet.Stages
	Quota      int                // instances of one type; 0: 100
	Published  time.Duration      // after the end of a period its platform metrics can be read
	Unknowns   autoscale.Unknowns // of the autoscaler; its Delay is Published
	Faults     fleet.Faults       // of changes and of the instances that they add
	Seed       uint64
	Log        io.Writer        // nil: nothing is logged
	Now        func() time.Time // nil: time.Now

	CallFaults access.Faults
	// VerifySignatures refuses calls that are not signed with the account's keys, AKIDEXAMPLE and secret.
	VerifySignatures bool
	// State is what Save was given by an account before: it goes on where that one ended, and Endpoints is not looked at.
	State []byte
	// Save is given the account's state when it has changed, not more than once a second, and at the end; nil: it is not kept.
	Save func(state []byte) error
	// Deny is the actions that the caller may not do, such as sagemaker:UpdateEndpoint, with * and ?.
	Deny []string
	// NoLinkedRole leaves out the role that Application Auto Scaling works under, until a first target is registered.
	NoLinkedRole bool

	// Streams is the times of bidirectional streams, SageMaker's where they are zero.
	Streams duplex.Rules

	// LoseTokens makes paged listings of scalable targets end early without a token, as AWS's has been seen to do: what
	// is not on such a page is not therefore absent.
	LoseTokens bool
}

// DefaultQuota is enough for a demonstration and little enough for one machine.
const DefaultQuota = 100

// The platform's limits.
const (
	leaveGrace = time.Second      // from the last request that is routed to an instance to its SIGTERM
	stopGrace  = 30 * time.Second // from SIGTERM to SIGKILL
	exitGrace  = 2 * time.Second  // for what is in flight when Run's context ends
)

// Local is the account. Make it with New.
type Local struct {
	cfg      Config
	now      func() time.Time
	log      *log.Logger
	listener net.Listener
	bidi     *traffic.Door // nil: not open
	metrics  *metric.Store
	account  service.Account
	front    *service.Front
	absent   *service.Absent
	ready    chan struct{}
	kick     chan struct{} // wakes the clock: something is due at another time

	run     context.Context // Run's
	saved   []byte          // what Config.Save has; of the one goroutine that saves
	work    sync.WaitGroup  // what was started on its behalf
	inside  sync.WaitGroup  // requests
	door    sync.RWMutex    // guards shut
	shut    bool            // no request is let in any more
	traffic *traffic.Traffic
	tags    *service.Tags
	logs    *logs.Logs
	access  *access.Access
	watch   *cloudwatch.CloudWatch
	scale   *autoscaling.Autoscaling

	mu         sync.Mutex // guards all below
	rng        *rand.Rand
	endpoints  map[string]*endpoint
	configs    map[string]*endpointConfig
	models     map[string]*model
	scaler     *autoscale.Scaler
	components map[string]*component
	ended      bool // nothing is started any more
}

// New listens, and starts nothing: Run does. It refuses an address that is not loopback.
func New(cfg Config) (*Local, error) {
	for _, d := range []struct {
		v *string
		d string
	}{{&cfg.Region, "us-east-1"}, {&cfg.Account, "000000000000"}, {&cfg.Addr, "127.0.0.1:0"}} {
		if *d.v == "" {
			*d.v = d.d
		}
	}
	if cfg.Quota == 0 {
		cfg.Quota = DefaultQuota
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	l := &Local{
		cfg: cfg, now: cfg.Now, log: log.New(cfg.Log, "", 0), account: service.Account{Region: cfg.Region, ID: cfg.Account}, metrics: metric.NewStore(),
		ready: make(chan struct{}), kick: make(chan struct{}, 1),
		rng:       rand.New(rand.NewPCG(cfg.Seed, 0x10ca1)),
		endpoints: map[string]*endpoint{}, configs: map[string]*endpointConfig{}, models: map[string]*model{},
		tags: service.NewTags(), components: map[string]*component{},
	}
	l.absent = &service.Absent{Log: l.log}
	cfg.Unknowns.Delay = cfg.Published
	l.scaler = autoscale.New(autoscale.Config{Region: cfg.Region, Account: cfg.Account, Unknowns: cfg.Unknowns, Data: cloudwatch.Reader{Metrics: l.metrics}, Fleet: scaled{l},
		Rand: service.Rand(cfg.Seed, "autoscaling")})
	l.access = access.New(access.Config{Account: l.account, Now: l.now, VerifySignatures: cfg.VerifySignatures, Deny: cfg.Deny,
		LinkedRole: !cfg.NoLinkedRole, Faults: cfg.CallFaults, Rand: rand.New(rand.NewPCG(cfg.Seed, 0xfa11)),
		Ended: func() <-chan struct{} { return l.run.Done() }})
	l.traffic = traffic.New(traffic.Config{Account: l.account, Now: l.now, Log: l.log, Access: l.access, Absent: l.absent, Metrics: l.metrics,
		Published: cfg.Published, Pooled: cfg.Unknowns.Across == autoscale.AcrossMean, Streams: cfg.Streams, Seed: cfg.Seed})
	l.watch = cloudwatch.New(cloudwatch.Config{Account: l.account, Now: l.now, Log: l.log, Tags: l.tags, Metrics: l.metrics,
		Publish: l.traffic.Publish, Alarms: l.scaler, Lock: &l.mu, Changed: l.wake})
	l.scale = autoscaling.New(autoscaling.Config{Now: l.now, Scaler: l.scaler, Lock: &l.mu, Changed: l.wake, Tags: l.tags,
		RoleARN: access.LinkedRoleARN(l.account), LoseTokens: cfg.LoseTokens})
	l.logs = logs.New(l.account, l.now, l.watch.Observe)
	l.front = &service.Front{Absent: l.absent, Log: l.log, Admit: l.access.Admit, Services: []service.Service{
		l.sagemaker(), l.scale.Service(), l.watch.Service(), l.logs.Service(), l.quotas(), l.access.STS(), l.access.IAM()}}
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Addr, err)
	}
	l.listener = ln
	if cfg.BidiAddr != "" {
		if l.bidi, err = traffic.OpenDoor(cfg.BidiAddr); err != nil {
			ln.Close()
			return nil, err
		}
	}
	return l, nil
}

// Check is what is wrong with the configuration, all of it; New refuses it then.
func (cfg *Config) Check() error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if cfg.Start == nil && len(cfg.Endpoints) > 0 {
		say("an endpoint needs a way to start its instances")
	}
	for _, addr := range []string{cfg.Addr, cfg.BidiAddr} {
		if addr == "" { // the second door
			continue
		}
		if host, _, err := net.SplitHostPort(addr); err != nil {
			say("address %q: give host:port, such as 127.0.0.1:8080: %w", addr, err)
		} else if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			say("address %q is not loopback: nothing here asks who is calling, so only 127.0.0.0/8, [::1] and localhost are served", addr)
		}
	}
	names := map[string]bool{}
	for _, e := range cfg.Endpoints {
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
			if count[v.InstanceType] += v.Instances; count[v.InstanceType] > cfg.Quota && cfg.Quota > 0 {
				say("endpoint %s has %d instances of %s: the quota is %d", e.Name, count[v.InstanceType], v.InstanceType, cfg.Quota)
			}
		}
		if len(e.Variants) == 0 {
			say("endpoint %s has no variant", e.Name)
		}
	}
	return errors.Join(wrong...)
}

// URL is where it listens.
func (l *Local) URL() string { return "http://" + l.listener.Addr().String() }

// BidiURL is where bidirectional streams are taken, "" where that door is not open.
func (l *Local) BidiURL() string {
	if l.bidi == nil {
		return ""
	}
	return l.bidi.URL()
}

// BidiCertificate is the certificate of that door in PEM; whoever trusts it can open it.
func (l *Local) BidiCertificate() []byte {
	if l.bidi == nil {
		return nil
	}
	return l.bidi.Certificate
}

// Ready is closed once every endpoint of the configuration is in service.
func (l *Local) Ready() <-chan struct{} { return l.ready }

// Run starts the endpoints and serves until ctx ends; then it lets what is in flight end for two seconds, stops every
// instance and returns nil. It returns an error when an endpoint could not come into service.
func (l *Local) Run(ctx context.Context) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	l.run = inner
	server := &http.Server{Handler: l.counted(l.serve), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: l.log}
	servers := []*http.Server{server}
	served := make(chan error, 2)
	failed := make(chan error, 1)
	l.work.Go(func() { served <- server.Serve(l.listener) })
	if l.bidi != nil {
		second := l.bidi.Server(l.counted(l.traffic.ServeBidi), l.log)
		servers = append(servers, second)
		l.work.Go(func() { served <- second.ServeTLS(l.bidi.Listener, "", "") })
	}
	l.work.Go(func() { l.clock(inner) })
	l.work.Go(func() { failed <- l.boot(inner) })

	var err error
	booted, saving := false, make(chan struct{})
	for {
		select {
		case err = <-failed:
			if err == nil && !booted {
				booted = true
				if l.cfg.Save != nil {
					l.work.Go(func() {
						defer close(saving)
						l.keep(ctx)
					})
				}
				close(l.ready)
				continue
			}
		case err = <-served:
			err = fmt.Errorf("serve: %w", err)
		case <-ctx.Done():
		}
		break
	}
	grace, cancel := context.WithTimeout(inner, exitGrace)
	defer cancel()
	for _, s := range servers {
		if s.Shutdown(grace) != nil {
			s.Close()
		}
	}
	l.door.Lock()
	l.shut = true
	l.door.Unlock()
	if booted && l.cfg.Save != nil && ctx.Err() != nil {
		<-saving
		l.save() // as it is before its instances go
	}
	stop()
	l.stopAll()
	l.work.Wait()
	l.inside.Wait() // their instances are gone, so they end
	l.traffic.Wait()
	return err
}

// serve finds who serves a request: the runtime or a service.
func (l *Local) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/endpoints/") {
		l.traffic.ServeHTTP(w, r)
		return
	}
	l.front.ServeHTTP(w, r)
}

// counted lets requests in until Run has ended.
func (l *Local) counted(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.enter() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer l.inside.Done()
		serve(w, r)
	})
}

// enter counts a request in; false once Run has ended.
func (l *Local) enter() bool {
	l.door.RLock()
	defer l.door.RUnlock()
	if !l.shut {
		l.inside.Add(1)
	}
	return !l.shut
}

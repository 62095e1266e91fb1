// Package local is a SageMaker account on loopback: the AWS wire protocols over package fleet's endpoints, with real HTTP
// servers behind them as instances, and their metrics published as CloudWatch publishes them.
//
// It decides what an account is made of, where it listens, when it is there and what of it survives a restart. Its parts
// have packages of their own:
//
//   - service: one URL for all services, and what they have in common
//   - access: who may call, IAM and STS
//   - sagemaker: the control plane, which starts and stops instances, and Service Quotas
//   - traffic: the runtime, from callers to instances and back, and its metrics
//   - cloudwatch, logs, autoscaling: the services of these names
//
// They know each other by little: traffic and the control plane by routes, the control plane and the alarms by the
// autoscaler under the control plane's lock. What an endpoint goes through is package fleet's, what a metric's period holds
// metric's, when something scales autoscale's, how structures become bytes wire's, and what runs inside an instance the
// Starter's. The time comes from Config.Now.
//
//	l, err := local.New(local.Config{Addr: "127.0.0.1:0", Start: start, Endpoints: []local.Endpoint{e}})
//	fmt.Println(l.URL())
//	err = l.Run(ctx) // serves until ctx ends, and leaves nothing running
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
	"loadline/internal/local/sagemaker"
	"loadline/internal/local/service"
	"loadline/internal/local/traffic"
	"loadline/internal/metric"
)

// What an account is given and gives, in SageMaker's words.
type (
	Endpoint = sagemaker.Endpoint
	Variant  = sagemaker.Variant
	Model    = sagemaker.Model
	Routing  = traffic.Routing
	Starter  = sagemaker.Starter
	Spec     = sagemaker.Spec
	Instance = sagemaker.Instance
	Usage    = traffic.Usage
)

// The routing strategies.
const (
	Random           = traffic.Random
	LeastOutstanding = traffic.LeastOutstanding
)

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

// exitGrace is for what is in flight when Run's context ends.
const exitGrace = 2 * time.Second

// Local is the account. Make it with New.
type Local struct {
	cfg      Config
	now      func() time.Time
	log      *log.Logger
	listener net.Listener
	bidi     *traffic.Door // nil: not open
	ready    chan struct{}

	account  service.Account
	tags     *service.Tags
	front    *service.Front
	access   *access.Access
	traffic  *traffic.Traffic
	logs     *logs.Logs
	platform *sagemaker.Platform
	watch    *cloudwatch.CloudWatch

	run    context.Context // Run's
	saved  []byte          // what Config.Save has; of the one goroutine that saves
	work   sync.WaitGroup  // what was started on Run's behalf
	inside sync.WaitGroup  // requests
	door   sync.RWMutex    // guards shut
	shut   bool            // no request is let in any more
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
		cfg: cfg, now: cfg.Now, log: log.New(cfg.Log, "", 0), account: service.Account{Region: cfg.Region, ID: cfg.Account},
		ready: make(chan struct{}), tags: service.NewTags(),
	}
	metrics, absent := metric.NewStore(), &service.Absent{Log: l.log}
	cfg.Unknowns.Delay = cfg.Published
	l.access = access.New(access.Config{Account: l.account, Now: l.now, VerifySignatures: cfg.VerifySignatures, Deny: cfg.Deny,
		LinkedRole: !cfg.NoLinkedRole, Faults: cfg.CallFaults, Rand: rand.New(rand.NewPCG(cfg.Seed, 0xfa11)),
		Ended: func() <-chan struct{} { return l.run.Done() }})
	l.traffic = traffic.New(traffic.Config{Account: l.account, Now: l.now, Log: l.log, Access: l.access, Absent: absent, Metrics: metrics,
		Published: cfg.Published, Pooled: cfg.Unknowns.Across == autoscale.AcrossMean, Streams: cfg.Streams, Seed: cfg.Seed})
	l.logs = logs.New(l.account, l.now, func(line string, now time.Time) { l.watch.Observe(line, now) })
	l.platform = sagemaker.New(sagemaker.Config{Account: l.account, Now: l.now, Log: l.log, Access: l.access, Traffic: l.traffic, Logs: l.logs, Tags: l.tags,
		Scaling: autoscale.Config{Region: cfg.Region, Account: cfg.Account, Unknowns: cfg.Unknowns, Data: cloudwatch.Reader{Metrics: metrics},
			Rand: service.Rand(cfg.Seed, "autoscaling")},
		Start: cfg.Start, Stages: cfg.Stages, CopyStages: cfg.CopyStages, Quota: cfg.Quota, Faults: cfg.Faults, Seed: cfg.Seed})
	l.watch = cloudwatch.New(cloudwatch.Config{Account: l.account, Now: l.now, Log: l.log, Tags: l.tags, Metrics: metrics,
		Publish: l.traffic.Publish, Alarms: l.platform.Scaler(), Lock: l.platform.Lock(), Changed: l.platform.Wake})
	scaling := autoscaling.New(autoscaling.Config{Now: l.now, Scaler: l.platform.Scaler(), Lock: l.platform.Lock(), Changed: l.platform.Wake, Tags: l.tags,
		RoleARN: access.LinkedRoleARN(l.account), LoseTokens: cfg.LoseTokens})
	l.front = &service.Front{Absent: absent, Log: l.log, Admit: l.access.Admit, Services: []service.Service{
		l.platform.Service(), scaling.Service(), l.watch.Service(), l.logs.Service(), l.platform.Quotas(), l.access.STS(), l.access.IAM()}}
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
	wrong = append(wrong, sagemaker.Check(cfg.Endpoints, cfg.Quota)...)
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
	l.platform.Begin(inner)
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
	l.platform.End()
	l.work.Wait()
	l.inside.Wait() // their instances are gone, so they end
	l.traffic.Wait()
	return err
}

// boot makes the endpoints of the configuration and returns once all are in service, or one cannot be.
func (l *Local) boot(ctx context.Context) error {
	if l.cfg.State != nil {
		s, err := l.restore(l.cfg.State)
		if err != nil {
			return fmt.Errorf("restore the account: %w", err)
		}
		if err := l.platform.Served(ctx); err != nil {
			return err
		}
		if err := l.resume(ctx, s); err != nil {
			return fmt.Errorf("restore the account: %w", err)
		}
		return nil
	}
	return l.platform.Create(ctx, l.cfg.Endpoints)
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

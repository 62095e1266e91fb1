package local

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
	"loadline/internal/local/service"
	"loadline/internal/metric"
)

// route is an endpoint's data side: where a request goes. It is safe for concurrent use.
type route struct {
	endpoint string
	variants []*variantRoute
	mu       sync.Mutex // guards what is below
	rng      *rand.Rand
	// components are the copies of inference components, by component: the list is replaced, not changed.
	components []*variantRoute
}

// variantRoute is the instances of one variant that take traffic, and what is counted of it.
type variantRoute struct {
	name    string
	routing Routing
	weight  atomic.Int64 // in millionths
	meter   *meter

	mu      sync.Mutex // guards all below
	rng     *rand.Rand
	live    []*instance
	leaving []*instance // take no more traffic, and are not gone
	// Where the instances' mean is the one series of the concurrency (autoscale.AcrossMean), instances have no gauges.
	pool  *metric.Gauge
	level float64 // of pool
}

// instance is one instance's data side.
type instance struct {
	spec     Spec
	variant  *variantRoute
	starting context.Context // ends when it is given up
	giveUp   context.CancelFunc
	up       chan struct{} // closed when b is set
	b        Instance      // nil: it never started

	client   *http.Client // the platform's connections to it
	addr     string
	inFlight int           // of its variant's lock
	idle     chan struct{} // once it leaves: closed when nothing is in flight; of its variant's lock
	gauge    *metric.Gauge // of requests in flight, while it takes traffic
	used     Usage         // at the end of the last minute; of Local's lock
	usedAt   time.Time
}

func newInstance(run context.Context, s Spec, v *variantRoute) *instance {
	i := &instance{spec: s, variant: v, up: make(chan struct{}), idle: make(chan struct{})}
	i.client = &http.Client{Transport: &http.Transport{
		// A limit on connections would queue where nobody sees it.
		MaxIdleConnsPerHost: 8192, IdleConnTimeout: 90 * time.Second,
		DisableCompression: true, ResponseHeaderTimeout: unaryLimit,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}
	i.starting, i.giveUp = context.WithCancel(run)
	return i
}

func (i *instance) started(b Instance) {
	i.b = b
	close(i.up)
}

// box is the container, once it has started; nil when it did not.
func (i *instance) box() Instance {
	<-i.up
	return i.b
}

func (l *Local) newRoute(spec Endpoint) (*route, error) {
	r := &route{endpoint: spec.Name, rng: l.rngOf(spec.Name)}
	for _, v := range spec.Variants {
		m, err := l.newMeter(spec.Name, v.Name)
		if err != nil {
			return nil, err
		}
		vr := l.newVariantRoute(v.Name, v.Routing, m, spec.Name+"/"+v.Name)
		vr.weigh(v.Weight)
		r.variants = append(r.variants, vr)
	}
	return r, nil
}

func (l *Local) newVariantRoute(name string, r Routing, m *meter, cause string) *variantRoute {
	v := &variantRoute{name: name, routing: r, meter: m, rng: l.rngOf(cause)}
	if l.cfg.Unknowns.Across == autoscale.AcrossMean {
		v.pool = metric.NewGauge(m.concurrency, concurrencyPeriod, l.now())
	}
	return v
}

// all is the variants, and the components beside them.
func (r *route) all() []*variantRoute {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.variants, r.components)
}

// of is where an instance, or a copy, of a fleet's event gets its requests.
func (r *route) of(e fleet.Event) *variantRoute {
	if e.Component != "" {
		return r.component(e.Component)
	}
	return r.variant(e.Variant)
}

// rngOf is a random source of its own for each cause.
func (l *Local) rngOf(cause string) *rand.Rand {
	return rand.New(rand.NewPCG(l.cfg.Seed, service.Hash(cause)))
}

func (v *variantRoute) weigh(w float64) { v.weight.Store(int64(w * 1e6)) }

// variant is the variant of that name, nil if there is none.
func (r *route) variant(name string) *variantRoute {
	for _, v := range r.variants {
		if v.name == name {
			return v
		}
	}
	return nil
}

// pick draws a variant by weight; nil when all weights are 0.
func (r *route) pick() *variantRoute {
	if len(r.variants) == 1 {
		return r.variants[0]
	}
	var sum int64
	for _, v := range r.variants {
		sum += v.weight.Load()
	}
	if sum == 0 {
		return nil
	}
	r.mu.Lock()
	at := r.rng.Int64N(sum)
	r.mu.Unlock()
	for _, v := range r.variants {
		if at -= v.weight.Load(); at < 0 {
			return v
		}
	}
	return r.variants[0] // a weight changed meanwhile
}

// add sends an instance traffic from now on.
func (v *variantRoute) add(i *instance, now time.Time) {
	b := i.box()
	i.addr, i.used, i.usedAt = b.Addr(), b.Usage(), now
	if v.pool == nil {
		i.gauge = metric.NewGauge(v.meter.concurrency, concurrencyPeriod, now)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.live = append(v.live, i)
	v.relevel(now)
}

// relevel sets the pool's level to the mean over the instances. v.mu is held.
func (v *variantRoute) relevel(now time.Time) {
	if v.pool == nil {
		return
	}
	n, total := 0, 0
	for _, list := range [][]*instance{v.live, v.leaving} {
		for _, i := range list {
			n, total = n+1, total+i.inFlight
		}
	}
	level := float64(total) / float64(max(n, 1))
	v.pool.Add(now, level-v.level)
	v.level = level
}

// remove sends it no more; what it has in flight it keeps, and that still counts.
func (v *variantRoute) remove(i *instance) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at := slices.Index(v.live, i); at >= 0 {
		v.live = slices.Delete(v.live, at, at+1)
		v.leaving = append(v.leaving, i)
		if i.inFlight == 0 {
			close(i.idle)
		}
	}
}

// forget ends the account of an instance that is gone.
func (v *variantRoute) forget(i *instance, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at := slices.Index(v.leaving, i); at >= 0 {
		v.leaving = slices.Delete(v.leaving, at, at+1)
		if i.gauge != nil {
			i.gauge.End(now)
		}
		v.relevel(now)
	}
}

// enter gives a request its instance and counts it as in flight there until leave; it also says how many instances take
// traffic. nil: none does.
func (v *variantRoute) enter(now time.Time) (*instance, int) {
	v.mu.Lock()
	n := len(v.live)
	if n == 0 {
		v.mu.Unlock()
		return nil, 0
	}
	at := 0
	if n > 1 {
		at = v.rng.IntN(n)
	}
	if v.routing == LeastOutstanding {
		for k, from := 1, at; k < n; k++ { // from a random one on, so that ties fall anywhere
			if j := (from + k) % n; v.live[j].inFlight < v.live[at].inFlight {
				at = j
			}
		}
	}
	i := v.live[at]
	i.inFlight++
	v.relevel(now)
	v.mu.Unlock()
	if i.gauge != nil {
		i.gauge.Add(now, 1)
	}
	return i, n
}

func (v *variantRoute) leave(i *instance, now time.Time) {
	v.mu.Lock()
	if i.inFlight--; i.inFlight == 0 && slices.Contains(v.leaving, i) {
		close(i.idle)
	}
	v.relevel(now)
	v.mu.Unlock()
	if i.gauge != nil {
		i.gauge.Add(now, -1)
	}
}

package traffic

import (
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"loadline/internal/local/logs"
	"loadline/internal/local/service"
	"loadline/internal/metric"
)

// Route is an endpoint's data side: where a request goes. It is safe for concurrent use.
type Route struct {
	endpoint string
	variants []*Pool
	mu       sync.Mutex // guards what is below
	rng      *rand.Rand
	// components are the copies of inference components, by component: the list is replaced, not changed.
	components []*Pool
}

// Routing is how a variant's requests are spread over its instances.
type Routing string

// The routing strategies, in SageMaker's words.
const (
	Random           Routing = "RANDOM"
	LeastOutstanding Routing = "LEAST_OUTSTANDING_REQUESTS"
)

// Pool is the instances of one variant that take traffic, and what is counted of it.
type Pool struct {
	name    string
	routing Routing
	weight  atomic.Int64 // in millionths
	meter   *meter
	// noCapacity counts the invocations that no copy was there for, where it is a component's.
	noCapacity *metric.Series

	mu      sync.Mutex // guards all below
	rng     *rand.Rand
	live    []*Instance
	leaving []*Instance // take no more traffic, and are not gone
	// Where the instances' mean is the one series of the concurrency (Config.Pooled), instances have no gauges.
	mean  *metric.Gauge
	level float64 // of mean
}

// Instance is one instance's data side, or one copy's. Make it with NewInstance.
type Instance struct {
	client *http.Client // the platform's connections to it
	log    *logs.Output
	box    Container

	inFlight int           // of its pool's lock
	idle     chan struct{} // once it leaves: closed when nothing is in flight; of its pool's lock
	gauge    *metric.Gauge // of requests in flight, while it takes traffic
	used     Usage         // at the end of the last minute; of Traffic's lock
	usedAt   time.Time
}

// Usage of an instance: what it used since its start in seconds, and the share of its memory in use now in percent.
type Usage struct {
	CPU, GPU          float64
	Memory, GPUMemory float64
}

// Container is what runs in an instance, with SageMaker's contract: /ping and /invocations.
type Container interface {
	Addr() string // host:port on loopback
	Usage() Usage
}

// NewInstance is an instance whose container writes to log.
func NewInstance(log *logs.Output) *Instance {
	return &Instance{log: log, idle: make(chan struct{}), client: &http.Client{Transport: &http.Transport{
		// A limit on connections would queue where nobody sees it.
		MaxIdleConnsPerHost: 8192, IdleConnTimeout: 90 * time.Second,
		DisableCompression: true, ResponseHeaderTimeout: unaryLimit,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}}
}

// Client has the platform's connections to the instance.
func (i *Instance) Client() *http.Client { return i.client }

// Idle is closed once the instance takes no more traffic and has nothing in flight.
func (i *Instance) Idle() <-chan struct{} { return i.idle }

// Variant of an endpoint, as its traffic is told.
type Variant struct {
	Name    string
	Routing Routing
	Weight  float64
}

// NewRoute is the traffic of an endpoint. The variants that old has, which may be nil, keep their instances' accounts.
func (t *Traffic) NewRoute(endpoint string, variants []Variant, old *Route) (*Route, error) {
	r := &Route{endpoint: endpoint, rng: service.Rand(t.cfg.Seed, endpoint)}
	for _, v := range variants {
		m, err := t.newMeter(endpoint, v.Name)
		if err != nil {
			return nil, err
		}
		p := t.newPool(v.Name, v.Routing, m, endpoint+"/"+v.Name)
		p.Weigh(v.Weight)
		if old != nil {
			if was := old.Variant(v.Name); was != nil {
				p = was
			}
		}
		r.variants = append(r.variants, p)
	}
	return r, nil
}

// NewCopies is the traffic of an inference component on a variant's instances, routed as the variant's is.
func (t *Traffic) NewCopies(component string, on *Pool) (*Pool, error) {
	dims := metric.JoinDims([]metric.Dimension{{Name: "InferenceComponentName", Value: component}})
	m, err := t.meterOf(dims, copyNamespace, "ConcurrentRequestsPerCopy", "InvocationsPerCopy")
	if err != nil {
		return nil, err
	}
	on.mu.Lock()
	routing := on.routing
	on.mu.Unlock()
	p := t.newPool(component, routing, m, "inference-component/"+component)
	p.noCapacity, err = t.cfg.Metrics.Series(metric.Key{Namespace: invocationNamespace, Name: "NoCapacityInvocationFailures", Dims: dims},
		metric.Spec{Unit: "None", Resolution: meterPeriod, Published: t.cfg.Published})
	return p, err
}

func (t *Traffic) newPool(name string, r Routing, m *meter, cause string) *Pool {
	p := &Pool{name: name, routing: r, meter: m, rng: service.Rand(t.cfg.Seed, cause)}
	if t.cfg.Pooled {
		p.mean = metric.NewGauge(m.concurrency, ConcurrencyPeriod, t.cfg.Now())
	}
	return p
}

// all is the variants, and the components beside them.
func (r *Route) all() []*Pool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.variants, r.components)
}

// Weigh gives a variant its share of the traffic, against the other variants' weights.
func (p *Pool) Weigh(w float64) { p.weight.Store(int64(w * 1e6)) }

// SetRouting changes how requests find an instance from now on.
func (p *Pool) SetRouting(r Routing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routing = r
}

// Variant is the variant of that name, nil if there is none.
func (r *Route) Variant(name string) *Pool {
	for _, v := range r.variants {
		if v.name == name {
			return v
		}
	}
	return nil
}

// pick draws a variant by weight; nil when all weights are 0.
func (r *Route) pick() *Pool {
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

// Add sends an instance, which has a container by now, traffic from now on.
func (p *Pool) Add(i *Instance, box Container, now time.Time) {
	i.box, i.used, i.usedAt = box, box.Usage(), now
	if p.mean == nil {
		i.gauge = metric.NewGauge(p.meter.concurrency, ConcurrencyPeriod, now)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live = append(p.live, i)
	p.relevel(now)
}

// relevel sets the gauge of the mean over the instances. p.mu is held.
func (p *Pool) relevel(now time.Time) {
	if p.mean == nil {
		return
	}
	n, total := 0, 0
	for _, list := range [][]*Instance{p.live, p.leaving} {
		for _, i := range list {
			n, total = n+1, total+i.inFlight
		}
	}
	level := float64(total) / float64(max(n, 1))
	p.mean.Add(now, level-p.level)
	p.level = level
}

// Remove sends it no more; what it has in flight it keeps, and that still counts.
func (p *Pool) Remove(i *Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.live, i); at >= 0 {
		p.live = slices.Delete(p.live, at, at+1)
		p.leaving = append(p.leaving, i)
		if i.inFlight == 0 {
			close(i.idle)
		}
	}
}

// Forget ends the account of an instance that is gone.
func (p *Pool) Forget(i *Instance, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.leaving, i); at >= 0 {
		p.leaving = slices.Delete(p.leaving, at, at+1)
		if i.gauge != nil {
			i.gauge.End(now)
		}
		p.relevel(now)
	}
}

// enter gives a request its instance and counts it as in flight there until leave; it also says how many instances take
// traffic. nil: none does.
func (p *Pool) enter(now time.Time) (*Instance, int) {
	p.mu.Lock()
	n := len(p.live)
	if n == 0 {
		p.mu.Unlock()
		return nil, 0
	}
	at := 0
	if n > 1 {
		at = p.rng.IntN(n)
	}
	if p.routing == LeastOutstanding {
		for k, from := 1, at; k < n; k++ { // from a random one on, so that ties fall anywhere
			if j := (from + k) % n; p.live[j].inFlight < p.live[at].inFlight {
				at = j
			}
		}
	}
	i := p.live[at]
	i.inFlight++
	p.relevel(now)
	p.mu.Unlock()
	if i.gauge != nil {
		i.gauge.Add(now, 1)
	}
	return i, n
}

func (p *Pool) leave(i *Instance, now time.Time) {
	p.mu.Lock()
	if i.inFlight--; i.inFlight == 0 && slices.Contains(p.leaving, i) {
		close(i.idle)
	}
	p.relevel(now)
	p.mu.Unlock()
	if i.gauge != nil {
		i.gauge.Add(now, -1)
	}
}

// Put adds a component's copies.
func (r *Route) Put(v *Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.components = append(slices.Clone(r.components), v)
}

// Drop removes a component's copies.
func (r *Route) Drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.components = slices.DeleteFunc(slices.Clone(r.components), func(v *Pool) bool { return v.name == name })
}

// Component is the copies of that name, nil if there are none.
func (r *Route) Component(name string) *Pool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.components {
		if v.name == name {
			return v
		}
	}
	return nil
}

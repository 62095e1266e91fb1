package load

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"loadline/internal/sample"
)

// canaryEvery is the time between two echoes: often enough for a p99 of one second, seldom enough to cost nothing.
const canaryEvery = 10 * time.Millisecond

// meter measures this process while it drives load.
type meter struct {
	echo func() (client, server net.Conn, err error)

	mu    sync.Mutex
	trips []time.Duration
}

// loopback is a TCP connection to ourselves: through the kernel and the runtime's poller, like every stream.
func loopback() (client, server net.Conn, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer ln.Close()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		return nil, nil, err
	}
	if server, err = ln.Accept(); err != nil {
		client.Close()
		return nil, nil, err
	}
	return client, server, nil
}

// start runs the canary until stop, which returns when its goroutines have ended.
//
// The canary is a stream like any other that knows the truth: its server answers at once, so all that it waits for is
// this machine and this runtime. Like a stream it is woken by the poller, queues for a processor and allocates a buffer,
// so that it pays for collections too.
func (m *meter) start() (stop func(), err error) {
	client, server, err := m.echo()
	if err != nil {
		return nil, fmt.Errorf("load: open the echo canary's connection over loopback: %w", err)
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { io.CopyBuffer(onlyWriter{server}, onlyReader{server}, make([]byte, 64)) })
	wg.Go(func() { m.chirp(client, quit) })
	return func() {
		close(quit)
		client.Close()
		server.Close()
		wg.Wait()
	}, nil
}

// These hide the connection's own ways to copy, which would leave the echo to the kernel.
type onlyReader struct{ io.Reader }
type onlyWriter struct{ io.Writer }

func (m *meter) chirp(conn net.Conn, quit <-chan struct{}) {
	tick := time.NewTicker(canaryEvery)
	defer tick.Stop()
	msg := make([]byte, 8)
	for n := uint64(0); ; n++ {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		sent := time.Now()
		binary.LittleEndian.PutUint64(msg, n)
		if _, err := conn.Write(msg); err != nil {
			return
		}
		buf := make([]byte, 4096)
		if _, err := io.ReadFull(conn, buf[:len(msg)]); err != nil {
			return
		}
		trip := time.Since(sent)
		m.mu.Lock()
		// Echoes that were not sent because this one was on its way would have waited for the rest of it.
		for ; trip > 0; trip -= canaryEvery {
			m.trips = append(m.trips, trip)
		}
		m.mu.Unlock()
	}
}

// takeTrips is the round trips since the last call.
func (m *meter) takeTrips() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := m.trips
	m.trips = nil
	return got
}

// tally is what is known of the client over one hold.
type tally struct {
	r     *runner
	since sample.Nanos
	began reading

	lateness, connWait  []time.Duration
	sent, reused, conns int
	area                float64 // seconds in flight of completed requests, within the hold
	faults              map[string]int
}

// tally begins one.
func (r *runner) tally() *tally {
	r.meter.takeTrips()
	return &tally{r: r, began: read(), since: r.now()}
}

// add counts a completed request.
func (t *tally) add(q *sample.Request) {
	held := q.Started
	if q.Conn.Known() {
		held = q.Conn
	} else if q.Outcome == sample.ClientFault {
		held = q.End // it never had one
	}
	t.area += max(0, (q.End - max(held, t.since)).Duration().Seconds())
	if q.Outcome == sample.ClientFault {
		if t.faults == nil {
			t.faults = map[string]int{}
		}
		t.faults[q.Cause]++
	}
	if q.Intended < t.since {
		return // the rung before
	}
	t.sent++
	t.lateness = append(t.lateness, (q.Started - q.Intended).Duration())
	switch {
	case !q.Conn.Known():
	case q.Reused:
		t.reused++
		t.connWait = append(t.connWait, (q.Conn - q.Started).Duration())
	default:
		t.conns++
	}
}

// client closes the tally.
func (t *tally) client() sample.Client {
	now := t.r.now()
	ended := read()
	wall := max((now - t.since).Duration().Seconds(), 1e-9)
	wait := quantile(t.connWait, 0.5) // of the requests still in flight nothing is known yet but when they started
	c := sample.Client{
		LatenessP99: quantile(t.lateness, 0.99).Seconds(),
		ConnWaitP99: quantile(t.connWait, 0.99).Seconds(),
		Conns:       t.conns,
		InFlight:    (t.area + t.r.inFlight(t.since, now, wait)) / wall,
		Faults:      t.faults,
	}
	if n := t.reused + t.conns; n > 0 {
		c.Reused = float64(t.reused) / float64(n)
	}
	trips := t.r.meter.takeTrips()
	c.CanaryN, c.CanaryP99 = len(trips), quantile(trips, 0.99).Seconds()
	if p, ok := t.r.Transport.(interface{ PeerStreams() int }); ok {
		c.Streams = p.PeerStreams()
	}
	ended.since(t.began, wall, &c)
	return c
}

// quantile is the order statistic at or above the share q; 0 of nothing. It sorts d.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(math.Ceil(q*float64(len(d))))-1)]
}

// gauge is a number of things that last, and its integral over time.
type gauge struct {
	mu   sync.Mutex
	n    int
	sum  float64 // things × seconds until last
	last sample.Nanos
}

func (g *gauge) add(d int, now sample.Nanos) {
	g.area(now)
	g.mu.Lock()
	g.n += d
	g.mu.Unlock()
}

// area is the integral so far.
func (g *gauge) area(now sample.Nanos) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now > g.last {
		g.sum += float64(g.n) * (now - g.last).Duration().Seconds()
		g.last = now
	}
	return g.sum
}

// reading is the process's counters at one instant.
type reading struct {
	sched, pauses metrics.Float64Histogram // counts are copies
	cpu           time.Duration            // processor time used
	gc            float64                  // processor seconds of the collector, but for what it took of an idle processor
	host          host
}

const (
	schedMetric  = "/sched/latencies:seconds"
	pausesMetric = "/sched/pauses/total/gc:seconds"
	gcMetric     = "/cpu/classes/gc/total:cpu-seconds"
	gcIdleMetric = "/cpu/classes/gc/mark/idle:cpu-seconds"
)

func read() reading {
	s := []metrics.Sample{{Name: schedMetric}, {Name: pausesMetric}, {Name: gcMetric}, {Name: gcIdleMetric}}
	metrics.Read(s)
	r := reading{cpu: processorTime(), gc: number(s[2]) - number(s[3]), host: readHost(root)}
	r.sched, r.pauses = histogram(s[0]), histogram(s[1])
	return r
}

// A metric that a later runtime has dropped reads as nothing: these explain, they decide nothing.
func number(s metrics.Sample) float64 {
	if s.Value.Kind() != metrics.KindFloat64 {
		return 0
	}
	return s.Value.Float64()
}

func histogram(s metrics.Sample) metrics.Float64Histogram {
	if s.Value.Kind() != metrics.KindFloat64Histogram {
		return metrics.Float64Histogram{}
	}
	return *s.Value.Float64Histogram()
}

// since puts the differences to an earlier reading, wall seconds ago, into c.
func (r reading) since(was reading, wall float64, c *sample.Client) {
	sched, pauses := difference(r.sched, was.sched), difference(r.pauses, was.pauses)
	_, c.SchedP99 = bound(sched, 0.99)
	var n uint64
	n, c.GCPauseMax = bound(pauses, 1)
	c.GCPauses = int(n)
	c.GC = max(0, r.gc-was.gc) / wall / float64(runtime.GOMAXPROCS(0))
	c.CPU = (r.cpu - was.cpu).Seconds() / wall / float64(runtime.GOMAXPROCS(0))
	if r.host.throttled >= 0 && was.host.throttled >= 0 {
		c.Throttled = r.host.throttled - was.host.throttled
	}
	c.PSI = -1
	if r.host.stalled >= 0 && was.host.stalled >= 0 {
		c.PSI = min(1, (r.host.stalled-was.host.stalled).Seconds()/wall)
	}
	c.Descriptors = descriptors(root)
}

func difference(now, was metrics.Float64Histogram) metrics.Float64Histogram {
	d := metrics.Float64Histogram{Buckets: now.Buckets, Counts: slices.Clone(now.Counts)}
	for i := range was.Counts {
		d.Counts[i] -= was.Counts[i]
	}
	return d
}

// bound is how many values a histogram holds, and the upper edge of the bucket in which the share q of them is reached.
func bound(h metrics.Float64Histogram, q float64) (n uint64, edge float64) {
	for _, c := range h.Counts {
		n += c
	}
	if n == 0 {
		return 0, 0
	}
	want, seen := uint64(math.Ceil(q*float64(n))), uint64(0)
	for i, c := range h.Counts {
		if seen += c; seen >= want {
			edge = h.Buckets[i+1]
			if math.IsInf(edge, 1) {
				edge = h.Buckets[i]
			}
			break
		}
	}
	return n, edge
}

package traffic

import (
	"slices"
	"time"

	"loadline/internal/metric"
)

// The periods in which SageMaker publishes.
const (
	// ConcurrencyPeriod is that of requests in flight.
	ConcurrencyPeriod = 10 * time.Second
	meterPeriod       = time.Minute
)

// meter is the metrics of one variant. Those of AWS/SageMaker count a request when it ends, so that its latency, its
// error and itself fall into the same period; an aborted one counts as an invocation and has no latency.
type meter struct {
	concurrency *metric.Series // per instance: min, max and mean over them

	invocations, perInstance          *metric.Series
	errors4XX, errors5XX, modelErrors *metric.Series
	modelLatency, overhead            *metric.Series // microseconds, to the last byte
	cpu, memory, gpu, gpuMemory       *metric.Series // percent, cores and GPUs summed

	// Of bidirectional streams alone: microseconds to the first part, and whether the stream broke once it had begun.
	firstChunk, firstModel, firstOverhead, midStream *metric.Series
}

const (
	invocationNamespace = "AWS/SageMaker"
	instanceNamespace   = "/aws/sagemaker/Endpoints"
	copyNamespace       = "/aws/sagemaker/InferenceComponents"
)

func (t *Traffic) newMeter(endpoint, variant string) (*meter, error) {
	dims := metric.JoinDims([]metric.Dimension{{Name: "EndpointName", Value: endpoint}, {Name: "VariantName", Value: variant}})
	return t.meterOf(dims, instanceNamespace, "ConcurrentRequestsPerModel", "InvocationsPerInstance")
}

// meterOf is the metrics under some dimensions: usage is the namespace of what is used, concurrent and per the names of
// those that are per instance, or per copy.
func (t *Traffic) meterOf(dims, usage, concurrent, per string) (*meter, error) {
	m := &meter{}
	for _, s := range []struct {
		at              **metric.Series
		namespace, name string
		unit            string
		period          time.Duration
	}{
		{&m.concurrency, invocationNamespace, concurrent, "None", ConcurrencyPeriod},
		{&m.invocations, invocationNamespace, "Invocations", "None", meterPeriod},
		{&m.perInstance, invocationNamespace, per, "None", meterPeriod},
		{&m.errors4XX, invocationNamespace, "Invocation4XXErrors", "None", meterPeriod},
		{&m.errors5XX, invocationNamespace, "Invocation5XXErrors", "None", meterPeriod},
		{&m.modelErrors, invocationNamespace, "InvocationModelErrors", "None", meterPeriod},
		{&m.modelLatency, invocationNamespace, "ModelLatency", "Microseconds", meterPeriod},
		{&m.overhead, invocationNamespace, "OverheadLatency", "Microseconds", meterPeriod},
		{&m.firstChunk, invocationNamespace, "FirstChunkLatency", "Microseconds", meterPeriod},
		{&m.firstModel, invocationNamespace, "FirstChunkModelLatency", "Microseconds", meterPeriod},
		{&m.firstOverhead, invocationNamespace, "FirstChunkOverheadLatency", "Microseconds", meterPeriod},
		{&m.midStream, invocationNamespace, "MidStreamErrors", "None", meterPeriod},
		{&m.cpu, usage, "CPUUtilization", "Percent", meterPeriod},
		{&m.memory, usage, "MemoryUtilization", "Percent", meterPeriod},
		{&m.gpu, usage, "GPUUtilization", "Percent", meterPeriod},
		{&m.gpuMemory, usage, "GPUMemoryUtilization", "Percent", meterPeriod},
	} {
		var err error
		*s.at, err = t.cfg.Metrics.Series(metric.Key{Namespace: s.namespace, Name: s.name, Dims: dims},
			metric.Spec{Unit: s.unit, Resolution: s.period, Published: t.cfg.Published})
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// count is one invocation that ended at now.
type count struct {
	instances int           // that took traffic when it came
	status    int           // of the container; 0: it gave no whole answer
	whole     bool          // its reply was relayed to the end, and the latencies count
	aborted   bool          // the caller left: not the model's fault
	model     time.Duration // from the request's way into the container to the last byte out of it
	overhead  time.Duration // the rest of the time here
}

func (m *meter) count(now time.Time, c count) {
	flag := func(s *metric.Series, is bool) {
		v := 0.0
		if is {
			v = 1
		}
		s.Observe(now, v, 1)
	}
	flag(m.invocations, true)
	if c.instances > 0 {
		m.perInstance.Observe(now, 1/float64(c.instances), 1)
	}
	flag(m.errors4XX, c.status/100 == 4)
	flag(m.errors5XX, c.status/100 == 5)
	flag(m.modelErrors, !c.aborted && c.status/100 != 2)
	if c.whole {
		m.modelLatency.Observe(now, float64(c.model.Microseconds()), 1)
		m.overhead.Observe(now, float64(c.overhead.Microseconds()), 1)
	}
}

// Publish closes the periods that have ended by now: what is known by its level or by its use up to then, and the zeros
// of a variant that nobody called.
func (t *Traffic) Publish(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	minute := now.Truncate(meterPeriod)
	if t.minute.IsZero() {
		t.minute = minute
	}
	ended := minute.After(t.minute)
	last := minute.Add(-meterPeriod)
	t.minute = minute
	for _, r := range *t.routes.Load() {
		for _, p := range r.all() {
			p.publish(now, ended, last)
		}
	}
}

// publish closes the periods of one pool; last is the minute before this one, where that has ended. Traffic's lock is held.
func (p *Pool) publish(now time.Time, ended bool, last time.Time) {
	p.mu.Lock()
	live := slices.Concat(p.live, p.leaving)
	p.mu.Unlock()
	if p.mean != nil && len(live) > 0 {
		p.mean.Advance(now)
	}
	for _, i := range live {
		if i.gauge != nil {
			i.gauge.Advance(now)
		}
		if ended {
			i.use(p.meter, now, last)
		}
	}
	if m := p.meter; ended && len(live) > 0 && m.invocations.Empty(last) {
		for _, s := range []*metric.Series{m.invocations, m.perInstance, m.errors4XX, m.errors5XX, m.modelErrors} {
			s.Observe(last, 0, 1)
		}
	}
}

// use stores what an instance used since the end of the last minute. t.mu is held.
func (i *Instance) use(m *meter, now, minute time.Time) {
	used, seconds := i.box.Usage(), now.Sub(i.usedAt).Seconds()
	if seconds <= 0 {
		return
	}
	m.cpu.Observe(minute, 100*(used.CPU-i.used.CPU)/seconds, 1)
	m.gpu.Observe(minute, 100*(used.GPU-i.used.GPU)/seconds, 1)
	m.memory.Observe(minute, used.Memory, 1)
	m.gpuMemory.Observe(minute, used.GPUMemory, 1)
	i.used, i.usedAt = used, now
}

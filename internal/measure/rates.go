package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/ladder"
	"loadline/internal/openloop"
	"loadline/internal/sample"
)

// OpenLoop sends a step's requests at their times, hands over every completed one in order of completion, and returns when
// all have ended. seq is that of the first.
type OpenLoop func(ctx context.Context, rung, seq int, at []time.Duration, observe func(sample.Request)) (openloop.Sent, error)

// RatesConfig is one open-loop ladder. A target by URL has no Freeze, Counter and Metrics.
type RatesConfig struct {
	Doc      *artifact.Rates // its header, settings and objective; results are filled in
	Steps    []openloop.Step
	Open     OpenLoop
	Start    time.Time // zero of the times in the records
	Idle     time.Duration
	Save     func(doc *artifact.Rates, requests []sample.Request) error
	Progress Progress

	Freeze  *artifact.Freeze
	Fleet   Fleet
	Records Records
	Counter Counter
	Metrics Metrics
	Spend   time.Duration
	Alarms  func(ctx context.Context) ([]string, error)
	Publish time.Duration
}

// Rates measures and returns the record, also when it stopped early: then it is kept incomplete, with the error that says
// why.
func Rates(ctx context.Context, c RatesConfig) (*artifact.Rates, error) {
	m := &rates{RatesConfig: c, began: time.Now()}
	err := m.guarded(ctx)
	c.Doc.Complete = err == nil
	if len(c.Doc.Rungs) == 0 {
		return c.Doc, err
	}
	if c.Metrics != nil && ctx.Err() == nil {
		m.await(ctx)
	}
	return c.Doc, errors.Join(err, c.Save(c.Doc, nil))
}

type rates struct {
	RatesConfig
	began time.Time
	seq   int
}

func (m *rates) guarded(ctx context.Context) error {
	if m.Spend > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, m.began.Add(m.Spend), ErrSpent)
		defer cancel()
	}
	if err := noneFiring(ctx, m.Alarms); err != nil {
		return err
	}
	if m.Freeze == nil {
		return m.watched(ctx)
	}
	return Frozen(ctx, m.Fleet, m.Records, *m.Freeze, 1, func(ctx context.Context) error {
		m.Doc.Frozen = true
		return m.watched(ctx)
	})
}

// watched takes the steps while the alarms are watched.
func (m *rates) watched(whole context.Context) error {
	return guarded(whole, m.Alarms, func(ctx context.Context, _ *sync.WaitGroup, _ context.CancelCauseFunc) error { return m.steps(ctx) })
}

func (m *rates) steps(ctx context.Context) error {
	for i, p := range m.Steps {
		if i > 0 {
			if err := pause(ctx, m.Idle); err != nil {
				return err
			}
		}
		runtime.GC() // between rungs rather than in one
		if err := m.step(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (m *rates) step(ctx context.Context, p openloop.Step) error {
	counts := counts{counter: m.Counter}
	if err := counts.read(ctx); err != nil {
		return err
	}
	var mu sync.Mutex
	var now seen
	var watch sync.WaitGroup
	watched, unwatch := context.WithCancel(ctx)
	watch.Go(func() { counts.watch(watched) })
	began := time.Now()
	watch.Go(func() {
		for {
			elapsed := time.Since(began)
			view := ladder.Progress{
				Title: title(m.Doc.Target.Model, m.Doc.Percentile, m.Doc.SLOOn, m.Doc.SLOMS),
				Rung:  fmt.Sprintf("rate %d of %d", p.Index+1, len(m.Steps)), Load: fmt.Sprintf("%.2f/s (%.0f %% of μ)", p.Rate, 100*p.Share),
				Percentile: m.Doc.Percentile, SLO: m.Doc.SLOMS / 1000, Proof: fmt.Sprintf("open loop: %d requests at this rate, sent when they are due", len(p.At)),
				Elapsed: elapsed, Hold: p.Profile.Len(), Left: m.left(p, elapsed),
			}
			mu.Lock()
			now.tell(&view, elapsed)
			mu.Unlock()
			draw(m.Progress, view)
			if pause(watched, time.Second) != nil {
				return
			}
		}
	})
	requests := make([]sample.Request, 0, len(p.At))
	sent, err := m.Open(ctx, p.Index, m.seq, p.At, func(r sample.Request) {
		requests = append(requests, r)
		mu.Lock()
		now.add(r, sample.Mark(m.Doc.SLOOn), sample.FromIntended, m.Doc.SLOMS/1000)
		mu.Unlock()
	})
	unwatch()
	watch.Wait()
	if err != nil {
		return cause(ctx, fmt.Errorf("send %.2f a second: %w", p.Rate, err))
	}
	if err := counts.read(ctx); err != nil {
		return err
	}
	m.seq += len(p.At)
	sent.Counts = counts.seen
	d := m.Doc
	for _, n := range sent.Counts {
		if !slices.Contains(d.InstanceCounts, n) {
			d.InstanceCounts = append(d.InstanceCounts, n)
		}
	}
	r := openloop.Judge(openloop.Config{SLO: time.Duration(d.SLOMS * float64(time.Millisecond)), Percentile: d.Percentile, Mark: sample.Mark(d.SLOOn)}, p, sent, requests)
	d.Rungs = append(d.Rungs, r)
	m.Progress.Note(TellRate(r))
	if err := m.Save(d, requests); err != nil {
		return fmt.Errorf("keep rung %d: %w", r.Index, err)
	}
	return nil
}

// left is the time until the last step has ended.
func (m *rates) left(p openloop.Step, elapsed time.Duration) time.Duration {
	left := max(0, p.Profile.Len()-elapsed)
	for _, q := range m.Steps[p.Index+1:] {
		left += m.Idle + q.Profile.Len()
	}
	return left
}

// TellRate is one rung in a line.
func TellRate(r openloop.Rung) string {
	s := fmt.Sprintf("%.2f a second (%.0f %% of μ): %.2f in flight, %d at most", r.Rate, 100*r.Share, r.Mean, r.Max)
	if r.Predicted != nil {
		s += fmt.Sprintf(" (chain %.2f)", *r.Predicted)
	}
	if r.P95 != nil {
		s += ", p95 " + milliseconds(*r.P95/1000)
	}
	s += fmt.Sprintf(", %d late of %d", r.Late, r.Samples)
	if !r.Valid {
		return s + ": invalid: " + r.Cause
	}
	return s + ": " + string(r.Verdict)
}

// await joins CloudWatch to every rung, waiting for what is not published yet.
func (m *rates) await(ctx context.Context) {
	limit := m.Publish
	if limit == 0 {
		limit = publishLimit
	}
	d := m.Doc
	warn := func(format string, a ...any) { d.Warnings = append(d.Warnings, fmt.Sprintf(format, a...)) }
	spans := make([]span, len(d.Rungs))
	for i, r := range d.Rungs {
		spans[i] = span{m.Start.Add(time.Duration(r.StartedNS)), m.Start.Add(time.Duration(r.EndedNS))}
	}
	from, to := spans[0].from, spans[len(spans)-1].to
	for {
		points, err := m.Metrics.Read(ctx, joined, from, to)
		if err != nil {
			warn("CloudWatch could not be read, the rungs carry no server figures: %v", err)
			return
		}
		missing, left := unpublished(spans, points), time.Until(to.Add(limit))
		if missing == 0 || left <= 0 {
			if missing > 0 {
				warn("CloudWatch had not published %d datapoints %s after the last rung: they are left out", missing, limit)
			}
			for i := range d.Rungs {
				d.Rungs[i].CW = joinRate(d.Rungs[i], spans[i], points)
			}
			return
		}
		m.Progress.Show(time.Now(), fmt.Sprintf("waiting for CloudWatch to publish %d datapoints, at most %s more", missing, clock(left)))
		if pause(ctx, min(left, publishEvery)) != nil {
			warn("interrupted before CloudWatch had published %d datapoints: they are left out", missing)
			return
		}
	}
}

// joinRate is what CloudWatch says of a rung. Its maximum is that of each period on average, over the client's mean: under
// open arrivals the two differ, and that ratio is what turns a concurrency into the metric's units.
func joinRate(r openloop.Rung, s span, points map[Metric][]Point) *ladder.Server {
	closed := ladder.Rung{N: max(1, int(r.Mean+0.5)), Client: &sample.Client{InFlight: r.Mean}}
	out := join(closed, s, points)
	if out == nil {
		return nil
	}
	if highs := s.within(concurrencyMax, points[concurrencyMax]); len(highs) > 0 && r.Mean > 0 {
		ratio := mean(highs) / r.Mean
		out.Ratio = &ratio
	}
	// Means of a busy and an idle server scatter: only a large difference says that the two saw other traffic.
	if held := out.ConcurrencyMean; held != nil && (*held > r.Mean+max(1, r.Mean/2) || *held < r.Mean-max(1, r.Mean/2)) {
		out.Squared, out.Agreement = false, fmt.Sprintf("cannot be squared: the server's mean concurrency %.1f, the client's %.1f", *held, r.Mean)
	} else {
		out.Squared, out.Agreement = true, "agrees"
	}
	return out
}

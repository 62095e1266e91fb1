// Package measure runs one measurement from end to end: it freezes the variant, holds what the search asks for, hands over
// what came back, keeps every closed rung, reads the instance count around each, joins CloudWatch, and puts everything
// back whatever happens.
//
// Which rung is next, whether it counts and what Q_max is, is decided in package ladder; what must not be measured and
// what needs consent, in package freeze.
//
//	doc, err := measure.QMax(ctx, measure.Config{Doc: doc, Searcher: newSearch, Runs: 1, Prober: loop, …})
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
	"loadline/internal/chart"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/ladder"
	"loadline/internal/sample"
	"loadline/internal/scaleout"
)

// Prober holds requests in flight.
type Prober interface {
	// Run owns the goroutines; it returns when ctx has ended and all of them with it.
	Run(ctx context.Context) error
	// Hold keeps n in flight and hands over every completed request, in order of completion, until observe says done or
	// ctx ends.
	Hold(ctx context.Context, rung, n int, observe func(sample.Request) (done bool)) (sample.Client, error)
	// Idle lets what is in flight end.
	Idle(ctx context.Context, observe func(sample.Request)) error
}

// Counter reads how many instances the variant has.
type Counter interface {
	Count(ctx context.Context) (status string, desired, current int, err error)
}

// Metrics reads what CloudWatch published between two times; what it did not is absent.
type Metrics interface {
	Read(ctx context.Context, metrics []Metric, from, to time.Time) (map[Metric][]Point, error)
}

// Journal keeps what has been measured.
type Journal interface {
	// Save has made the record so far, and the requests since the last call, durable when it returns.
	Save(doc *artifact.QMax, requests []sample.Request) error
}

// Progress is told what is being done.
type Progress interface {
	Show(now time.Time, line string) // replaces the line before
	Note(line string)                // stays
}

// Viewer is a Progress that can draw a rung, and a scale-out.
type Viewer interface {
	Draw(now time.Time, p ladder.Progress)
	DrawScaleOut(now time.Time, p scaleout.Progress)
}

// Config is one qmax measurement. A target by URL has no Freeze, Counter and Metrics.
type Config struct {
	Doc      *artifact.QMax // its header, settings and objective; results are filled in
	Searcher func(run int) (ladder.Searcher, error)
	Runs     int
	Prober   Prober
	Start    time.Time // zero of the times in the records, with its monotonic reading
	Journal  Journal
	Progress Progress

	Freeze  *artifact.Freeze // what to put back; nil: nothing is changed
	Fleet   Fleet
	Records Records
	Counter Counter
	Metrics Metrics

	Bound   int                                         // the endpoint refuses beyond this many in flight; 0: it does not
	Closed  []ladder.Rung                               // rungs of an interrupted run, replayed instead of measured
	Spend   time.Duration                               // stop before the instance has been held this long; 0: no limit
	Alarms  func(ctx context.Context) ([]string, error) // alarms that are firing; nil: none are watched
	Expect  func(service time.Duration) time.Duration   // of the whole, once service is known; nil: not said
	Publish time.Duration                               // longest wait for CloudWatch after the last rung; 0: 3 minutes
}

// Why a measurement stopped. Each comes wrapped in a text for people.
var (
	ErrSpent = errors.New("stopped at the cost limit")
	ErrAlarm = errors.New("a stop alarm is firing")
)

// Admit reads the variant and says whether it may be measured: refused, or asked about and agreed to by its owner.
func Admit(ctx context.Context, inspect func(context.Context) (freeze.Variant, error), o freeze.Options, agree func(questions []string) error) (freeze.Variant, error) {
	v, err := inspect(ctx)
	if err != nil {
		return v, err
	}
	if err := freeze.Refuse(v, o); err != nil {
		return v, err
	}
	if ask := freeze.Consent(v); ask != nil {
		return v, agree(ask)
	}
	return v, nil
}

// QMax measures and returns the record, also when it stopped early: then it is kept incomplete, with the error that says
// why, and can be resumed.
func QMax(ctx context.Context, c Config) (*artifact.QMax, error) {
	m := &run{Config: c, doc: c.Doc, replay: slices.Clone(c.Closed), began: time.Now()}
	err := m.guarded(ctx)
	m.doc.Complete = err == nil
	if len(m.doc.Rungs) == 0 { // nothing that is worth the name of an earlier run's file
		return m.doc, err
	}
	m.fill()
	if c.Metrics != nil && ctx.Err() == nil {
		m.await(ctx)
	}
	if saveErr := c.Journal.Save(m.doc, nil); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	return m.doc, err
}

// run is a measurement in progress. Its methods are for one goroutine.
type run struct {
	Config
	doc     *artifact.QMax
	replay  []ladder.Rung
	results []ladder.Result // of the passes, the current one last
	began   time.Time       // of this process's part, for the cost
	expect  time.Duration   // of the whole
}

// guarded measures inside the cost limit, and frozen where that is asked for.
func (m *run) guarded(ctx context.Context) error {
	if m.Spend > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, m.began.Add(m.Spend), ErrSpent)
		defer cancel()
	}
	if err := noneFiring(ctx, m.Alarms); err != nil {
		return err
	}
	if m.Freeze == nil {
		return m.measure(ctx)
	}
	return Frozen(ctx, m.Fleet, m.Records, *m.Freeze, 1, func(ctx context.Context) error {
		m.doc.Frozen = true
		return m.measure(ctx)
	})
}

func (m *run) now() sample.Nanos { return sample.Since(time.Since(m.Start)) }

// measure runs every pass while the prober and the alarms are watched.
func (m *run) measure(whole context.Context) error {
	var failed error
	err := guarded(whole, m.Alarms, func(ctx context.Context, group *sync.WaitGroup, stop context.CancelCauseFunc) error {
		group.Go(func() {
			if err := m.Prober.Run(ctx); err != nil {
				failed = exit.CannotTell(fmt.Errorf("load generator: %w", err))
				stop(failed)
			}
		})
		return m.passes(ctx)
	})
	if err != nil {
		return err
	}
	return failed
}

// guarded does something while the alarms are watched, and waits for them and for what it put into the group. An alarm
// that fires stops it and refuses; alarms may be nil.
func guarded(whole context.Context, alarms func(context.Context) ([]string, error), do func(context.Context, *sync.WaitGroup, context.CancelCauseFunc) error) error {
	ctx, stop := context.WithCancelCause(whole)
	defer stop(nil)
	var group sync.WaitGroup
	if alarms != nil {
		group.Go(func() { watchAlarms(ctx, alarms, stop) })
	}
	err := do(ctx, &group, stop)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	stop(nil)
	group.Wait()
	switch {
	case errors.Is(err, ErrAlarm):
		return exit.Refuse(err)
	case err != nil:
		return interrupted(whole, err)
	}
	return nil
}

func (m *run) passes(ctx context.Context) error {
	for pass := range max(1, m.Runs) {
		s, err := m.Searcher(pass)
		if err != nil {
			return err
		}
		m.results = append(m.results, s.Result())
		for {
			p, more := s.Next()
			if !more {
				break
			}
			if err := m.probe(ctx, s, pass, p); err != nil {
				return err
			}
			m.results[pass] = s.Result()
			m.fill()
			if m.doc.SMean != nil && m.Expect != nil && m.expect == 0 {
				m.expect = time.Duration(m.Runs) * m.Expect(seconds(*m.doc.SMean))
			}
		}
		m.results[pass] = s.Result()
		if m.Metrics != nil && pass < m.Runs-1 { // ten-second data lives three hours
			m.join(ctx)
		}
	}
	return nil
}

// probe takes one rung from the interrupted run, or measures it and keeps it.
func (m *run) probe(ctx context.Context, s ladder.Searcher, pass int, p ladder.Probe) error {
	if len(m.replay) > 0 && m.replay[0].Run == pass {
		r := m.replay[0]
		m.replay = m.replay[1:]
		if err := s.Replay(r); err != nil {
			return exit.Misuse(fmt.Errorf("resume: rung %d of the interrupted run does not fit this search: %w: resume with the settings it was started with", r.Index, err))
		}
		m.doc.Rungs = append(m.doc.Rungs, r)
		return nil
	}
	if err := m.affords(p); err != nil {
		return err
	}
	var requests []sample.Request
	keep := func(r sample.Request) { requests = append(requests, r) }
	if p.Idle > 0 && len(m.doc.Rungs) > 0 {
		if err := m.idle(ctx, p.Idle, keep); err != nil {
			return err
		}
	}
	runtime.GC() // between rungs rather than in one
	r, err := m.hold(ctx, s, p, keep)
	if err != nil {
		return err
	}
	m.doc.Rungs = append(m.doc.Rungs, r)
	m.Progress.Note(m.tell(r))
	m.results[pass] = s.Result()
	m.fill()
	if err := m.Journal.Save(m.doc, requests); err != nil {
		return fmt.Errorf("keep rung %d: %w", r.Index, err)
	}
	return nil
}

// hold holds one probe, counts instances around it, and closes it.
func (m *run) hold(ctx context.Context, s ladder.Searcher, p ladder.Probe, keep func(sample.Request)) (ladder.Rung, error) {
	counts := counts{counter: m.Counter}
	if err := counts.read(ctx); err != nil {
		return ladder.Rung{}, err
	}
	limit := p.MaxHold
	if p.Hold > 0 {
		limit = p.Hold
	}
	held, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		held, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()

	id := len(m.doc.Rungs)
	live := live{run: m, probe: p, id: id, began: time.Now()}
	var watch sync.WaitGroup
	watched, unwatch := context.WithCancel(held)
	watch.Go(func() { live.watch(watched) })
	watch.Go(func() { counts.watch(watched) })
	began := m.now()
	client, err := m.Prober.Hold(held, id, p.N, func(r sample.Request) bool {
		keep(r)
		if r.Rung != id { // started under the rung before
			return false
		}
		live.add(r)
		return s.Add(r)
	})
	ended := m.now()
	unwatch()
	watch.Wait()
	if ctx.Err() != nil {
		return ladder.Rung{}, context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return ladder.Rung{}, fmt.Errorf("hold %d in flight: %w", p.N, err)
	}
	if err := counts.read(ctx); err != nil {
		return ladder.Rung{}, err
	}
	r := s.Close(ladder.Evidence{Client: client, Counts: counts.seen, Began: began, Ended: ended})
	r.Client, r.Counts = &client, counts.seen
	for _, n := range counts.seen {
		if !slices.Contains(m.doc.InstanceCounts, n) {
			m.doc.InstanceCounts = append(m.doc.InstanceCounts, n)
		}
	}
	return r, nil
}

// idle holds nothing for d.
func (m *run) idle(ctx context.Context, d time.Duration, keep func(sample.Request)) error {
	if err := m.Prober.Idle(ctx, keep); err != nil {
		return cause(ctx, fmt.Errorf("let the requests in flight end: %w", err))
	}
	until := time.Now().Add(d)
	for {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		m.Progress.Show(time.Now(), fmt.Sprintf("idle: %s left before the next rung", left.Round(time.Second)))
		if err := pause(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
}

// affords stops before a probe that the cost limit would cut short.
func (m *run) affords(p ladder.Probe) error {
	if m.Spend == 0 || p.Hold == 0 {
		return nil // an adaptive probe usually ends long before its limit; the deadline of the whole bounds it
	}
	if spent := time.Since(m.began); spent+p.Idle+p.Hold > m.Spend {
		return fmt.Errorf("%w: the next rung (%d in flight, %s) would go beyond it", ErrSpent, p.N, chart.Length(p.Idle+p.Hold))
	}
	return nil
}

// fill brings the record up to date with what the passes know.
func (m *run) fill() {
	if len(m.results) == 0 {
		return
	}
	r := ladder.Combine(m.results)
	d := m.doc
	d.QMax, d.Certificate, d.Bracket, d.Cliff = r.QMax, r.Certificate, r.Bracket, r.Cliff
	d.Verdict, d.Reason, d.PerRun = string(r.Verdict), r.Reason, r.PerRun
	d.Mu, d.SMean, d.SP95, d.FirstAudioAt1 = r.Mu, r.SMean, r.SP95, r.FirstAudioAt1
	d.ProbePair, d.CharsPerS, d.Warnings = r.ProbePair, r.CharsPerS, slices.Clone(r.Warnings)
	if q := d.QMax; m.Bound > 0 && q != nil && *q > m.Bound { // a few refusals among many are within the objective
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d in flight met the objective, of which the queue bound admits %d: that is Q_max", *q, m.Bound))
		d.QMax, d.Bracket.Pass = new(m.Bound), min(d.Bracket.Pass, m.Bound)
	}
}

// noneFiring refuses to begin while a stop alarm is firing; nil alarms watch none.
func noneFiring(ctx context.Context, alarms func(context.Context) ([]string, error)) error {
	if alarms == nil {
		return nil
	}
	firing, err := alarms(ctx)
	if err == nil && len(firing) > 0 {
		err = exit.Refuse(fmt.Errorf("%w before anything was changed: %q", ErrAlarm, firing))
	}
	return err
}

const (
	alarmEvery = 10 * time.Second
	// alarmBlind is how many looks in a row may fail: a guard that cannot see guards nothing.
	alarmBlind = 6
)

// watchAlarms stops the run when an alarm fires, or when the alarms cannot be read for a minute.
func watchAlarms(ctx context.Context, alarms func(context.Context) ([]string, error), stop context.CancelCauseFunc) {
	blind := 0
	for pause(ctx, alarmEvery) == nil {
		firing, err := alarms(ctx)
		switch {
		case err != nil:
			if blind++; blind == alarmBlind {
				stop(exit.CannotTell(fmt.Errorf("the stop alarms cannot be read any more: %w", err)))
			}
		case len(firing) > 0:
			stop(fmt.Errorf("%w: %q", ErrAlarm, firing))
		default:
			blind = 0
		}
	}
}

// pause waits for d, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// cause is why ctx ended when that is what err is about.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

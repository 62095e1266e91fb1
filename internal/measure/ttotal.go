package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/sample"
	"loadline/internal/scaleout"
)

// ErrQuota is a capacity call that the account's quota refuses.
var ErrQuota = errors.New("the account's quota does not allow it")

// Look is one look at a variant while its count changes.
type Look struct {
	Status, Reason   string // Reason: why its last change failed
	Desired, Current int
	Modified         time.Time // of the endpoint, last
}

// Scaler changes a variant's count and watches it change.
type Scaler interface {
	// Scale asks for n instances and says when the call that was accepted was made.
	Scale(ctx context.Context, n int) (time.Time, error)
	// Settle waits until the variant holds n.
	Settle(ctx context.Context, n int) error
	Look(ctx context.Context) (Look, error)
}

// Logbook reads what the variant's containers print.
type Logbook interface {
	Streams(ctx context.Context) ([]string, error)
	Head(ctx context.Context, stream string) ([]scaleout.Event, error)
}

// Policy is the deployed policy, where it is to decide.
type Policy interface {
	// Release lets the policy scale out, and nothing else.
	Release(ctx context.Context) error
	// Fired is when, since a time, its alarm fired and when it decided; zero for what has not been seen.
	Fired(ctx context.Context, since time.Time) (alarm, decision time.Time, err error)
}

// ScaleOut is one ttotal measurement. The variant is pinned to one instance, and every run adds to it.
type ScaleOut struct {
	Doc      *artifact.TTotal // its header, trigger and detection; results are filled in
	Runs     int
	Prober   Prober
	Probe    int // requests held
	Mark     sample.Mark
	SLO      float64   // seconds, of the ladder: what the view holds the probe against
	Price    float64   // of an instance, US dollars an hour; 0: not known
	Start    time.Time // zero of the times in the records, with its monotonic reading
	Rule     scaleout.Rule
	Warmup   time.Duration
	Settle   time.Duration // how long the probe goes on after the instance is in service
	MaxWait  time.Duration // for an instance
	Poll     time.Duration // between looks
	Progress Progress
	Keep     func([]sample.Request) error // of each run; nil: requests are not kept

	Freeze  artifact.Freeze
	Fleet   Fleet
	Records Records
	Scaler  Scaler
	Logs    Logbook
	Policy  Policy // nil: the capacity call is our own

	Spend  time.Duration
	Alarms func(ctx context.Context) ([]string, error)
}

// TTotal measures and returns the record. An error says that no run came to a total; where one was seen to its service and
// not to recovered traffic, the record is a floor and comes back with the error.
func TTotal(ctx context.Context, c ScaleOut) (*artifact.TTotal, error) {
	s := &growth{ScaleOut: c, doc: c.Doc, began: time.Now()}
	if c.Spend > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, time.Now().Add(c.Spend), ErrSpent)
		defer cancel()
	}
	err := noneFiring(ctx, c.Alarms)
	if err == nil {
		err = Frozen(ctx, c.Fleet, c.Records, c.Freeze, 1, s.measure)
	}
	if len(s.doc.Attempts) == 0 {
		return s.doc, err
	}
	return s.doc, errors.Join(err, s.fill())
}

// growth is a measurement in progress.
type growth struct {
	ScaleOut
	doc   *artifact.TTotal
	began time.Time
	best  *attempt // the slowest that succeeded, or the longest floor
}

// measure does every run while the prober and the alarms are watched.
func (s *growth) measure(whole context.Context) error {
	return guarded(whole, s.Alarms, func(ctx context.Context, group *sync.WaitGroup, stop context.CancelCauseFunc) error {
		group.Go(func() {
			if err := s.Prober.Run(ctx); err != nil {
				stop(exit.CannotTell(fmt.Errorf("load generator: %w", err)))
			}
		})
		return s.runs(ctx)
	})
}

func (s *growth) runs(ctx context.Context) error {
	for run := range max(1, s.Runs) {
		if run > 0 {
			s.Progress.Show(time.Now(), "going back to one instance for the next run")
			if _, err := s.Scaler.Scale(ctx, 1); err != nil {
				return err
			}
			if err := s.Scaler.Settle(ctx, 1); err != nil {
				return err
			}
		}
		a, err := s.attempt(ctx, run)
		if err != nil {
			return err
		}
		s.take(a)
		if a.cause == artifact.CauseStuck || a.cause == artifact.CauseQuota {
			return nil // the next one would meet the same
		}
	}
	return nil
}

// attempt is one run.
type attempt struct {
	from, to int
	call     time.Time
	served   time.Time // zero: it never came
	marks    []scaleout.Mark
	ledger   scaleout.Ledger
	recovery scaleout.Recovery
	before   float64 // p95 of the probe before the call, seconds
	instance string
	cause    string
	detail   string
}

// probe is what the probe's replies came to so far.
type probe struct {
	mu       sync.Mutex
	mark     sample.Mark
	requests []sample.Request
	replies  []scaleout.Reply
	over     chan struct{} // closed when it has ended
	failed   error         // why it ended before it was told to; read after over
}

func (p *probe) add(r sample.Request) {
	reply := scaleout.Reply{At: r.At(p.mark), Latency: r.Latency(p.mark, sample.FromStarted)}
	if !reply.At.Known() || math.IsInf(reply.Latency, 1) {
		reply.At = r.End
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.replies = append(p.requests, r), append(p.replies, reply)
}

// ended is why the probe is over before it was told to be: because the run is, or by itself.
func (p *probe) ended(ctx context.Context) error {
	return cmp.Or(context.Cause(ctx), p.failed, errors.New("the probe ended by itself"))
}

// attempt holds the probe, asks for an instance, and watches what comes of it. An error ends the whole measurement; what is
// wrong with the run itself is the attempt's cause.
func (s *growth) attempt(ctx context.Context, run int) (*attempt, error) {
	streams, err := s.Logs.Streams(ctx)
	if err != nil {
		s.Progress.Note(fmt.Sprintf("the container's stages cannot be read: %v", err))
	}
	probe := &probe{mark: s.Mark}
	holding, release := context.WithCancel(ctx)
	defer release()
	probe.over = make(chan struct{})
	began := time.Now()
	go func() {
		defer close(probe.over)
		_, err := s.Prober.Hold(holding, run, s.Probe, func(r sample.Request) bool { probe.add(r); return false })
		if holding.Err() == nil {
			probe.failed = fmt.Errorf("the probe ended by itself: %w", err)
		}
	}()
	a, err := s.watch(ctx, &growing{growth: s, run: run, probe: probe, began: began, waited: began})
	ended := s.now()
	release()
	<-probe.over
	if err = cmp.Or(err, probe.failed); err != nil {
		return nil, cause(ctx, err)
	}
	if err := s.Prober.Idle(ctx, probe.add); err != nil {
		return nil, cause(ctx, fmt.Errorf("let the requests in flight end: %w", err))
	}
	if s.Keep != nil {
		if err := s.Keep(probe.requests); err != nil {
			return nil, fmt.Errorf("keep the requests of run %d: %w", run, err)
		}
	}
	return a, s.judge(ctx, a, probe, streams, ended)
}

func (s *growth) now() sample.Nanos { return sample.Since(time.Since(s.Start)) }

// watch applies the load, asks for capacity or lets the policy do so, and looks until an instance serves or will not.
func (s *growth) watch(ctx context.Context, v *growing) (*attempt, error) {
	probe, began := v.probe, v.began
	wait := func(d time.Duration) error {
		until := time.Now().Add(d)
		for left := d; left > 0; left = time.Until(until) {
			v.draw()
			select {
			case <-probe.over:
				return probe.ended(ctx)
			default:
			}
			if err := pause(ctx, min(left, time.Second)); err != nil {
				return err
			}
		}
		return nil
	}
	look, err := s.Scaler.Look(ctx)
	if err != nil {
		return nil, err
	}
	v.look = look
	a := &attempt{from: look.Current}
	var marks []scaleout.Mark
	if s.Policy == nil {
		v.await(scaleout.DesiredSet, time.Now().Add(s.Warmup))
		if err := wait(s.Warmup); err != nil {
			return nil, err
		}
		a.call, err = s.Scaler.Scale(ctx, a.from+1)
		if errors.Is(err, ErrQuota) {
			a.call, a.cause, a.detail = time.Now(), artifact.CauseQuota, err.Error()
			return a, nil
		}
		if err != nil {
			return nil, err
		}
		marks = append(marks, scaleout.Mark{Name: scaleout.DesiredSet, At: a.call, Source: "own capacity call"})
		v.await(scaleout.InService, began.Add(s.MaxWait))
	} else {
		began = time.Now()
		v.waited = began
		v.await(scaleout.DesiredSet, began.Add(s.MaxWait))
		marks = append(marks, scaleout.Mark{Name: scaleout.Breach, At: began, Source: "the probe began"})
		if err := s.Policy.Release(ctx); err != nil {
			return nil, err
		}
	}
	last := time.Now()
	for {
		look, err := s.Scaler.Look(ctx)
		now := time.Now()
		if err != nil {
			return nil, err
		}
		if a.call.IsZero() && look.Desired > a.from {
			alarm, decision, err := s.Policy.Fired(ctx, began)
			if err != nil {
				s.Progress.Note(fmt.Sprintf("what the policy did could not be read: %v", err))
			}
			a.call = now
			set := scaleout.Mark{Name: scaleout.DesiredSet, At: now, Bounded: true, Source: "desired count", Note: "seen at a look"}
			if !decision.IsZero() {
				a.call, set = decision, scaleout.Mark{Name: scaleout.DesiredSet, At: decision, Source: "start of the scaling activity"}
				marks = append(marks, scaleout.Mark{Name: scaleout.Decision, At: decision, Source: "start of the scaling activity"})
			}
			if !alarm.IsZero() {
				marks = append(marks, scaleout.Mark{Name: scaleout.Alarm, At: alarm, Source: "state of the alarm"})
			}
			marks = append(marks, set)
			v.await(scaleout.InService, began.Add(s.MaxWait))
		}
		v.look, v.marks = look, marks
		switch {
		case look.Current > a.from && !a.call.IsZero():
			a.served, a.to = now, look.Current
			marks = append(marks, scaleout.Mark{Name: scaleout.InService, At: now, Bounded: true, Source: "current count",
				Note: fmt.Sprintf("seen at a look; it was not there %s earlier", now.Sub(last).Round(time.Millisecond))})
			a.marks, v.marks, v.served = marks, marks, now
			v.await(scaleout.TrafficRecovered, now.Add(s.Settle))
			return a, wait(s.Settle)
		case !a.call.IsZero() && (look.Status == "RollingBack" || look.Status == "Failed" || look.Status == "UpdateRollbackFailed" || look.Status == "InService" && look.Desired <= a.from):
			a.cause, a.detail = failure(look)
			return a, nil
		case now.Sub(began) >= s.MaxWait:
			a.cause = artifact.CauseStuck
			a.detail = fmt.Sprintf("no progress for %s: the endpoint is %s with desired %d and current %d, last modified %s ago, and gives no reason; what is desired is billed once it is there",
				clock(now.Sub(began)), look.Status, look.Desired, look.Current, clock(now.Sub(look.Modified)))
			if a.call.IsZero() {
				a.call, a.detail = began, fmt.Sprintf("the policy did not ask for an instance within %s: its alarms may not see this load", clock(s.MaxWait))
			}
			return a, nil
		}
		last = now
		if err := wait(s.Poll); err != nil {
			return nil, err
		}
	}
}

// failure is why a change came to nothing, by the platform's own words. What is not known to be capacity or quota is never
// called so.
func failure(l Look) (cause, detail string) {
	detail = fmt.Sprintf("the endpoint is %s, desired %d, current %d: %s", l.Status, l.Desired, l.Current, l.Reason)
	if l.Reason == "" {
		detail += "no reason is given"
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(l.Reason), strings.ToLower(w)) })
	}
	switch {
	case has("InsufficientInstanceCapacity", "Unable to provision requested ML compute capacity", "InsufficientCapacity"):
		return artifact.CauseCapacity, detail
	case has("ResourceLimitExceeded", "service limit"):
		return artifact.CauseQuota, detail
	}
	return artifact.CauseHealth, detail
}

// logPatience is how long the log of an instance that serves is waited for.
const logPatience = 20 * time.Second

// judge turns what was seen into the ledger of the run.
func (s *growth) judge(ctx context.Context, a *attempt, probe *probe, before []string, ended sample.Nanos) error {
	call := sample.Since(a.call.Sub(s.Start))
	var earlier []scaleout.Reply
	known := map[string]bool{}
	for i, r := range probe.replies {
		if r.At < call {
			earlier = append(earlier, r)
			known[probe.requests[i].Server] = true
		}
	}
	a.before = scaleout.Quantile(earlier, s.Rule.Quantile)
	if a.cause != "" {
		return nil
	}
	marks := a.marks
	served := sample.Since(a.served.Sub(s.Start))
	first := sample.None
	for _, r := range probe.requests { // by the instance that was not there before
		if r.Outcome == sample.OK && r.Server != "" && len(known) > 0 && !known[""] && !known[r.Server] {
			if at := r.At(s.Mark); !first.Known() || at < first {
				first, a.instance = at, r.Server
			}
		}
	}
	var notes []string
	stream, extra, events, err := s.newStream(ctx, before, a.instance)
	switch {
	case err != nil:
		notes = append(notes, fmt.Sprintf("the new instance's log could not be read, so its stages are missing: %v", err))
	case stream == "":
		notes = append(notes, "no new log stream appeared: the container's stages are missing")
	default:
		marks = append(marks, scaleout.Container(events)...)
		if a.instance == "" {
			_, a.instance, _ = strings.Cut(stream, "/")
		}
	}
	if extra > 0 {
		notes = append(notes, fmt.Sprintf("%d more log streams appeared: the stages are those of %s", extra, stream))
	}
	if first.Known() {
		if at := s.Start.Add(first.Duration()); at.Before(a.served) { // a reply sees it before a look does
			i := slices.IndexFunc(marks, func(m scaleout.Mark) bool { return m.Name == scaleout.InService })
			marks[i].At, marks[i].Source, marks[i].Note = at, "first reply of the new instance", "a look saw it later"
			served = first
		}
		marks = append(marks, scaleout.Mark{Name: scaleout.FirstGoodAudio, At: s.Start.Add(first.Duration()), Source: "first reply of the new instance"})
	}
	a.recovery = scaleout.Recover(probe.replies, served, ended, s.Rule)
	if a.recovery.At.Known() {
		// The windows are slid over the replies, of which the instant is one.
		marks = append(marks, scaleout.Mark{Name: scaleout.TrafficRecovered, At: s.Start.Add(a.recovery.At.Duration()), Bounded: true, Source: "windows of the probe"})
	} else {
		a.cause, a.detail = artifact.CauseNoRecovery, a.recovery.Why
	}
	a.ledger, err = scaleout.Tile(marks)
	if err != nil {
		return fmt.Errorf("stages: %w", err)
	}
	a.ledger.Notes = append(a.ledger.Notes, notes...)
	return nil
}

// newStream is the log stream that was not there before, that of the instance where its name is known; extra are others.
func (s *growth) newStream(ctx context.Context, before []string, instance string) (name string, extra int, events []scaleout.Event, err error) {
	for until := time.Now().Add(logPatience); ; {
		names, err := s.Logs.Streams(ctx)
		if err != nil {
			return "", 0, nil, err
		}
		fresh := slices.DeleteFunc(names, func(n string) bool { return slices.Contains(before, n) })
		extra = max(0, len(fresh)-1)
		name, events = "", nil
		for _, n := range fresh {
			if instance != "" && !strings.Contains(n, instance) {
				continue
			}
			head, err := s.Logs.Head(ctx, n)
			if err != nil {
				return "", 0, nil, err
			}
			if name == "" || len(head) > 0 && len(events) > 0 && head[0].At.Before(events[0].At) {
				name, events = n, head
			}
		}
		ready := slices.ContainsFunc(events, func(e scaleout.Event) bool {
			m, ok := scaleout.ParseMarker(e.Text)
			return ok && m.Stage == scaleout.Ready
		})
		if ready || !time.Now().Before(until) {
			return name, extra, events, nil
		}
		s.Progress.Show(time.Now(), "waiting for the new instance's log")
		if err := pause(ctx, min(s.Poll, time.Second)); err != nil {
			return "", 0, nil, err
		}
	}
}

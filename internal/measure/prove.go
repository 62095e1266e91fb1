package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/chart"
	"loadline/internal/exit"
	"loadline/internal/ladder"
	"loadline/internal/openloop"
	"loadline/internal/proof"
	"loadline/internal/sample"
)

// Proving is one proof: the checks that need one instance first, then the surge. The caller has compared what is deployed.
type Proving struct {
	Doc *artifact.Proof // its header and the check of what is deployed; the others are added

	Step  *openloop.Step // the plan's rate; nil: not asked for
	Queue *QueueLoad     // nil: not asked for
	Surge *SurgeLoad     // nil: not asked for

	Open     OpenLoop
	Prober   Prober
	Start    time.Time // zero of the times in the records, with its monotonic reading
	Idle     time.Duration
	Poll     time.Duration // between looks at a fleet that may grow
	Progress Progress
	Keep     func([]sample.Request) error // of each check; nil: requests are not kept

	Freeze  artifact.Freeze
	Fleet   Fleet
	Records Records
	Counter Counter
	Scaler  Scaler
	Policy  Policy

	Price   float64 // of an instance-hour
	MaxCost float64 // 0: no limit
	Alarms  func(ctx context.Context) ([]string, error)
}

// QueueLoad is what is held below and beyond the bound of the queue.
type QueueLoad struct {
	Below, Above, Bound int
	Hold                time.Duration // each
	Prompt              time.Duration // longest that a refusal may take, at the 95th percentile
}

// SurgeLoad is the surge that the plan is made for.
type SurgeLoad struct {
	Instances, Most int             // it begins with; it may ask for at most
	At              []time.Duration // the whole schedule
	Begins, Lasts   time.Duration   // of the surge within it
	Align           time.Duration   // of its beginning to the periods of the alarms, so that none is half full
	Within          time.Duration   // that an instance must be asked for
	Epsilon         float64         // share that may be refused
}

// Prove makes the checks and returns the record, also when it stopped early: then it is incomplete, and the error says why.
// The variant is put back on every way out.
func Prove(ctx context.Context, c Proving) (*artifact.Proof, error) {
	p := &proving{Proving: c, began: time.Now()}
	err := noneFiring(ctx, c.Alarms)
	if err == nil {
		err = Frozen(ctx, c.Fleet, c.Records, c.Freeze, 1, func(ctx context.Context) error {
			p.Doc.Frozen = true
			return p.load(ctx)
		})
	}
	p.Doc.Complete = err == nil
	p.Doc.Verdict = proof.Together(p.Doc.Checks)
	return p.Doc, err
}

// proving is a proof in progress.
type proving struct {
	Proving
	began time.Time
	seq   int
}

// load does everything that sends requests, while the alarms are watched.
func (p *proving) load(whole context.Context) error {
	whole, cancel := p.affordable(whole, 1)
	defer cancel()
	return guarded(whole, p.Alarms, func(ctx context.Context, group *sync.WaitGroup, stop context.CancelCauseFunc) error {
		group.Go(func() {
			if err := p.Prober.Run(ctx); err != nil {
				stop(exit.CannotTell(fmt.Errorf("load generator: %w", err)))
			}
		})
		for _, do := range []func(context.Context) error{p.rate, p.queue, p.surge} {
			if err := do(ctx); err != nil {
				return cause(ctx, err)
			}
		}
		return nil
	})
}

// affordable ends when what is left of the limit has been spent on so many instances.
func (p *proving) affordable(ctx context.Context, instances int) (context.Context, context.CancelFunc) {
	if p.MaxCost == 0 {
		return ctx, func() {}
	}
	now := time.Now()
	left := p.MaxCost - p.Price*now.Sub(p.began).Hours() // one instance so far
	return context.WithDeadlineCause(ctx, now.Add(time.Duration(left/(p.Price*float64(instances))*float64(time.Hour))), ErrSpent)
}

// add keeps a check.
func (p *proving) add(c proof.Check) {
	p.Doc.Checks = append(p.Doc.Checks, c)
	p.Progress.Note(fmt.Sprintf("%s %s: %s", c.Name, c.Verdict, c.Detail))
}

func (p *proving) keep(rs []sample.Request) error {
	if p.Keep == nil || len(rs) == 0 {
		return nil
	}
	return p.Keep(rs)
}

// seen keeps the counts that were read.
func (p *proving) seen(ns ...int) {
	for _, n := range ns {
		if !slices.Contains(p.Doc.InstanceCounts, n) {
			p.Doc.InstanceCounts = append(p.Doc.InstanceCounts, n)
		}
	}
}

// send sends at the given times, and tells how far it is.
func (p *proving) send(ctx context.Context, rung int, at []time.Duration, lasts time.Duration, doing string) (openloop.Sent, []sample.Request, error) {
	var mu sync.Mutex
	done := 0
	var watch sync.WaitGroup
	watched, unwatch := context.WithCancel(ctx)
	began := time.Now()
	watch.Go(func() {
		for {
			mu.Lock()
			n := done
			mu.Unlock()
			p.Progress.Show(time.Now(), fmt.Sprintf("%s: %d of %d done, %s left", doing, n, len(at), clock(max(0, lasts-time.Since(began)))))
			if pause(watched, time.Second) != nil {
				return
			}
		}
	})
	rs := make([]sample.Request, 0, len(at))
	sent, err := p.Open(ctx, rung, p.seq, at, func(r sample.Request) {
		rs = append(rs, r)
		mu.Lock()
		done++
		mu.Unlock()
	})
	unwatch()
	watch.Wait()
	p.seq += len(at)
	if err != nil {
		return sent, rs, cause(ctx, fmt.Errorf("%s: %w", doing, err))
	}
	return sent, rs, p.keep(rs)
}

const notAsked = "not asked for"

// rate is the objective at the plan's rate, on one instance.
func (p *proving) rate(ctx context.Context) error {
	if p.Step == nil {
		p.add(proof.NotChecked(proof.Lambda, notAsked))
		return nil
	}
	d, s := p.Doc, p.Step
	counts := counts{counter: p.Counter}
	if err := counts.read(ctx); err != nil {
		return err
	}
	sent, rs, err := p.send(ctx, 0, s.At, s.Profile.Len(), fmt.Sprintf("%.2f a second (%.0f %% of μ)", s.Rate, 100*s.Share))
	if err != nil {
		return err
	}
	if err := counts.read(ctx); err != nil {
		return err
	}
	sent.Counts = counts.seen
	p.seen(counts.seen...)
	slo := seconds(d.SLOMS / 1000)
	r := openloop.Judge(openloop.Config{SLO: slo, Percentile: d.Percentile, Mark: sample.Mark(d.SLOOn)}, *s, sent, rs)
	d.Rung = &r
	p.add(proof.Rate(r, slo, d.Percentile))
	return pause(ctx, p.Idle)
}

// queue holds less and more than the bound, on one instance.
func (p *proving) queue(ctx context.Context) error {
	q := p.Queue
	if q == nil {
		p.add(proof.NotChecked(proof.Below, notAsked))
		p.add(proof.NotChecked(proof.Above, notAsked))
		return nil
	}
	below, err := p.held(ctx, 1, q.Below)
	if err != nil {
		return err
	}
	p.add(proof.Under(below))
	if q.Bound == 0 {
		p.add(proof.NotChecked(proof.Above, "the plan leaves the queue unbounded: nothing is refused, and nothing keeps a caller from waiting"))
		return nil
	}
	above, err := p.held(ctx, 2, q.Above)
	if err != nil {
		return err
	}
	p.add(proof.Over(above, q.Prompt))
	return nil
}

// held holds n in flight, and lets them end.
func (p *proving) held(ctx context.Context, rung, n int) (proof.Held, error) {
	h := proof.Held{N: n, Bound: p.Queue.Bound, For: p.Queue.Hold}
	holding, release := context.WithTimeout(ctx, p.Queue.Hold)
	defer release()
	p.Progress.Show(time.Now(), fmt.Sprintf("holding %d requests for %s", n, chart.Length(p.Queue.Hold)))
	keep := func(r sample.Request) bool {
		if r.Rung == rung {
			h.Requests = append(h.Requests, r)
		}
		return false
	}
	client, err := p.Prober.Hold(holding, rung, n, keep)
	if ctx.Err() != nil {
		return h, context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return h, fmt.Errorf("hold %d in flight: %w", n, err)
	}
	if err := p.Prober.Idle(ctx, func(r sample.Request) { keep(r) }); err != nil {
		return h, cause(ctx, fmt.Errorf("let the requests in flight end: %w", err))
	}
	if in := client.InFlight + client.BackingOff; client.InFlight > 0 && in < 0.5*float64(n) {
		h.Invalid = fmt.Sprintf("client-bound: %.1f of %d requests were in flight", in, n)
	}
	if err := p.keep(h.Requests); err != nil {
		return h, err
	}
	return h, pause(ctx, p.Idle)
}

// surge lets the deployed policy scale out under the plan's surge. It is not begun where the plan has failed already.
func (p *proving) surge(ctx context.Context) error {
	s := p.Surge
	why := notAsked
	if s != nil && proof.Together(p.Doc.Checks) == capacity.Stop {
		s, why = nil, "not made: a check before it failed, and more instances would only cost more"
	}
	if s == nil {
		for _, name := range []string{proof.ScaleOut, proof.Surge, proof.Shed} {
			p.add(proof.NotChecked(name, why))
		}
		return nil
	}
	ctx, cancel := p.affordable(ctx, s.Most)
	defer cancel()
	p.Progress.Show(time.Now(), fmt.Sprintf("asking for the %d instances that the surge begins with", s.Instances))
	if _, err := p.Scaler.Scale(ctx, s.Instances); err != nil {
		return cause(ctx, fmt.Errorf("begin the surge with %d instances: %w", s.Instances, err))
	}
	if err := p.Scaler.Settle(ctx, s.Instances); err != nil {
		return cause(ctx, err)
	}
	if s.Align > 0 { // alarms count whole periods
		at := time.Now().Add(s.Begins)
		if err := pause(ctx, at.Truncate(s.Align).Add(s.Align).Sub(at)); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	g := proof.Growth{From: s.Instances, To: s.Instances, Lasted: s.Lasts, SLO: seconds(p.Doc.SLOMS / 1000), Percentile: p.Doc.Percentile, Mark: sample.Mark(p.Doc.SLOOn), Epsilon: s.Epsilon}
	var watch sync.WaitGroup
	watched, unwatch := context.WithCancel(ctx)
	defer unwatch()
	began := time.Now().Add(s.Begins)
	watch.Go(func() {
		if err := p.grow(watched, began, &g); err != nil && watched.Err() == nil {
			stop(err)
		}
	})
	sent, rs, err := p.send(ctx, 3, s.At, s.Begins+s.Lasts, fmt.Sprintf("surge of %.2f on %d instances", p.Doc.SurgeRatio, s.Instances))
	unwatch()
	watch.Wait()
	if err != nil {
		return cause(ctx, err)
	}
	p.seen(g.From, g.To)
	from := sent.Origin + sample.Since(s.Begins)
	for _, r := range rs {
		if r.Intended >= from && r.Intended < from+sample.Since(s.Lasts) {
			g.Requests = append(g.Requests, r)
		}
	}
	g.Invalid, g.Slow = sent.Invalid, ladder.ClientBound(sent.Client, 0, g.SLO, false)
	p.add(proof.Grew(g, s.Within))
	p.add(proof.Survived(g))
	p.add(proof.Refused(g))
	return nil
}

// grow lets the policy act when the surge begins, and watches what it asks for.
func (p *proving) grow(ctx context.Context, began time.Time, g *proof.Growth) error {
	if err := pause(ctx, time.Until(began)); err != nil {
		return err
	}
	if err := p.Policy.Release(ctx); err != nil {
		return fmt.Errorf("let the policy scale out: %w", err)
	}
	last, blind := time.Duration(0), 0
	for {
		look, err := p.Scaler.Look(ctx)
		at := time.Since(began)
		switch {
		case err != nil:
			if blind++; blind == alarmBlind {
				return exit.CannotTell(fmt.Errorf("the endpoint cannot be read any more: %w", err))
			}
		case look.Desired > p.Surge.Most:
			return exit.Refuse(fmt.Errorf("the policy asked for %d instances, and --max-instances is %d", look.Desired, p.Surge.Most))
		case look.Desired > g.To:
			blind = 0
			if g.Seen == 0 {
				g.Before, g.Seen = last, at
				if _, decided, err := p.Policy.Fired(ctx, began); err != nil {
					p.Progress.Note(fmt.Sprintf("when the policy decided could not be read: %v", err))
				} else if !decided.IsZero() {
					g.Decided = decided.Sub(began)
				}
				p.Progress.Note(fmt.Sprintf("%d instances were asked for %s after the surge began", look.Desired, clock(at)))
			}
			g.To = look.Desired
			last = at
		default:
			blind, last = 0, at
		}
		if err := pause(ctx, p.Poll); err != nil {
			return err
		}
	}
}

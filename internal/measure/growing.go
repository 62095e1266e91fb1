package measure

import (
	"fmt"
	"time"

	"loadline/internal/ladder"
	"loadline/internal/sample"
	"loadline/internal/scaleout"
)

// latest is how many of the probe's replies the view of a scale-out is about.
const latest = 200

// growing is a run as whoever watches sees it.
type growing struct {
	*growth
	run    int
	probe  *probe
	began  time.Time // of the run
	waited time.Time // from when MaxWait counts

	look    Look
	marks   []scaleout.Mark
	awaited string
	since   time.Time // that it is awaited
	until   time.Time // that it is, at most
	served  time.Time // zero: not yet
}

// await says what is awaited from now on.
func (v *growing) await(stage string, until time.Time) {
	v.awaited, v.since, v.until = stage, time.Now(), until
}

func (v *growing) draw() {
	now, p := time.Now(), v.progress()
	if w, ok := v.Progress.(Viewer); ok {
		w.DrawScaleOut(now, p)
		return
	}
	v.Progress.Show(now, fmt.Sprintf("%s: %s, %d of %d", p.Probe.Rung, p.Status, p.Now, p.Wanted))
}

func (v *growing) progress() scaleout.Progress {
	now := time.Now()
	p := scaleout.Progress{
		Status: v.look.Status, Now: v.look.Current, Wanted: v.look.Desired,
		Awaited: v.awaited, For: now.Sub(v.since), AtMost: v.until.Sub(v.since), Rule: v.Rule,
	}
	p.Probe = ladder.Progress{
		Title: title(v.doc.Target.Model, 100*v.Rule.Quantile, string(v.Mark), 1000*v.SLO),
		Rung:  fmt.Sprintf("run %d of %d", v.run+1, max(1, v.Runs)), Load: fmt.Sprintf("%d in flight", v.Probe),
		Percentile: 100 * v.Rule.Quantile, SLO: v.SLO,
	}
	p.Probe.Elapsed = now.Sub(v.began)
	v.probe.tell(&p.Probe)
	ends := v.waited.Add(v.MaxWait + v.Settle)
	if !v.served.IsZero() {
		ends = v.served.Add(v.Settle)
	}
	others := max(1, v.Runs) - v.run - 1
	p.Probe.Left = max(0, ends.Sub(now)) + time.Duration(others)*(v.MaxWait+v.Settle)
	if v.Price > 0 {
		spent := now.Sub(v.growth.began)
		p.Probe.Spent, p.Probe.Total = 2*v.Price*spent.Hours(), 2*v.Price*(spent+p.Probe.Left).Hours()
		p.Probe.Limit = 2 * v.Price * v.Spend.Hours()
	}
	marks := v.marks
	if !v.served.IsZero() {
		r := scaleout.Recover(v.probe.since(v.served.Sub(v.Start)), sample.Since(v.served.Sub(v.Start)), v.now(), v.Rule)
		if r.At.Known() {
			marks = append(marks[:len(marks):len(marks)], scaleout.Mark{Name: scaleout.TrafficRecovered, At: v.Start.Add(r.At.Duration())})
			p.Awaited = ""
		}
	}
	p.Reached = scaleout.Reach(marks)
	return p
}

// since is the replies that were had from then on.
func (p *probe) since(then time.Duration) []scaleout.Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []scaleout.Reply
	for _, r := range p.replies {
		if r.At >= sample.Since(then) {
			out = append(out, r)
		}
	}
	return out
}

// tell fills in what the latest replies say. What was in flight is by Little's law: their rate times what each took.
func (p *probe) tell(to *ladder.Progress) {
	p.mu.Lock()
	last := p.requests[max(0, len(p.requests)-latest):] // only ever added to
	p.mu.Unlock()
	var s seen
	var within time.Duration
	first, end := sample.None, sample.None
	for _, r := range last {
		s.add(r, p.mark, sample.FromStarted, to.SLO)
		if r.End.Known() {
			if !first.Known() || r.End < first {
				first = r.End
			}
			end = max(end, r.End)
		}
	}
	if n := len(last); n > 1 {
		within = (end - first).Duration() * time.Duration(n) / time.Duration(n-1)
	}
	s.tell(to, within)
}

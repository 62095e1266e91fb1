// Package scaleout is the stage ledger of one scale-out: what was stamped where becomes an ordered list of stages that tile
// the time from the capacity call to recovered traffic exactly; and the probe's replies become the instant at which
// traffic had recovered.
//
// Asking for capacity, reading logs and holding the probe are left to package measure, the advice on what to shorten to
// Dominant.
//
//	l, err := scaleout.Tile([]scaleout.Mark{{Name: scaleout.DesiredSet, At: t0}, {Name: scaleout.InService, At: t1}, …})
//	l.Total           // of l.Spans, which tile it
//	scaleout.Recover(replies, from, end, scaleout.Rule{Window: time.Minute, Quantile: 0.95, Target: 0.358})
package scaleout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The stages, in the order in which they happen. Detection comes before the capacity call and belongs to the policy.
const (
	Breach           = "breach"            // the load lies above what the policy tolerates
	Alarm            = "alarm"             // the policy's alarm is in ALARM
	Decision         = "decision"          // the scaler has decided
	DesiredSet       = "desired_set"       // the capacity call: the clock starts
	InstanceLogging  = "instance_logging"  // the new instance's log has its first line
	ContainerStarted = "container_started" // its process runs
	FrameworkInit    = "framework_init"    // libraries are loaded
	WeightsFetched   = "weights_fetched"
	WeightsReady     = "weights_ready"
	WarmupDone       = "warmup_done" // a warm-up synthesis has produced audio
	Ready            = "ready"       // it answers its health check
	InService        = "in_service"  // the endpoint counts it
	FirstGoodAudio   = "first_good_audio"
	TrafficRecovered = "traffic_recovered"
)

var (
	detection = []string{Breach, Alarm, Decision}
	order     = []string{DesiredSet, InstanceLogging, ContainerStarted, FrameworkInit, WeightsFetched, WeightsReady, WarmupDone,
		Ready, InService, FirstGoodAudio, TrafficRecovered}
	// expected are the stages of a scale-out whose container prints all of its markers.
	expected = []string{DesiredSet, InstanceLogging, ContainerStarted, FrameworkInit, WeightsReady, WarmupDone, Ready, InService, TrafficRecovered}
)

// Mark is one stamped instant.
type Mark struct {
	Name    string
	At      time.Time
	Bounded bool   // at the latest then, not measured
	Source  string // who stamped it
	Note    string
}

// Span is the time between two neighbouring stages.
type Span struct {
	From, To string
	Time     time.Duration
	Bounded  bool
}

// Ledger is a scale-out, tiled: the times of Spans add up to Total, to the millisecond.
type Ledger struct {
	Stages    []Mark // from the capacity call on
	Spans     []Span
	Total     time.Duration
	Floor     bool // recovery was not seen: Total ends at the last stage that was
	Detection []Mark
	Detected  time.Duration // from breach to the capacity call; 0: the policy was not driven
	Missing   []string
	Notes     []string
}

// Tile orders the marks and tiles the time between the first and the last. Our own clock stamps the capacity call, the
// service and the recovery; a mark of the container's clock that lies outside them, or before the stage that it follows, is
// moved to the nearest instant that it can have happened at, and marked as bounded.
func Tile(marks []Mark) (Ledger, error) {
	var l Ledger
	at := map[string]Mark{}
	var others []Mark
	for _, m := range marks {
		m.At = m.At.Truncate(time.Millisecond)
		_, twice := at[m.Name]
		switch {
		case twice:
			l.note("stage %s was stamped twice, the first counts", m.Name)
		case slices.Contains(order, m.Name), slices.Contains(detection, m.Name):
			at[m.Name] = m
		default:
			others = append(others, m)
		}
	}
	start, ok := at[DesiredSet]
	if !ok {
		return l, errors.New("no capacity call was stamped: there is nothing to count from")
	}
	l.detect(at, start)
	last := start.At
	service, served := at[InService]
	names := slices.Clone(order)
	if f, w := at[FrameworkInit], at[WeightsFetched]; !w.At.IsZero() && w.At.Before(f.At) { // either may come first
		i := slices.Index(names, FrameworkInit)
		names[i], names[i+1] = names[i+1], names[i]
	}
	for _, name := range names {
		m, ok := at[name]
		if !ok {
			if slices.Contains(expected, name) {
				l.Missing = append(l.Missing, name)
			}
			continue
		}
		own := name == DesiredSet || name == InService || name == TrafficRecovered || name == FirstGoodAudio
		m = l.clamp(m, last, service.At, !own && served)
		last = m.At
		l.Stages = append(l.Stages, m)
	}
	for _, m := range others { // markers of a container that knows more stages
		if slices.ContainsFunc(l.Stages, func(s Mark) bool { return s.Name == m.Name }) {
			l.note("stage %s was stamped twice, the first counts", m.Name)
			continue
		}
		m = l.clamp(m, start.At, l.Stages[len(l.Stages)-1].At, true)
		i, _ := slices.BinarySearchFunc(l.Stages, m, func(a, b Mark) int { return cmp.Or(a.At.Compare(b.At), -1) })
		l.Stages = slices.Insert(l.Stages, min(i, len(l.Stages)), m)
	}
	for i, to := range l.Stages[1:] {
		from := l.Stages[i]
		l.Spans = append(l.Spans, Span{from.Name, to.Name, to.At.Sub(from.At), from.Bounded || to.Bounded})
	}
	l.Total = l.Stages[len(l.Stages)-1].At.Sub(start.At)
	_, l.Floor = at[TrafficRecovered]
	l.Floor = !l.Floor
	return l, nil
}

// clamp moves m to where it can have happened: not before low, nor after high where that bounds it.
func (l *Ledger) clamp(m Mark, low, high time.Time, bounded bool) Mark {
	to := m.At
	if bounded && to.After(high) {
		to = high
	}
	if to.Before(low) {
		to = low
	}
	if !to.Equal(m.At) {
		l.note("stage %s was stamped %s beside where it can have happened: the clocks differ, and it is counted there", m.Name, m.At.Sub(to).Abs())
		m.At, m.Bounded = to, true
	}
	return m
}

// detect is the part before the capacity call.
func (l *Ledger) detect(at map[string]Mark, start Mark) {
	for _, name := range detection {
		m, ok := at[name]
		if !ok {
			continue
		}
		low := m.At
		if n := len(l.Detection); n > 0 {
			low = l.Detection[n-1].At
		}
		l.Detection = append(l.Detection, l.clamp(m, low, start.At, true))
	}
	if len(l.Detection) > 0 {
		l.Detected = start.At.Sub(l.Detection[0].At)
	}
}

func (l *Ledger) note(format string, args ...any) {
	l.Notes = append(l.Notes, fmt.Sprintf(format, args...))
}

// Stage is the stage of that name.
func (l *Ledger) Stage(name string) (Mark, bool) {
	for _, m := range l.Stages {
		if m.Name == name {
			return m, true
		}
	}
	return Mark{}, false
}

// Longest is the span that takes most of the total, with what would shorten it; false for a ledger without spans.
func (l *Ledger) Longest() (Span, string, bool) {
	if len(l.Spans) == 0 {
		return Span{}, "", false
	}
	s := slices.MaxFunc(l.Spans, func(a, b Span) int { return cmp.Compare(a.Time, b.Time) })
	return s, advice[s.To], true
}

// advice is what shortens the span that ends at a stage.
var advice = map[string]string{
	InstanceLogging:  "AWS finds a machine and pulls the image: a smaller image helps, and so does an instance type that is easier to have; for known ramps, a scheduled minimum ahead of them",
	ContainerStarted: "the container starts: a smaller image, fewer layers, an entry point that does nothing else",
	FrameworkInit:    "libraries load: import less, and later",
	WeightsFetched:   "weights come over the network: an uncompressed ModelDataSource, or weights in the image",
	WeightsReady:     "weights load: a format that is mapped rather than parsed, and fewer of them",
	WarmupDone:       "the warm-up: one short synthesis is enough",
	Ready:            "the server opens its door: it can listen as soon as the warm-up is done",
	InService:        "the platform passes the health check and routes traffic: nothing here shortens it",
	FirstGoodAudio:   "a ready instance that does not speak yet: warm up before answering the health check",
	TrafficRecovered: "the backlog drains: more instances at once, or more room on each before the surge",
}

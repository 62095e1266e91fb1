package autoscale

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadline/internal/alarm"
)

// world is a scaler over one made-up resource, driven by lines of text. What happens is written down as it happens.
//
//	unknown NAME=SETTING
//	fleet DESIRED [provision=D] [refuse=TEXT] [lose=TEXT]   the resource; refuse: calls fail; lose: changes are not fulfilled
//	target MIN MAX                  register; either may be -
//	suspend|resume in|out|scheduled
//	track NAME METRIC TARGET [out=D] [in=D] [noin]          METRIC: rate, fast, or custom:NAME
//	step NAME TYPE [cooldown=D] [least=N] [by=AGGREGATION] LOWER..UPPER:CHANGE …
//	alarm NAME METRIC OP THRESHOLD [period=D] [n=N] [m=M] [missing=M] [stat=S] [policy=NAME]
//	schedule NAME SCHEDULE; [zone=Z] [min=N] [max=N] [start=T] [end=T]
//	metric NAME VALUE|none          from now on, whatever the capacity; the metric called minutes has data once a minute
//	load NAME TOTAL                 from now on, over the instances in service
//	run D                           let time pass
//	set N                           somebody else changes the capacity
//	jump N                          somebody else changes it in the middle of a change
//	state ALARM STATE               SetAlarmState
//	delete policy|alarm|schedule NAME, deregister
//	show activities|alarms|scheduled
type world struct {
	t       testing.TB
	now     time.Time
	start   time.Time
	s       *Scaler
	u       Unknowns
	out     strings.Builder
	names   map[string]string // of alarms, short
	metrics map[string][]point
	history []point // capacity in service
	seen    map[string]Status
	shown   map[string]alarm.State
	byHand  bool     // the change is somebody else's
	broken  []string // what must never happen
	fleet
}

type fleet struct {
	Capacity
	has       bool
	provision time.Duration
	due       time.Time
	from      int
	refuse    string
	lose      string
}

type point struct {
	at   time.Time
	v    float64
	load bool
}

const resource = "endpoint/tts/variant/primary"

func newWorld(t testing.TB) *world {
	w := &world{t: t, start: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), names: map[string]string{}, metrics: map[string][]point{},
		seen: map[string]Status{}, shown: map[string]alarm.State{}}
	w.now = w.start
	return w
}

func (w *world) scaler() *Scaler {
	if w.s == nil {
		w.s = New(Config{Unknowns: w.u, Data: w, Fleet: (*worldFleet)(w), Rand: rand.New(rand.NewPCG(1, 2))})
	}
	return w.s
}

type worldFleet world

func (f *worldFleet) Capacity(r string) (Capacity, error) {
	if r != resource || !f.has {
		return Capacity{}, errors.New("Could not find it.")
	}
	return f.fleet.Capacity, nil
}

func (f *worldFleet) SetCapacity(r string, now time.Time, n int) error {
	w := (*world)(f)
	if f.refuse != "" {
		return errors.New(f.refuse)
	}
	if f.Busy {
		return errors.New("Cannot update in-progress endpoint.")
	}
	if tg, ok := w.s.Target(resource); ok && !w.byHand && (n < tg.Min || n > tg.Max) {
		w.broken = append(w.broken, fmt.Sprintf("%d was set within %d to %d", n, tg.Min, tg.Max))
	}
	w.say("capacity %d -> %d", f.Desired, n)
	f.from, f.Desired, f.Busy, f.Reason, f.due = f.Current, n, true, "", now.Add(f.provision)
	if f.provision == 0 {
		w.arrive()
	}
	return nil
}

// arrive ends the change under way.
func (w *world) arrive() {
	w.Busy = false
	if w.lose != "" {
		w.Desired, w.Reason = w.from, w.lose
	}
	w.Current = w.Desired
	w.history = append(w.history, point{at: w.now, v: float64(w.Current)})
}

func at(ps []point, t time.Time) (point, bool) {
	for i := len(ps) - 1; i >= 0; i-- {
		if !ps[i].at.After(t) {
			return ps[i], true
		}
	}
	return point{}, false
}

// Read gives a metric's value at a period's start.
func (w *world) Read(q *alarm.Query, period time.Duration, end, now time.Time, values []float64) {
	delay := time.Duration(0)
	if strings.HasPrefix(q.Namespace, "AWS/") {
		delay = w.u.Delay
	}
	for i := range values {
		stop := end.Add(-time.Duration(i) * period)
		from := stop.Add(-period)
		values[i] = math.NaN()
		p, ok := at(w.metrics[q.Name], from)
		if !ok || stop.Add(delay).After(now) || q.Name == "minutes" && from.Second() != 0 {
			continue
		}
		if values[i] = p.v; p.load {
			n, _ := at(w.history, from)
			values[i] = p.v / math.Max(n.v, 1)
		}
	}
}

func (w *world) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for long, short := range w.names {
		text = strings.ReplaceAll(text, long, short)
	}
	fmt.Fprintf(&w.out, "  %s %s\n", w.now.Sub(w.start).Truncate(time.Second), text)
}

// news says what has changed since it was last asked.
func (w *world) news() {
	s := w.scaler()
	for _, p := range s.Policies("") {
		if p.Tracking != nil {
			for _, a := range p.Alarms {
				end := "/low"
				if strings.Contains(a.Name, "-AlarmHigh-") {
					end = "/high"
				}
				w.names[a.Name] = p.Name + end
			}
		}
	}
	for _, a := range s.Alarms() {
		if old, known := w.shown[a.Name]; !known || old != a.State {
			if known {
				w.say("alarm %s %s", a.Name, a.State)
			}
			w.shown[a.Name] = a.State
		}
	}
	log := s.Activities("")
	for i := len(log) - 1; i >= 0; i-- {
		a := log[i]
		if w.seen[a.ID] == a.Status {
			continue
		}
		w.seen[a.ID] = a.Status
		switch {
		case a.NotScaled != "":
			w.say("not scaled: %s %d: %s", a.NotScaled, a.Capacity, a.Cause)
		case a.Status == InProgress:
			w.say("%s: %s", a.Cause, a.Status)
		case a.Status == Successful && a.End.After(a.Start):
			w.say("%s", a.Status)
		case a.Status == Pending:
			w.say("%s %s: %s", a.Description, a.Status, a.Cause)
		default:
			w.say("%s: %s: %s", a.Cause, a.Status, a.Message)
		}
	}
}

// run plays a script and returns what happened in it, command lines included.
func (w *world) run(script string) string {
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(&w.out, line)
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := w.command(strings.Fields(line)); err != nil {
			w.say("refused: %v", err)
		}
		w.news()
	}
	return w.out.String()
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}

func (w *world) number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	w.must(err)
	return v
}

func (w *world) count(s string) *int {
	if s == "-" {
		return nil
	}
	n := int(w.number(s))
	return &n
}

func (w *world) span(s string) *time.Duration {
	d, err := time.ParseDuration(s)
	w.must(err)
	return &d
}

var metricNames = map[string]string{
	"rate": "InvocationsPerInstance", "fast": "ConcurrentRequestsPerModel",
}

func metricName(s string) string {
	if n := metricNames[s]; n != "" {
		return n
	}
	return strings.TrimPrefix(s, "custom:")
}

func query(metric, stat string) alarm.Query {
	q := alarm.Query{Namespace: "Custom", Name: metricName(metric), Statistic: stat}
	if metricNames[metric] != "" {
		q.Namespace = "AWS/SageMaker"
	}
	return q
}

func (w *world) command(f []string) error {
	opts := map[string]string{}
	var plain []string
	for _, a := range f[1:] {
		if k, v, ok := strings.Cut(a, "="); ok && f[0] != "unknown" {
			opts[k] = v
		} else {
			plain = append(plain, a)
		}
	}
	opt := func(k, otherwise string) string {
		if v, ok := opts[k]; ok {
			return v
		}
		return otherwise
	}
	switch f[0] {
	case "unknown":
		w.must(w.u.Set(f[1]))
	case "fleet":
		w.has = true
		w.refuse, w.lose = strings.ReplaceAll(opts["refuse"], "_", " "), strings.ReplaceAll(opts["lose"], "_", " ")
		w.provision = *w.span(opt("provision", "0s"))
		if plain != nil {
			n := *w.count(plain[0])
			w.Desired, w.Current = n, n
			w.history = append(w.history, point{at: w.now.Add(-24 * time.Hour), v: float64(n)})
		}
	case "target":
		_, err := w.scaler().Register(w.now, Registration{Resource: resource, Min: w.count(plain[0]), Max: w.count(plain[1])})
		return err
	case "suspend", "resume":
		is := f[0] == "suspend"
		var s Suspension
		*map[string]**bool{"in": &s.In, "out": &s.Out, "scheduled": &s.Scheduled}[plain[0]] = &is
		_, err := w.scaler().Register(w.now, Registration{Resource: resource, Suspended: &s})
		return err
	case "track":
		tt := &Tracking{Target: w.number(plain[2]), NoScaleIn: len(plain) > 3}
		switch plain[1] {
		case "rate":
			tt.Predefined = "SageMakerVariantInvocationsPerInstance"
		case "fast":
			tt.Predefined = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
		case "copies":
			tt.Predefined = "SageMakerInferenceComponentInvocationsPerCopy"
		default:
			q := query(plain[1], opt("stat", "Average"))
			tt.Custom = &q
		}
		if v, ok := opts["out"]; ok {
			tt.OutCooldown = w.span(v)
		}
		if v, ok := opts["in"]; ok {
			tt.InCooldown = w.span(v)
		}
		_, err := w.scaler().PutPolicy(w.now, Policy{Name: plain[0], Resource: resource, Tracking: tt})
		return err
	case "step":
		st := &Step{Adjustment: Adjustment(plain[1]), Aggregation: opts["by"]}
		st.MinMagnitude = *w.count(opt("least", "0"))
		if v, ok := opts["cooldown"]; ok {
			st.Cooldown = w.span(v)
		}
		for _, a := range plain[2:] {
			bounds, change, _ := strings.Cut(a, ":")
			lo, hi, _ := strings.Cut(bounds, "..")
			adj := StepAdjustment{Change: *w.count(change)}
			if lo != "" {
				v := w.number(lo)
				adj.Lower = &v
			}
			if hi != "" {
				v := w.number(hi)
				adj.Upper = &v
			}
			st.Steps = append(st.Steps, adj)
		}
		_, err := w.scaler().PutPolicy(w.now, Policy{Name: plain[0], Resource: resource, Step: st})
		return err
	case "alarm":
		op := map[string]alarm.Comparison{">": alarm.Above, "ge": alarm.AtOrAbove, "<": alarm.Below, "le": alarm.AtOrBelow}[plain[2]]
		a := alarm.Alarm{Name: plain[0], Query: query(plain[1], opt("stat", "Average")), Comparison: op, Threshold: w.number(plain[3]),
			Period: *w.span(opt("period", "60s")), Periods: *w.count(opt("n", "1")), Datapoints: *w.count(opt("m", "0")),
			Missing: alarm.Missing(opts["missing"]), ActionsEnabled: opt("enabled", "yes") == "yes"}
		for _, p := range w.scaler().Policies(resource) {
			if p.Name == opts["policy"] {
				a.AlarmActions = []string{p.ARN}
			}
		}
		return w.scaler().PutAlarm(w.now, a)
	case "schedule":
		head, _, _ := strings.Cut(strings.Join(f[2:], " "), ";")
		a := Scheduled{Name: f[1], Resource: resource, Schedule: head, Timezone: opts["zone"]}
		if a.Timezone != "" {
			l, err := time.LoadLocation(a.Timezone)
			w.must(err)
			a.Location = l
		}
		for k, at := range map[string]**int{"min": &a.Min, "max": &a.Max} {
			if v, ok := opts[k]; ok {
				*at = w.count(v)
			}
		}
		for k, at := range map[string]*time.Time{"start": &a.Start, "end": &a.End} {
			if v, ok := opts[k]; ok {
				t, err := time.Parse("2006-01-02T15:04", v)
				w.must(err)
				*at = t
			}
		}
		_, err := w.scaler().PutScheduled(w.now, a)
		return err
	case "metric", "load":
		name := metricName(plain[0])
		v := math.NaN()
		if plain[1] != "none" {
			v = w.number(plain[1])
		}
		at := w.now
		if len(w.metrics[name]) == 0 && opts["since"] != "" {
			at = at.Add(-*w.span(opts["since"]))
		}
		w.metrics[name] = append(w.metrics[name], point{at, v, f[0] == "load"})
	case "run":
		w.pass(w.now.Add(*w.span(plain[0])))
	case "set":
		w.scaler()
		w.byHand = true
		defer func() { w.byHand = false }()
		return (*worldFleet)(w).SetCapacity(resource, w.now, *w.count(plain[0]))
	case "jump":
		w.Desired = *w.count(plain[0])
	case "state":
		return w.scaler().SetAlarmState(w.now, w.long(plain[0]), alarm.State(plain[1]), "set by hand")
	case "delete":
		switch plain[0] {
		case "policy":
			return w.scaler().DeletePolicy(resource, plain[1])
		case "schedule":
			return w.scaler().DeleteScheduled(resource, plain[1])
		}
		if !w.scaler().DeleteAlarm(w.long(plain[1])) {
			return errors.New("no such alarm")
		}
	case "deregister":
		return w.scaler().Deregister(resource)
	case "show":
		w.show(plain[0])
	default:
		w.t.Fatalf("unknown command %q", f[0])
	}
	return nil
}

func (w *world) long(short string) string {
	for _, a := range w.scaler().Alarms() {
		if w.names[a.Name] == short {
			return a.Name
		}
	}
	return short
}

func (w *world) show(what string) {
	switch what {
	case "alarms":
		for _, a := range w.scaler().Alarms() {
			w.say("%s: %s %s %s %g, %d of %d × %s, missing %s, %s, acts on %d", a.Name, a.Statistic, a.Query.Name, a.Comparison, a.Threshold,
				a.Datapoints, a.Periods, a.Period, a.Missing, a.State, len(a.AlarmActions))
		}
	case "activities":
		for _, a := range w.scaler().Activities(resource) {
			w.say("%s | %s | %s | %s", a.Status, a.Description, a.Cause, a.Message)
		}
	case "target":
		for _, t := range w.scaler().Targets() {
			w.say("%s %d to %d, suspended %v, desired %d", t.Dimension, t.Min, t.Max, t.Suspended, w.Desired)
		}
	}
}

// pass lets time go on to a moment, doing what is due on the way.
func (w *world) pass(until time.Time) {
	for {
		next, ok := w.scaler().Next()
		if w.Busy && (!ok || !w.due.After(next)) && !w.due.After(until) {
			w.now = w.due
			w.arrive()
			w.scaler().Settled(w.now, resource)
			w.news()
			continue
		}
		if !ok || next.After(until) {
			break
		}
		w.now = next
		w.scaler().Advance(w.now)
		w.news()
	}
	w.now = until
}

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"loadline/internal/arrival"
	"loadline/internal/artifact"
	"loadline/internal/autoscale"
	"loadline/internal/capacity"
	"loadline/internal/sim"
	"loadline/internal/trace"
)

// pretend is a simulator that tells what a test wants of each set of policies under each setting.
func pretend(tell func(candidate string, u autoscale.Unknowns) (hours, bad float64, turns int)) Simulator {
	return func(c sim.Config) (sim.Result, error) {
		var names []string
		for _, p := range c.Scaling.Policies {
			kind := "steps"
			if p.Tracking != nil {
				kind = "tracking"
			}
			names = append(names, p.Name+" "+kind)
		}
		hours, bad, turns := tell(strings.Join(names, "+"), c.Unknowns)
		r := sim.Result{InstanceHours: hours, MostAnHour: turns, PeakInstances: c.Initial}
		for at := time.Duration(0); at < c.Load.Len(); at += surgeStep {
			r.Timeline = append(r.Timeline, sim.Point{At: at.Seconds(), Completed: 1000, Late: 1000 * bad, Desired: 1e6})
		}
		return r, nil
	}
}

const (
	rateOnly = "loadline-rate tracking"
	bothStep = "loadline-rate tracking+loadline-concurrency-out steps"
)

// decided is the published plan before its policies are chosen: its rules take longer than the choice.
var (
	decided     *artifact.Plan
	decidedErr  error
	decidedOnce sync.Once
)

func chosen(t *testing.T, fluid Simulator, change func(*Input)) *artifact.Plan {
	t.Helper()
	in := published(t, capacity.RuleFlow)
	in.Fluid = fluid
	if change != nil {
		change(&in)
		p, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	decidedOnce.Do(func() { decided, decidedErr = Make(published(t, capacity.RuleFlow)) })
	if decidedErr != nil {
		t.Fatal(decidedErr)
	}
	p := *decided
	p.Policies, p.Alarms = nil, nil
	if _, err := attach(&p, p.Flow, in); err != nil {
		t.Fatal(err)
	}
	p.Config = config(&p, p.Flow)
	return &p
}

func names4(p *artifact.Plan) string {
	var out []string
	for _, pol := range p.Policies {
		out = append(out, pol.Name)
	}
	return strings.Join(out, " ")
}

// The cheapest that holds under every setting is taken; what breaks under one alone loses to what costs more.
func TestChoose(t *testing.T) {
	p := chosen(t, pretend(func(c string, u autoscale.Unknowns) (float64, float64, int) {
		switch {
		case c == rateOnly && u.Delay == autoscale.MaxDelay:
			return 100, 0.3, 0
		case c == rateOnly:
			return 100, 0, 0
		case c == bothStep:
			return 110, 0, 1
		}
		return 120, 0, 0
	}), nil)
	if got := p.Surge.Flow.Candidate; got != capacity.BothSteps || names4(p) != "loadline-rate loadline-concurrency-out" {
		t.Errorf("chose %s: %s", got, names4(p))
	}
	for _, o := range p.Surge.Candidates {
		want := map[string]string{
			capacity.RateTracking: "30 % late or not served in the surge under publication_delay_s=120",
			capacity.BothSteps:    "the cheapest that holds under all 11 settings",
			capacity.BothTracking: "takes 9.1 % more instance-hours",
		}[o.Candidate]
		if want != "" && !strings.Contains(o.Why, want) {
			t.Errorf("%s: %s, want %s", o.Candidate, o.Why, want)
		}
	}
	if f := p.Flow.Find(findingSurge); f == nil || f.Verdict != capacity.OK {
		t.Errorf("finding %+v", f)
	}
}

// Of two that cost the same the simpler one is taken; what only breaks under two settings together is found.
func TestChooseTieAndPair(t *testing.T) {
	p := chosen(t, pretend(func(c string, u autoscale.Unknowns) (float64, float64, int) {
		bad := 0.0
		if c == rateOnly && u.Delay == autoscale.MaxDelay {
			bad += 0.03
		}
		if c == rateOnly && u.Rounding == autoscale.Conservative {
			bad += 0.03
		}
		return 100, bad, 0
	}), nil)
	if p.Surge.Flow.Candidate == capacity.RateTracking || !strings.Contains(p.Surge.Candidates[0].Why, " with ") {
		t.Errorf("chose %s; the first: %s", p.Surge.Flow.Candidate, p.Surge.Candidates[0].Why)
	}
	p = chosen(t, pretend(func(string, autoscale.Unknowns) (float64, float64, int) { return 100, 0, 0 }), nil)
	if p.Surge.Flow.Candidate != capacity.RateTracking {
		t.Errorf("of equals %s was chosen", p.Surge.Flow.Candidate)
	}
}

// One that sits through the surge without growing is not taken, however cheap.
func TestChooseGrows(t *testing.T) {
	grows := pretend(func(string, autoscale.Unknowns) (float64, float64, int) { return 100, 0, 0 })
	p := chosen(t, func(c sim.Config) (sim.Result, error) {
		r, err := grows(c)
		if len(c.Scaling.Policies) == 1 {
			r.InstanceHours = 50
			for i := range r.Timeline {
				r.Timeline[i].Desired = c.Initial
			}
		}
		return r, err
	}, nil)
	if why := p.Surge.Candidates[0].Why; p.Surge.Flow.Candidate != capacity.BothTracking || !strings.Contains(why, "grows to 387 instances of the 483 that the surge asks for") {
		t.Errorf("chose %s; the first: %s", p.Surge.Flow.Candidate, why)
	}
}

// Where none holds the least bad one is taken, and the plan warns. A fleet that turns all the time does not hold.
func TestNoneHolds(t *testing.T) {
	p := chosen(t, pretend(func(c string, _ autoscale.Unknowns) (float64, float64, int) {
		if c == bothStep {
			return 200, 0.2, 0
		}
		return 100, 0.4, 0
	}), nil)
	if p.Surge.Flow.Candidate != capacity.BothSteps || p.Surge.Flow.Holds {
		t.Errorf("chose %+v", p.Surge.Flow)
	}
	if f := p.Flow.Find(findingSurge); f == nil || f.Verdict != capacity.Warn || !strings.Contains(f.Detail, "20 % late") || p.Verdict != capacity.Warn {
		t.Errorf("finding %+v, plan %s", f, p.Verdict)
	}
	p = chosen(t, pretend(func(c string, _ autoscale.Unknowns) (float64, float64, int) {
		if c == rateOnly {
			return 1, 0, 9
		}
		return 100, 0, 0
	}), nil)
	if p.Surge.Flow.Candidate == capacity.RateTracking || !strings.Contains(p.Surge.Candidates[0].Why, "turns 9 times") {
		t.Errorf("chose %s: %s", p.Surge.Flow.Candidate, p.Surge.Candidates[0].Why)
	}
}

// The operator may take another candidate: it is played under every setting all the same, and the plan says what it costs.
func TestCandidateAskedFor(t *testing.T) {
	fluid := pretend(func(c string, u autoscale.Unknowns) (float64, float64, int) {
		if c == bothStep {
			return 150, 0, 0
		}
		return 100, 0, 0
	})
	p := chosen(t, fluid, func(in *Input) { in.Candidate = capacity.BothSteps })
	if o := p.Surge.Flow; o.Candidate != capacity.BothSteps || !o.Holds || o.Played != 11 || o.Why != "asked for; it takes 50.0 % more instance-hours" || len(p.Policies) != 2 {
		t.Errorf("%+v", o)
	}
	in := published(t, capacity.RuleFlow)
	in.Fluid, in.Candidate, in.Scenario.SurgeRatio = fluid, capacity.BothSteps, 1
	if _, err := Make(in); err == nil || !strings.Contains(err.Error(), "no room to show a surge") {
		t.Errorf("an unfit one was taken: %v", err)
	}
}

// Where a minute's count cannot show the load, concurrency is tracked, and the others are told to be unfit.
func TestChooseForStreams(t *testing.T) {
	p := chosen(t, pretend(func(string, autoscale.Unknowns) (float64, float64, int) { return 1, 0, 0 }), func(in *Input) {
		for i := range in.QMax.Rungs {
			in.QMax.Rungs[i].X /= 200
			in.QMax.Rungs[i].XLow, in.QMax.Rungs[i].XHigh = nil, nil
			*in.QMax.Rungs[i].SMean *= 200
		}
		in.QMax.Mu.Value /= 200
		*in.QMax.SMean *= 200
		*in.QMax.SP95 *= 200
		in.QMax.SLOMS *= 200
		in.TTotal.Settings = map[string]any{}
		in.Scenario.PeakRPS, in.Scenario.TroughRPS, in.Scenario.Ceiling = 5, 0, 20000
	})
	if p.Surge.Flow.Candidate != capacity.ConcurrencyTracking || len(p.Policies) != 1 || p.Policies[0].Metric.Predefined != "SageMakerVariantConcurrentRequestsPerModelHighResolution" {
		t.Errorf("chose %s: %+v", p.Surge.Flow.Candidate, p.Policies)
	}
	if why := p.Surge.Candidates[0].Why; !strings.Contains(why, "the count would not show the load") {
		t.Errorf("rate: %s", why)
	}
}

// A simulation that cannot be played is an error of the plan, not a silent default.
func TestChooseFails(t *testing.T) {
	in := published(t, capacity.RuleFlow)
	in.Fluid = func(sim.Config) (sim.Result, error) { return sim.Result{}, errors.New("no such metric") }
	if _, err := Make(in); err == nil || !strings.Contains(err.Error(), "no such metric") {
		t.Errorf("made a plan all the same: %v", err)
	}
}

// A ceiling below the objective cuts the flow rule's queues, not the published rule's: each is played behind its own gate.
func TestChooseOwnGates(t *testing.T) {
	told := pretend(func(string, autoscale.Unknowns) (float64, float64, int) { return 100, 0, 0 })
	p := chosen(t, func(c sim.Config) (sim.Result, error) {
		if c.Gate.Depth == 17 { // the flow rule's candidates
			return told(c)
		}
		return sim.Fluid(c)
	}, func(in *Input) { in.Scenario.Ceiling = 1 })
	if p.Flow.QueueMaxDepth != 17 || p.Slots.QueueMaxDepth != 50 || p.Surge.Slots == nil || p.Surge.Slots.Usual == nil {
		t.Errorf("depths %d and %d; slots %+v", p.Flow.QueueMaxDepth, p.Slots.QueueMaxDepth, p.Surge.Slots)
	}
}

// The published figures by the simulator itself: within ten seconds, twice the same bytes, and the published rule's own
// policies drown where the flow rule's hold.
func TestChooseByFluid(t *testing.T) {
	began := time.Now()
	p := chosen(t, sim.Fluid, nil)
	if took := time.Since(began); took > 60*time.Second { // ten on a quiet machine, where it takes one
		t.Errorf("took %s", took)
	}
	if !p.Surge.Flow.Holds || p.Surge.Slots == nil || p.Surge.Slots.Holds || p.Surge.Slots.Usual.BadShare < 0.9 {
		t.Errorf("flow %+v\nslots %+v", p.Surge.Flow, p.Surge.Slots)
	}
	one, err := artifact.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	two, err := artifact.Encode(chosen(t, sim.Fluid, func(in *Input) {
		in.Parallel = func(n int, f func(int)) {
			var wg sync.WaitGroup
			for i := n - 1; i >= 0; i-- {
				wg.Go(func() { f(i) })
			}
			wg.Wait()
		}
	}))
	if err != nil || string(one) != string(two) {
		t.Errorf("made twice, the plan differs (%v)", err)
	}
}

// A plan of an inference component's copies is played as one of instances.
func TestSimulatedCopies(t *testing.T) {
	p := chosen(t, nil, func(in *Input) { in.Scaled.Component = "voice" })
	c, err := Simulated(p, p.Flow, p.Policies, p.Alarms)
	if err != nil {
		t.Fatal(err)
	}
	c.Load = must(Shape("steady", Load{Peak: p.Flow.PeakRPS, Ratio: 1}))
	if r, err := sim.Fluid(c); err != nil || r.BadShare() > 0.05 {
		t.Errorf("%v, %.2f late or not served", err, r.BadShare())
	}
}

func must(p arrival.Profile, err error) arrival.Profile {
	if err != nil {
		panic(err)
	}
	return p
}

// Every candidate's policies can be put in place: names differ, cooldowns are set, each step policy has its alarm, and what
// plan --emit json prints reads back as the same policies.
func TestCandidatesReadBack(t *testing.T) {
	base := chosen(t, nil, nil)
	for _, c := range capacity.FlowCandidates(base.Flow, 0.25, "e", "v") {
		if c.Unfit != "" {
			t.Errorf("%s: %s", c.Name, c.Unfit)
			continue
		}
		p := *base
		p.Policies, p.Alarms = c.Policies, c.Alarms
		data, err := json.Marshal(requests(&p))
		if err != nil {
			t.Fatal(err)
		}
		set, err := ReadPolicies(data, "")
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if len(set.Policies) != len(c.Policies) || len(set.Alarms) != len(c.Alarms) || set.Max != p.Config.MaxInstances {
			t.Errorf("%s: read back as %+v", c.Name, set)
		}
		for i, pol := range c.Policies {
			got := set.Policies[i]
			if got.Name != pol.Name || got.Type != pol.Type || got.NoScaleIn != pol.NoScaleIn || pol.OutCooldown == 0 || pol.InCooldown == 0 {
				t.Errorf("%s: %+v read back as %+v", c.Name, pol, got)
			}
		}
	}
}

func TestReadPoliciesRefuses(t *testing.T) {
	for says, text := range map[string]string{
		"not JSON":              `hello`,
		"there are none":        `{}`,
		"from 0 to 0 instances": `{"policies":[{"name":"p","type":"target_tracking","target":5}]}`,
		"without a target":      `{"policies":[{"name":"p","type":"target_tracking"}],"max_instances":2}`,
		"none names it":         `{"policies":[{"name":"p","type":"step_scaling"}],"max_instances":2}`,
		"its type is \"magic\"": `{"policies":[{"name":"p","type":"magic"}],"max_instances":2}`,
		"names no metric":       `{"ScalingPolicies":[{"PolicyName":"p","TargetTrackingScalingPolicyConfiguration":{"TargetValue":5}}]}`,
		"which is not played":   `{"ScalingPolicies":[{"PolicyName":"p","PolicyType":"PredictiveScaling"}]}`,
	} {
		if _, err := ReadPolicies([]byte(text), ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	set, err := ReadPolicies([]byte(`{"ScalableTargets":[{"MinCapacity":1,"MaxCapacity":9}],
		"ScalingPolicies":[{"PolicyName":"in","PolicyARN":"arn:in","PolicyType":"StepScaling","StepScalingPolicyConfiguration":{"AdjustmentType":"ChangeInCapacity","StepAdjustments":[{"MetricIntervalUpperBound":0,"ScalingAdjustment":-1}]}}],
		"MetricAlarms":[{"AlarmName":"quiet","Namespace":"AWS/SageMaker","MetricName":"ConcurrentRequestsPerModel","Statistic":"Maximum","Period":60,"EvaluationPeriods":3,"Threshold":25,"ComparisonOperator":"LessThanOrEqualToThreshold","AlarmActions":["arn:in"]}]}`), "")
	if err != nil || len(set.Policies) != 1 || set.Policies[0].NoScaleIn || *set.Policies[0].Threshold != 25 || set.Policies[0].InCooldown != 300 || set.Max != 9 {
		t.Errorf("%+v, %v", set, err)
	}
}

// Of an account's many resources only the plan's is played.
func TestReadPoliciesOfOne(t *testing.T) {
	track := func(resource string, target float64) string {
		return fmt.Sprintf(`{"PolicyName":"p","ResourceId":%q,"PolicyType":"TargetTrackingScaling","TargetTrackingScalingPolicyConfiguration":{"TargetValue":%g,"PredefinedMetricSpecification":{"PredefinedMetricType":"SageMakerVariantInvocationsPerInstance"}}}`, resource, target)
	}
	file := []byte(`{"ScalableTargets":[{"ResourceId":"endpoint/a/variant/v","MinCapacity":1,"MaxCapacity":2},{"ResourceId":"endpoint/b/variant/v","MinCapacity":3,"MaxCapacity":4}],
		"ScalingPolicies":[` + track("endpoint/a/variant/v", 10) + "," + track("endpoint/b/variant/v", 20) + "]}")
	set, err := ReadPolicies(file, "endpoint/a/variant/v")
	if err != nil || len(set.Policies) != 1 || *set.Policies[0].Target != 10 || set.Max != 2 || set.Policies[0].OutCooldown != 300 {
		t.Errorf("%+v, %v", set, err)
	}
	if _, err := ReadPolicies(file, "endpoint/c/variant/v"); err == nil || !strings.Contains(err.Error(), "is not among them") {
		t.Errorf("of another: %v", err)
	}
}

func TestShapes(t *testing.T) {
	l := Load{Peak: 100, Trough: 10, Ratio: 1.5, T: 470 * time.Second}
	for name, want := range map[string]struct {
		long time.Duration
		top  float64
	}{"surge": {20*time.Minute + 16*time.Minute + time.Hour, 150}, "ramp": {4 * time.Hour, 100}, "diurnal": {24 * time.Hour, 100}, "burst": {4 * time.Hour, 150}, "steady": {2 * time.Hour, 100}} {
		p, err := Shape(name, l)
		if err != nil {
			t.Fatal(err)
		}
		top := 0.0
		for _, pt := range p {
			top = max(top, pt.Rate)
		}
		if err := p.Check(); err != nil || p.Len() != want.long || top != want.top {
			t.Errorf("%s: %v, %s long up to %g, want %s and %g", name, err, p.Len(), top, want.long, want.top)
		}
	}
	for _, bad := range []Load{{}, {Peak: 1, Trough: 2, Ratio: 1}, {Peak: 1, Ratio: 0.5}} {
		if _, err := Shape("steady", bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	tr := &trace.Trace{Bucket: time.Second, Counts: make([]float64, 600)}
	for i := range tr.Counts {
		tr.Counts[i] = 2
	}
	p, err := Traced(tr, 10)
	if err != nil || p.Len() != 10*time.Minute || p[0].Rate != 10 {
		t.Errorf("trace: %v, %v", p, err)
	}
	if p, err = Traced(tr, 0); err != nil || p[0].Rate != 2 || p.Expected(p.Len()) != 1200 {
		t.Errorf("as recorded: %v, %v", p, err)
	}
	if _, err := Traced(&trace.Trace{Bucket: time.Second}, 0); err == nil {
		t.Error("an empty trace was taken")
	}
}

package capacity

import (
	"math"
	"strings"
	"testing"

	"loadline/internal/ladder"
)

func flowOf(t *testing.T, change func(*Measured, *Scenario)) Rule {
	t.Helper()
	m, s := published(), scenario()
	m.CS2, s.Rule = ptr(0.0028), RuleFlow
	if change != nil {
		change(&m, &s)
	}
	r, err := Flow(m, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFlowPublished(t *testing.T) {
	r := flowOf(t, nil)
	if r.Peak < 380 || r.Peak > 390 || r.Binding != BoundVariance || r.Min != 1 {
		t.Errorf("fleet %d to %d, peak %d by %s: want a peak of 380 to 390 by variance", r.Min, r.Max, r.Peak, r.Binding)
	}
	lor := flowOf(t, func(_ *Measured, s *Scenario) { s.Routing = RouteLOR })
	if lor.Peak < 347 || lor.Peak > 352 || lor.Binding != BoundDrift {
		t.Errorf("least-outstanding routing: %d by %s, want 347 to 352 by drift", lor.Peak, lor.Binding)
	}
	for _, f := range r.Findings {
		if !strings.Contains("ok not_checked warn stop", string(f.Verdict)) || f.Detail == "" {
			t.Errorf("%+v", f)
		}
	}
	if math.Abs(r.Lag.T-470.248496) > 1e-6 || r.OutCooldown != 261 || r.InCooldown != 1410 {
		t.Errorf("T %g, cooldowns %d, %d", r.Lag.T, r.OutCooldown, r.InCooldown)
	}
}

// Where c_s² says a service is as variable as the exponential, the bound is the lower for it.
func TestFlowVariability(t *testing.T) {
	r := flowOf(t, func(m *Measured, _ *Scenario) { m.CS2 = ptr(1.0) })
	if *r.Rho < 0.62 || *r.Rho > 0.67 || r.Stages != 1 {
		t.Errorf("exponential service: ρ* %.3f, %d stages, %d instances", *r.Rho, r.Stages, r.Peak)
	}
}

func TestFlowBounds(t *testing.T) {
	few := func(m *Measured, _ *Scenario) { m.CS2 = ptr(1.0 / 6) } // stages, which saves the test's time
	base := flowOf(t, few)
	for _, c := range []struct {
		name   string
		change func(*Measured, *Scenario)
		check  func(Rule) bool
	}{
		{"two lost: the others carry on", func(_ *Measured, s *Scenario) { s.Spare = 2 },
			func(r Rule) bool {
				left := float64(r.Peak-2) * *base.Rho * published().MuPlan
				return r.Binding == BoundFailure && r.Peak == base.Peak+2 && left >= 5000 && *r.LambdaStar*float64(r.Peak) >= 5000
			}},
		{"the ceiling cuts the queue", func(_ *Measured, s *Scenario) { s.Ceiling = 1 },
			func(r Rule) bool {
				return r.Binding == BoundCeilings && r.QueueMaxDepth == 17 && r.Peak > base.Peak && r.Find("queue_depth").Verdict == Warn
			}},
		{"no surge: variance alone", func(_ *Measured, s *Scenario) { s.SurgeRatio = 1 },
			func(r Rule) bool { return r.Binding == BoundVariance && *r.Rho > 0.85 && r.FirstStepFleet == r.Peak }},
		{"a quota below the first step holds max", func(_ *Measured, s *Scenario) { s.Quota = 400 },
			func(r Rule) bool { return r.Max == 400 && r.Find("quota").Verdict == Warn }},
		{"a quota below the peak stops", func(_ *Measured, s *Scenario) { s.Quota = 4 },
			func(r Rule) bool { return r.Find("quota").Verdict == Stop && r.Verdict == Stop }},
		{"several models: longer on both sides, a higher min", func(_ *Measured, s *Scenario) { s.MultiModel = true },
			func(r Rule) bool {
				return r.Min == 2 && r.OutCooldown == 2*base.OutCooldown && r.InCooldown == 2*base.InCooldown && r.Find("cold_cache").Verdict == Warn
			}},
		{"no load is safe for one that holds one", func(m *Measured, _ *Scenario) { m.QMax = 1 },
			func(r Rule) bool { return !r.Defined && strings.Contains(r.Reason, "--epsilon") }},
		{"few held: chance costs more than load", func(m *Measured, _ *Scenario) { m.QMax = 8 },
			func(r Rule) bool {
				return r.Find("router").Verdict == Warn && strings.Contains(r.Find("router").Detail, "by chance")
			}},
		{"idle hours cost", func(_ *Measured, s *Scenario) { s.IdleHours = ptr(9.0) },
			func(r Rule) bool {
				f := r.Find("idle_endpoint")
				return f.Verdict == Warn && strings.Contains(f.Detail, "$12.67 a day")
			}},
		{"a cliff right above Q_max: a margin below it", func(m *Measured, _ *Scenario) { m.Cliff = true },
			func(r Rule) bool {
				f := r.Find("queue_depth")
				return r.QueueMaxDepth == 45 && r.Binding == BoundVariance && r.Peak > base.Peak && f.Verdict == Warn && strings.Contains(f.Detail, "cliff")
			}},
		{"a cliff and a ceiling", func(m *Measured, s *Scenario) { m.Cliff, s.Ceiling = true, 1 },
			func(r Rule) bool {
				return r.QueueMaxDepth == 17 && r.Binding == BoundCeilings && strings.Contains(r.Find("queue_depth").Detail, "platform")
			}},
		{"a fleet that shrinks waits out the longest replies", func(m *Measured, _ *Scenario) { m.Streams = NewStreams([]float64{10, 1499.5}) },
			func(r Rule) bool { return base.InCooldown < 1500 && r.InCooldown == 1500 }},
		{"without a price nothing is said of the cost", func(m *Measured, _ *Scenario) { m.PricePerHour = nil },
			func(r Rule) bool {
				return r.Find("fleet_cost").Verdict == NotChecked && base.Find("fleet_cost").Verdict == OK
			}},
		{"long replies are cut", func(m *Measured, _ *Scenario) { m.Streams = NewStreams([]float64{10, 25, 90}) },
			func(r Rule) bool {
				f := r.Find("long_streams")
				return f.Verdict == Warn && strings.Contains(f.Detail, "each scale-in cuts")
			}},
	} {
		if r := flowOf(t, func(m *Measured, s *Scenario) { few(m, s); c.change(m, s) }); !c.check(r) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	for _, s := range base.Sensitivity {
		more := s.Of != "epsilon" && s.Value > map[string]float64{"t": base.Lag.T, "h": 0.25}[s.Of] || s.Of == "epsilon" && s.Value < 0.01
		if more != (s.Instances > base.Peak) {
			t.Errorf("%+v beside a peak of %d", s, base.Peak)
		}
	}
}

// A pool of few instances refuses more than drift alone would have it.
func TestFlowSmallPool(t *testing.T) {
	lor := flowOf(t, func(_ *Measured, s *Scenario) { s.Routing, s.PeakRPS = RouteLOR, 60 })
	random := flowOf(t, func(_ *Measured, s *Scenario) { s.PeakRPS = 60 })
	if drift := *lor.Bounds[0].Instances; lor.Peak < drift || lor.Peak > random.Peak {
		t.Errorf("least-outstanding %d, drift %d, random %d", lor.Peak, drift, random.Peak)
	}
}

// Streams of 300 s, one a minute, at most four on an instance: five are in flight, and one a minute is no load to count.
func TestFlowLongStreams(t *testing.T) {
	m := Measured{
		QMax: 4, QSource: "certified", SLO: 3, Pct: 95, SMean: 300, SP95: 310, SAt: 1, FirstAudioAt1: 200, QRPS: 4.0 / 300, QSMean: 300,
		Mu: ladder.Interval{Value: 4.0 / 300}, MuPlan: 4.0 / 300, Frozen: ptr(true), QueueBound: ptr(0),
		Points: []Point{{N: 1, X: 1.0 / 300}, {N: 2, X: 2.0 / 300}, {N: 4, X: 4.0 / 300}}, Lag: Lag{T: 300, Provision: 300, Assumed: true},
	}
	s := Scenario{PeakStreams: 5, SurgeRatio: 1.25, MinFloor: 1, Ceiling: 480}
	r, err := Flow(m, s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Signal != SignalConcurrency || r.Peak < 2 || *r.ScalingTarget <= 0 || *r.ScalingTarget > 4 || r.Lag.T != 300 {
		t.Errorf("scales on %s at %g, %d instances, T %g", r.Signal, *r.ScalingTarget, r.Peak, r.Lag.T)
	}
	ps, _ := FlowPolicies(r, 0.25, "e", "v")
	if len(ps) != 1 || ps[0].Metric.Predefined != "SageMakerVariantConcurrentRequestsPerModelHighResolution" || ps[0].NoScaleIn {
		t.Errorf("%+v", ps)
	}
	if f := r.Find("long_streams"); f.Verdict != Warn || !strings.Contains(f.Detail, "starts 0.8 requests a minute, so a higher InvocationsPerInstance target, such as 30, never fires") {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"slo_budget", "invocation_ceiling"} {
		if f := r.Find(name); f.Verdict != OK {
			t.Errorf("a stream that begins in 0.2 s is held to its whole length: %+v", f)
		}
	}
	// Streams of one second: a rate shows the same load.
	for i := range m.Points {
		m.Points[i].X = float64(m.Points[i].N)
	}
	m.SMean, m.SP95, m.QRPS, m.QSMean, m.Mu.Value, m.MuPlan = 1, 1.1, 4, 1, 4, 4
	s.PeakStreams = 4
	if r, err = Flow(m, s); err != nil || r.Signal != SignalRate || math.Abs(r.Invocations[1].PerMinute-240) > 1e-9 {
		t.Errorf("%v, scales on %s, %+v", err, r.Signal, r.Invocations)
	}
}

func TestFlowPolicies(t *testing.T) {
	r := flowOf(t, nil)
	ps, alarms := FlowPolicies(r, 0.25, "e", "v")
	if len(ps) != 2 || len(alarms) != 1 {
		t.Fatalf("%d policies, %d alarms", len(ps), len(alarms))
	}
	rate, step := ps[0], ps[1]
	if rate.NoScaleIn || rate.Statistic != "Sum" || *rate.Target > 60**r.LambdaStar || *rate.Target < 59.9**r.LambdaStar {
		t.Errorf("%+v", rate)
	}
	if !step.NoScaleIn || step.Steps[0].Change != 25 || !step.Predicted || *step.Threshold >= 50 || *step.Threshold < *r.Held || alarms[0].Policy != step.Name {
		t.Errorf("%+v", step)
	}
	if n := r.Peak + r.Peak*step.Steps[0].Change/100; n > r.Max || n < r.Max-1 {
		t.Errorf("one step goes to %d, max is %d", n, r.Max)
	}
	for _, p := range ps {
		if p.OutCooldown <= 0 || p.InCooldown < 300 || p.Cooldowns == "" {
			t.Errorf("%s: cooldowns %d and %d s", p.Name, p.OutCooldown, p.InCooldown)
		}
	}
}

func TestInvocationsAt(t *testing.T) {
	if i := InvocationsAt("", 4, 2); i.PerMinute != 120 || i.PerSecond != 2 {
		t.Errorf("%+v", i)
	}
	if i := InvocationsAt("Q_max", 50, 50/17.8833); math.Abs(i.PerMinute-1073) > 1 {
		t.Errorf("%+v", i)
	}
}

// What an instance was seen to hold at λ* moves the threshold that a fleet's busiest one is judged by.
func TestThresholdMeasured(t *testing.T) {
	few := func(m *Measured, _ *Scenario) { m.CS2 = ptr(1.0 / 6) }
	base := flowOf(t, few)
	for by, factor := range map[string]float64{"the client": 1, "CloudWatch": 1.5} {
		var seen float64
		r := flowOf(t, func(m *Measured, s *Scenario) {
			few(m, s)
			c, _, _ := m.Server(m.QMax)
			steady, _ := c.Steady(*base.LambdaStar, m.QMax)
			for n := range m.QMax {
				p, _ := c.Passage(*base.LambdaStar, n+1, FastPeriod, steady.P)
				seen += factor * p
			}
			m.Open = []Open{{Rate: 3, TenMax: 99, Mean: 99}, {Rate: *base.LambdaStar, Mean: 2, TenMax: seen, By: by}}
		})
		if want := *base.Threshold * factor; r.Threshold == nil || math.Abs(*r.Threshold-want) > 1 || !r.ThresholdMeasured {
			t.Errorf("seen %g times the chain's: threshold %v, was %g", factor, r.Threshold, *base.Threshold)
		}
		ps, _ := FlowPolicies(r, 0.25, "e", "v")
		if len(ps) != 2 || ps[1].Predicted || !strings.Contains(ps[1].Source, by) {
			t.Errorf("%+v", ps)
		}
	}
	if r := flowOf(t, func(m *Measured, s *Scenario) { few(m, s); m.Open = []Open{{Rate: 3, TenMax: 99}} }); r.ThresholdMeasured {
		t.Error("a rate far from λ* stands for it")
	}
}

// Utilisation of a processor falls while a server waits for something else, and with it a fleet that scales on it: no
// policy of a plan reads it.
func TestNoUtilisation(t *testing.T) {
	r := flowOf(t, func(m *Measured, _ *Scenario) { m.CS2 = ptr(1.0 / 6) })
	s, err := Slots(published(), scenario())
	if err != nil {
		t.Fatal(err)
	}
	flow, _ := FlowPolicies(r, 0.25, "e", "v")
	slots, _ := SlotsPolicies(s, "e", "v")
	for _, p := range append(flow, slots...) {
		if name := p.Metric.Name + p.Metric.Predefined; strings.Contains(name, "Utilization") {
			t.Errorf("%s scales on %s", p.Name, name)
		}
		if p.Type == StepScaling && p.Steps[0].Change > 100 {
			t.Errorf("%s adds %d %% in one step", p.Name, p.Steps[0].Change)
		}
	}
}

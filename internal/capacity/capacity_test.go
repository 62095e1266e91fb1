package capacity

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"loadline/internal/ladder"
)

func ptr[T any](v T) *T { return &v }

// published is the measured side of the published run, by its figures.
func published() Measured {
	m := Measured{
		QMax: 50, QRPS: 17.87, QSMean: 2.794, QSource: "bracketed", SLO: 3, Pct: 95,
		SMean: 0.06132258724884511, SP95: 0.06613509664312005, SAt: 1, FirstAudioAt1: 65.37169031798838,
		Mu: ladder.Interval{Value: 17.9166666, Source: "point"}, MuPlan: 17.9166666,
		Frozen: ptr(true), QueueBound: ptr(0), Counts: []int{1}, PerRun: []int{50}, Runs: 1,
		CharsPerRequest: ptr(25.22046687), PricePerHour: ptr(1.408),
		Lag:         Lag{T: 320.248496, Provision: 260.248496, Detection: 60, Source: "measured"},
		ClosedRatio: true, ProvisionStage: ptr(180.835), StagesSum: ptr(290.250), StagesTotal: ptr(260.248),
	}
	for _, r := range []struct {
		n int
		x float64
	}{{1, 16.083}, {5, 17.9}, {10, 17.9166666}, {20, 17.9166666}, {30, 17.9}, {40, 17.883}, {50, 17.867}, {60, 17.9}} {
		m.Points = append(m.Points, Point{N: r.n, X: r.x, SMean: float64(r.n) / r.x, Ratio: ptr(1.0), Samples: 1000})
	}
	return m
}

func scenario() Scenario {
	return Scenario{Rule: RuleSlots, PeakRPS: 5000, TroughRPS: 10, SurgeRatio: 1.25, MinFloor: 1, Ceiling: 60}
}

func near(t *testing.T, what string, got *float64, want, slack float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > slack {
		t.Errorf("%s is %v, want %g ± %g", what, got, want, slack)
	}
}

func TestSlotsPublished(t *testing.T) {
	r, err := Slots(published(), scenario())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "c_scale_max", r.CScaleMax, 37.5, 0)
	near(t, "c_scale_min", r.CScaleMin, 25, 0)
	near(t, "target", r.ScalingTarget, 37.5, 0)
	near(t, "scale-in", r.ScaleIn, 25, 0)
	near(t, "w_max", r.WMax, 2.93386490335688, 1e-14)
	near(t, "utilisation", r.Utilization, 0.974025974025974, 1e-15)
	near(t, "shed", r.Shed, 0.968, 0.001)
	near(t, "peak cost", r.Cost.Peak, 12.672, 1e-9)
	near(t, "unit cost", r.CostPerMChars, 0.0279138369, 1e-9)
	if r.Min != 1 || r.Max != 9 || r.Peak != 9 || *r.Trough != 1 || *r.MinSafe != 3 || r.QueueMaxDepth != 50 {
		t.Errorf("fleet %d to %d, peak %d, trough %d, safe %d, depth %d", r.Min, r.Max, r.Peak, *r.Trough, *r.MinSafe, r.QueueMaxDepth)
	}
	if r.OutCooldown != 30 || r.InCooldown != 960 {
		t.Errorf("cooldowns %d, %d", r.OutCooldown, r.InCooldown)
	}
	want := map[string]Verdict{
		"measurement_trust": OK, "curve_repeatability": NotChecked, "slo_budget": OK, "invocation_ceiling": OK, "queue_depth": OK,
		"threshold_units": OK, "surge_survival": Warn, "scale_in_safety": Warn, "fleet_cost": OK, "provision_stage": OK,
		"fleet_throughput": Stop, "signal_blind": Warn, "surge_slots": Warn, "cw_ratio_closed_loop": Warn, "stages_dont_add_up": Warn,
	}
	for name, v := range want {
		if f := r.Find(name); f == nil || f.Verdict != v {
			t.Errorf("%s: %+v, want %s", name, f, v)
		}
	}
	if len(r.Findings) != len(want) || r.Findings[0].Name != "fleet_throughput" || r.Verdict != Stop {
		t.Errorf("%d findings, %s first, verdict %s", len(r.Findings), r.Findings[0].Name, r.Verdict)
	}
	if r.PublishedVerdict != Warn || *r.PublishedWarnings != 2 {
		t.Errorf("published verdict %s (%d)", r.PublishedVerdict, *r.PublishedWarnings)
	}
	for name, says := range map[string]string{
		"fleet_throughput":   "9 × 17.9 = 161 of 5000",
		"surge_slots":        "12.5 free slots fill in 2.8 s",
		"stages_dont_add_up": "290.2 s, the total is 260.2 s",
		"fleet_cost":         "$0.87 by what the fleet completes",
		"provision_stage":    "69 % of the measured 260.2 s and 56 % of T",
	} {
		if d := r.Find(name).Detail; !strings.Contains(d, says) {
			t.Errorf("%s says %q, want %q in it", name, d, says)
		}
	}
}

func TestSlotsArithmetic(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Measured, *Scenario)
		check  func(Rule) bool
	}{
		{"no surge: no safe fleet, no reserve", func(_ *Measured, s *Scenario) { s.SurgeRatio = 1 },
			func(r Rule) bool {
				return *r.CScaleMax == 50 && r.MinSafe == nil && *r.Shed == 1 && r.Find("scale_in_safety").Verdict == Warn && r.Find("surge_slots").Verdict == NotChecked
			}},
		{"a slow scale-out: the long cooldown follows it", func(m *Measured, _ *Scenario) { m.Lag.T = 1000.9 },
			func(r Rule) bool { return r.OutCooldown == 30 && r.InCooldown == 3002 }},
		{"a quick one: both cooldowns at their floor", func(m *Measured, _ *Scenario) { m.Lag.T = 12 },
			func(r Rule) bool { return r.OutCooldown == 10 && r.InCooldown == 300 }},
		{"half of T between the limits, cut down", func(m *Measured, _ *Scenario) { m.Lag.T = 45.9 },
			func(r Rule) bool { return r.OutCooldown == 22 }},
		{"equally near rungs: the higher one's ratio", func(m *Measured, s *Scenario) {
			s.SurgeRatio = 1.3 // C_scale_max = 35
			m.Points[4].Ratio, m.Points[5].Ratio = ptr(2.0), ptr(3.0)
		}, func(r Rule) bool {
			return *r.CWRatio == 3 && *r.ScalingTarget == *r.CScaleMax*3 && *r.ScaleIn == *r.CScaleMin*3
		}},
		{"no ratio: no target", func(m *Measured, _ *Scenario) {
			for i := range m.Points {
				m.Points[i].Ratio = nil
			}
		}, func(r Rule) bool {
			return r.ScalingTarget == nil && r.ScaleIn == nil && r.Find("threshold_units").Verdict == NotChecked && r.Find("cw_ratio_closed_loop").Verdict == NotChecked
		}},
		{"streams win over the rate", func(_ *Measured, s *Scenario) { s.PeakStreams = 75 },
			func(r Rule) bool {
				return r.Peak == 2 && r.PeakRPS > 1000 && r.Find("fleet_throughput").Verdict == Stop
			}},
		{"no trough: the floor", func(_ *Measured, s *Scenario) { s.TroughRPS, s.MinFloor = 0, 3 },
			func(r Rule) bool {
				return r.Min == 3 && r.Trough == nil && r.Cost.Trough == nil && r.Find("scale_in_safety").Verdict == OK
			}},
		{"a trough above the floor", func(_ *Measured, s *Scenario) { s.TroughRPS = 2000 },
			func(r Rule) bool { return r.Min == 4 && *r.Trough == 4 && math.Abs(*r.Cost.Trough-4*1.408) < 1e-12 }},
		{"a peak below the floor", func(_ *Measured, s *Scenario) { s.PeakRPS, s.MinFloor = 1, 5 },
			func(r Rule) bool { return r.Peak == 1 && r.Max == 5 }},
		{"no price: no money, and no zero", func(m *Measured, _ *Scenario) { m.PricePerHour = nil },
			func(r Rule) bool {
				return r.Cost == Money{} && r.CostPerMChars == nil && strings.Contains(r.Find("fleet_cost").Detail, "not known")
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, s := published(), scenario()
			c.change(&m, &s)
			r, err := Slots(m, s)
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(r) {
				out, _ := json.MarshalIndent(r, "", " ")
				t.Errorf("%s", out)
			}
		})
	}
}

func TestSlotsUndefined(t *testing.T) {
	s := scenario()
	s.SurgeRatio = 1.5
	r, err := Slots(published(), s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	var back map[string]any
	if err != nil || json.Unmarshal(text, &back) != nil || len(back) != 2 || back["defined"] != false || back["reason"] == "" {
		t.Errorf("%s, %v", text, err)
	}
	s.Routing = RouteLOR
	f, err := Flow(published(), s)
	if err != nil || f.Peak != 419 { // 5000 · 1.5 / 17.9167
		t.Errorf("flow goes on with %d instances, %v", f.Peak, err)
	}
}

func TestFindings(t *testing.T) {
	for _, c := range []struct {
		finding string
		want    Verdict
		change  func(*Measured, *Scenario)
	}{
		{"measurement_trust", Warn, func(m *Measured, _ *Scenario) { m.Frozen = ptr(false) }},
		{"measurement_trust", Warn, func(m *Measured, _ *Scenario) { m.Counts = []int{1, 2} }},
		{"measurement_trust", Warn, func(m *Measured, _ *Scenario) { m.QueueBound = nil }},
		{"measurement_trust", Warn, func(m *Measured, _ *Scenario) { m.QueueBound = ptr(50) }},
		{"measurement_trust", NotChecked, func(m *Measured, _ *Scenario) { m.Frozen = nil }},
		{"curve_repeatability", OK, func(m *Measured, _ *Scenario) { m.PerRun, m.Runs = []int{50, 60}, 2 }},
		{"curve_repeatability", Warn, func(m *Measured, _ *Scenario) { m.PerRun, m.Runs = []int{50, 61}, 2 }},
		{"curve_repeatability", Warn, func(m *Measured, _ *Scenario) { m.PerRun, m.Runs = []int{50, 50}, 3 }},
		{"curve_repeatability", Warn, func(m *Measured, _ *Scenario) { m.PerRun, m.Runs = []int{50}, 2 }},
		{"curve_repeatability", NotChecked, func(m *Measured, _ *Scenario) { m.PerRun, m.Runs = []int{50}, 1 }},
		{"slo_budget", Stop, func(m *Measured, _ *Scenario) { m.SP95 = 3 }},
		{"slo_budget", Warn, func(m *Measured, _ *Scenario) { m.SP95 = 1.6 }},
		{"slo_budget", OK, func(m *Measured, _ *Scenario) { m.SP95 = 1.5 }},
		{"invocation_ceiling", Stop, func(m *Measured, s *Scenario) { m.SLO = 61 }},
		{"invocation_ceiling", OK, func(m *Measured, s *Scenario) { m.SLO, s.Ceiling = 61, 480 }},
		{"queue_depth", Warn, func(m *Measured, _ *Scenario) { m.Lower = true }},
		{"surge_survival", OK, func(m *Measured, _ *Scenario) { m.Lag.T = 0.01 }},
		{"provision_stage", Warn, func(m *Measured, _ *Scenario) { m.Lag.Assumed = true }},
		{"provision_stage", OK, func(m *Measured, _ *Scenario) { m.ProvisionStage = nil }},
		{"fleet_throughput", Warn, func(m *Measured, s *Scenario) { m.MuPlan = 5000.0 / 9 * 1.1 }},
		{"fleet_throughput", OK, func(m *Measured, s *Scenario) { m.MuPlan = 5000.0 / 9 * 1.25 }},
		{"signal_blind", OK, func(m *Measured, _ *Scenario) { // a server that works in parallel up to 60
			for i := range m.Points {
				m.Points[i].X = float64(m.Points[i].N)
			}
		}},
		{"surge_slots", OK, func(m *Measured, _ *Scenario) { m.Lag.T = 2.7 }},
		{"cw_ratio_closed_loop", OK, func(m *Measured, _ *Scenario) { m.ClosedRatio = false }},
		{"stages_dont_add_up", OK, func(m *Measured, _ *Scenario) { m.StagesSum = ptr(260.3) }},
	} {
		m, s := published(), scenario()
		c.change(&m, &s)
		r, err := Slots(m, s)
		if err != nil {
			t.Fatal(err)
		}
		f := r.Find(c.finding)
		if f == nil || f.Verdict != c.want {
			t.Errorf("%s: %+v, want %s", c.finding, f, c.want)
		} else if f.Verdict != OK && f.Recommendation == "" && f.Verdict != NotChecked {
			t.Errorf("%s warns without saying what to do", c.finding)
		}
	}
}

// A finding that can stop a plan is in the list that --accept takes, and an accepted stop is a recorded warning.
func TestAccept(t *testing.T) {
	s := scenario()
	s.Accept = []string{"fleet_throughput"}
	r, err := Slots(published(), s)
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Find("fleet_throughput"); f.Verdict != Warn || !f.Accepted || r.Verdict != Warn {
		t.Errorf("%+v, rule %s", f, r.Verdict)
	}
	f, err := Flow(published(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Stoppable {
		if r.Find(name) == nil && f.Find(name) == nil {
			t.Errorf("%s can be accepted but is no finding", name)
		}
	}
	if r.PublishedVerdict != Warn {
		t.Errorf("published verdict %s", r.PublishedVerdict)
	}
}

// Worst first, and a verdict of NotChecked does not spoil a rule that is otherwise well.
func TestConclude(t *testing.T) {
	r := Rule{Findings: []Finding{{Name: "a", Verdict: OK}, {Name: "b", Verdict: NotChecked}, {Name: "c", Verdict: Warn}, {Name: "d", Verdict: Stop}}}
	r.conclude(nil)
	var names []string
	for _, f := range r.Findings {
		names = append(names, f.Name)
	}
	if strings.Join(names, "") != "dcba" || r.Verdict != Stop {
		t.Errorf("%v, %s", names, r.Verdict)
	}
	r = Rule{Findings: []Finding{{Verdict: OK}, {Verdict: NotChecked}}}
	if r.conclude(nil); r.Verdict != OK {
		t.Errorf("verdict %s", r.Verdict)
	}
}

func TestPolicies(t *testing.T) {
	r, err := Slots(published(), scenario())
	if err != nil {
		t.Fatal(err)
	}
	ps, alarms := SlotsPolicies(r, "e", "v")
	if len(ps) != 2 || len(alarms) != 1 {
		t.Fatalf("%d policies, %d alarms", len(ps), len(alarms))
	}
	out, in := ps[0], ps[1]
	if out.Type != TargetTracking || *out.Target != 37.5 || !out.NoScaleIn || out.Period != 10 {
		t.Errorf("%+v", out)
	}
	if in.Statistic != "Maximum" || *in.Threshold != 25 || in.Steps[0].Change != -1 || in.MissingData != "notBreaching" || in.Datapoints != 3 || in.Evaluation != 3 {
		t.Errorf("%+v", in)
	}
	if alarms[0].Policy != in.Name || alarms[0].Threshold != 25 || alarms[0].Metric.Dimensions["VariantName"] != "v" {
		t.Errorf("%+v", alarms[0])
	}
	for _, p := range ps {
		if p.OutCooldown <= 0 || p.InCooldown < 300 {
			t.Errorf("%s: cooldowns %d and %d s", p.Name, p.OutCooldown, p.InCooldown)
		}
	}
	m := published()
	if a := ServiceAlarm(m, "e", "v"); a == nil || math.Abs(a.Threshold-66.135) > 0.001 {
		t.Errorf("%+v", a)
	}
	m.SAt = 5
	if a := ServiceAlarm(m, "e", "v"); a != nil {
		t.Errorf("an alarm on a service time that has waiting in it: %+v", a)
	}
}

// The model passes through usable rungs, never falls before its peak, and is what was measured after it.
func TestInstance(t *testing.T) {
	m, err := NewInstance([]Point{{N: 1, X: 10}, {N: 2, X: 18, Samples: 100}, {N: 4, X: 16, Samples: 300}, {N: 8, X: 20}, {N: 16, X: 12}})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[float64]float64{0: 0, 0.5: 5, 1: 10, 2: 16.5, 4: 16.5, 6: 18.25, 8: 20, 12: 16, 16: 12, 100: 12} {
		if got := m.Rate(n); math.Abs(got-want) > 1e-9 {
			t.Errorf("μ(%g) = %g, want %g", n, got, want)
		}
	}
	if m.Most() != 20 || math.Abs(m.Saturation()-(4+4*2.5/3.5)) > 1e-9 {
		t.Errorf("most %g, saturated from %g", m.Most(), m.Saturation())
	}
	for name, points := range map[string][]Point{
		"none": nil, "nothing completed": {{N: 1}}, "NaN": {{N: 1, X: math.NaN()}}, "N = 0": {{N: 0, X: 1}}, "twice": {{N: 1, X: 1}, {N: 1, X: 2}},
	} {
		if _, err := NewInstance(points); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestInstanceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var points []Point
		n := 0
		for range rapid.IntRange(1, 10).Draw(t, "rungs") {
			n += rapid.IntRange(1, 20).Draw(t, "step")
			points = append(points, Point{N: n, X: rapid.Float64Range(0.1, 100).Draw(t, "x"), Samples: rapid.IntRange(0, 500).Draw(t, "samples")})
		}
		m, err := NewInstance(points)
		if err != nil {
			t.Fatal(err)
		}
		most, at := 0.0, 0
		for _, p := range points {
			if p.X > most {
				most, at = p.X, p.N
			}
		}
		if math.Abs(m.Most()-most) > 1e-9*most {
			t.Errorf("most %g, measured %g", m.Most(), most)
		}
		for i := 1; i <= at; i++ {
			if m.Rate(float64(i)) < m.Rate(float64(i-1))-1e-9 {
				t.Errorf("falls before its peak, at %d", i)
			}
		}
		if full := m.Saturation(); m.Rate(full) < Saturated*most-1e-6 || full > float64(at) {
			t.Errorf("saturated from %g, where it completes %g of %g (peak at %d)", full, m.Rate(full), most, at)
		}
	})
}

func TestCS2(t *testing.T) {
	if got := CS2(0.06002095341682434, 0.06537169031798838, 0.06132258724884511); math.Abs(got-0.002813) > 1e-6 {
		t.Errorf("%g", got)
	}
}

package plan

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadline/internal/capacity"
	"loadline/internal/openloop"
	"loadline/internal/sim"
	"loadline/internal/trace"
)

// The worked examples of doc/method.md are what the code gives: every number in an "example" block is computed again and
// compared in the digits that the page shows, and none that is computed here may be missing there.
func TestMethodExamples(t *testing.T) {
	p, err := Make(published(t, capacity.RuleSlots))
	if err != nil {
		t.Fatal(err)
	}
	m, s, f := p.Measured, p.Slots, p.Flow
	model, err := capacity.NewInstance(m.Points)
	if err != nil {
		t.Fatal(err)
	}
	h := p.Scenario.SurgeRatio - 1
	rho := *f.Rho
	chain, _, err := m.Server(m.QMax)
	if err != nil {
		t.Fatal(err)
	}
	steady, err := chain.Steady(rho*m.MuPlan, m.QMax)
	if err != nil {
		t.Fatal(err)
	}
	refuses, err := chain.Passage(rho*m.MuPlan*(1+h), m.QMax+1, f.Lag.T, steady.P)
	if err != nil {
		t.Fatal(err)
	}
	in := published(t, capacity.RuleFlow)
	in.Scenario.Routing = capacity.RouteLOR
	lor, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	in = published(t, capacity.RuleFlow)
	in.Fluid = sim.Fluid
	surged, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	surge := surged.Surge
	hours := func(candidate string) float64 {
		for _, o := range surge.Candidates {
			if o.Candidate == candidate {
				return o.Usual.InstanceHours
			}
		}
		return 0
	}
	atStar, atQ := f.Invocations[0], f.Invocations[1]
	data, err := os.ReadFile("../trace/testdata/ramp.csv")
	if err != nil {
		t.Fatal(err)
	}
	ramp, err := trace.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ramp.Growth(320*time.Second, 300)
	if err != nil {
		t.Fatal(err)
	}
	texts := capacity.Length{Service: capacity.Line{Base: 0.05083, PerChar: 0.0002}}
	md1 := func(share float64) float64 {
		s, err := openloop.NewStep(0, share, openloop.Server{Chain: chain, Most: m.MuPlan}, time.Minute, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return *s.Fixed
	}
	want := map[string]float64{
		"surge_rate_tracking_hours": hours(capacity.RateTracking), "surge_both_steps_hours": hours(capacity.BothSteps),
		"surge_concurrency_steps_hours": hours(capacity.ConcurrencySteps), "surge_first_out_s": *surge.Flow.Usual.FirstOutS, "surge_published_bad": surge.Slots.Usual.BadShare,
		"mu": m.MuPlan, "saturation": model.Saturation(), "q_max_rps": m.QRPS, "s_mean_at_q_max_s": m.QSMean, "cs2": *m.CS2,
		"c_scale_max": *s.CScaleMax, "c_scale_min": *s.CScaleMin, "w_max_s": *s.WMax, "min_instances": float64(s.Min),
		"peak_instances": float64(s.Peak), "max_instances": float64(s.Max), "min_safe_instances": float64(*s.MinSafe),
		"scale_out_cooldown_s": float64(s.OutCooldown), "scale_in_cooldown_s": float64(s.InCooldown),
		"utilisation": *s.Utilization, "shed_probability": *s.Shed,
		"peak_cost_per_hour": *s.Cost.Peak, "cost_per_m_chars": *s.CostPerMChars,
		"fleet_rps": s.FleetRPS, "slots_last_s": (float64(m.QMax) - *s.CScaleMax) / (h * m.MuPlan),
		"slots_needed": h * m.MuPlan * m.Lag.T, "last_wait_s": h * m.Lag.T,
		"cost_per_m_chars_done": *s.CostPerMChars * s.PeakRPS / s.FleetRPS,
		"rho_star":              *f.Rho, "lambda_star": *f.LambdaStar, "target_per_minute": *f.ScalingTarget,
		"flow_peak_instances": float64(f.Peak), "flow_max_instances": float64(f.Max), "flow_t_s": f.Lag.T,
		"drift_instances": float64(*f.Bounds[0].Instances),
		"g_of_ramp_320_s": g.G, "h_of_ramp_320_s": g.H,
		"md1_at_half": md1(0.5), "md1_at_nine_tenths": md1(0.9),
		"service_at_25_chars_s": texts.Service.At(25.22), "service_at_100_chars_s": texts.Service.At(100),
		"ratio_of_texts":  texts.Service.At(100) / texts.Service.At(25.22),
		"cut_of_10_25_90": capacity.NewStreams([]float64{10, 25, 90}).Cut,
		"rho_drift":       *f.Bounds[0].Rho, "lor_peak_instances": float64(lor.Flow.Peak), "threshold_held": *f.Threshold,
		"four_at_two_seconds": capacity.InvocationsAt("", 4, 2).PerMinute, "at_q_max_per_minute": atQ.PerMinute,
		"at_lambda_per_minute": atStar.PerMinute, "response_at_lambda_s": atStar.Response,
		"stages": float64(chain.Stages), "rho": rho, "held_on_average": steady.Mean(), "refuses_within_t": refuses,
	}
	page, err := os.ReadFile("../../doc/method.md")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for i, line := range strings.Split(string(page), "\n") {
		if strings.HasPrefix(line, "```") {
			inside = line == "```example"
			continue
		}
		if !inside {
			continue
		}
		name, value, _ := strings.Cut(line, " ")
		value = strings.TrimSpace(value)
		v, known := want[name]
		if !known {
			t.Errorf("line %d: %s is not computed here, or stands twice", i+1, name)
			continue
		}
		_, decimals, _ := strings.Cut(value, ".")
		if got := strconv.FormatFloat(v, 'f', len(decimals), 64); got != value {
			t.Errorf("line %d: %s is %s, the page says %s", i+1, name, got, value)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("the page has no %s", name)
	}
}

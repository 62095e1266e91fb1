package sim

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"loadline/internal/alarm"
	"loadline/internal/arrival"
	"loadline/internal/autoscale"
	"loadline/internal/capacity"
	"loadline/internal/fleet"
)

// TestGateDecides: what the depth alone decides, and what a whole gate decides at each step, are the same bytes.
func TestGateDecides(t *testing.T) {
	for _, places := range []int{1, 3} {
		c := Config{Seed: 5, Server: serverOf(t, ServerConfig{CS2: 0.25, Depth: 12, Places: places}), Initial: 3}
		c.Gate.Depth = 12
		c.Retry = Retry{Attempts: 3, Backoff: 500 * time.Millisecond, Patience: 400 * time.Millisecond}
		c.Load = must[arrival.Profile](t)(arrival.Ramp(30, 70, 10*time.Minute))
		var got [2][]byte
		for i, whole := range []bool{false, true} {
			w := must[*world](t)(newWorld(c))
			p := must[*requests](t)(newRequests(w))
			p.whole = whole
			w.play = p
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
			r := w.result(ModeRequests)
			if r.Shed == 0 || r.Abandoned == 0 || r.Retried == 0 {
				t.Fatalf("nothing was decided: %g shed, %g abandoned", r.Shed, r.Abandoned)
			}
			got[i] = must[[]byte](t)(json.Marshal(r))
		}
		if !bytes.Equal(got[0], got[1]) {
			t.Errorf("%d places: a gate decides otherwise", places)
		}
	}
}

// TestGatePredicts: a gate that predicts keeps those that it admits in time, at the price of more refusals.
func TestGatePredicts(t *testing.T) {
	c := Config{Seed: 5, Server: serverOf(t, ServerConfig{CS2: 0.01, Depth: 50, SLO: time.Second}), Initial: 3}
	c.Gate.Depth = 50
	c.Load = must[arrival.Profile](t)(arrival.Constant(60, 10*time.Minute))
	plain := must[Result](t)(Requests(c))
	c.Gate.Predict = true
	wise := must[Result](t)(Requests(c))
	if plain.Late < 1000 || wise.Late > plain.Late/50 || wise.Shed < plain.Shed {
		t.Errorf("late %g and %g with prediction, shed %g and %g", plain.Late, wise.Late, plain.Shed, wise.Shed)
	}
}

// TestOverload: at three times what an instance completes, at least 99 % of those who are let in hear it in time, and as
// many as ever do.
func TestOverload(t *testing.T) {
	for _, slo := range []time.Duration{time.Second, 3 * time.Second} {
		c := Config{Seed: 5, Server: serverOf(t, ServerConfig{CS2: 0.01, Depth: 50, SLO: slo}), Initial: 1}
		c.Gate.Depth, c.Gate.Predict = 50, true
		most := c.Server.most()
		c.Load = must[arrival.Profile](t)(arrival.Constant(3*most, 20*time.Minute))
		r := must[Result](t)(Requests(c))
		good := r.Completed - r.Late
		if r.Late > 0.01*r.Completed || good < 0.95*most*20*60 || r.Shed < 1.9*r.Completed {
			t.Errorf("within %v: %g completed, %g of them late, %g refused; %g a second in time of the %g that an instance completes", slo, r.Completed, r.Late, r.Shed, good/1200, most)
		}
	}
}

// TestNothingIsLost: every attempt ends in one way, and every fresh request too.
func TestNothingIsLost(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 30 {
		depth := []int{0, 5, 50}[rng.IntN(3)]
		c := Config{Seed: rng.Uint64(), Server: serverOf(t, ServerConfig{CS2: rng.Float64(), Depth: depth, Places: 1 + rng.IntN(4), First: rng.Float64()}), Initial: 1 + rng.IntN(5),
			Routing: autoscale.Router(rng.IntN(2)), Stages: slow, Scaling: tracking(60*14, 1, 9)}
		c.Gate.Depth, c.Stages.Spread = depth, 0.3
		c.Retry = Retry{Attempts: rng.IntN(4), Backoff: time.Duration(1+rng.IntN(3000)) * time.Millisecond, Budget: rng.Float64() - 0.5, Unnoticed: rng.IntN(2) == 0}
		c.Retry.Budget = max(0, c.Retry.Budget)
		if rng.IntN(2) == 0 {
			c.Retry.Patience = time.Duration(1+rng.IntN(4000)) * time.Millisecond
		}
		c.Incidents = []Incident{{At: 5 * time.Minute, Lose: rng.Float64()}, {At: 10 * time.Minute, Slow: 0.5 + rng.Float64()}, {At: 12 * time.Minute, Deploy: 1 + rng.IntN(3)}}
		// The end is silent, so that all that is inside comes out.
		rate := 5 + 60*rng.Float64()
		c.Load = arrival.Profile{{At: 0, Rate: rate}, {At: 20 * time.Minute, Rate: rate}, {At: 20 * time.Minute, Rate: 0}, {At: 200 * time.Minute, Rate: 0}}
		r := must[Result](t)(Requests(c))
		if attempts := r.Offered + r.Retried; attempts != r.Completed+r.Shed+r.Unserved+r.Abandoned+r.Cut {
			t.Errorf("seed %d: %g attempts: %g completed, %g shed, %g unserved, %g abandoned, %g cut", c.Seed, attempts, r.Completed, r.Shed, r.Unserved, r.Abandoned, r.Cut)
		}
		if r.Offered != r.Completed+r.Failed {
			t.Errorf("seed %d: %g offered, %g completed, %g failed", c.Seed, r.Offered, r.Completed, r.Failed)
		}
		if c.Retry.Budget > 0 && r.Retried > c.Retry.Budget*r.Offered {
			t.Errorf("seed %d: %g retries on a budget of %g for each of %g", c.Seed, r.Retried, c.Retry.Budget, r.Offered)
		}
		if !c.Retry.Unnoticed && r.Wasted > 0 || c.Retry.Patience == 0 && r.Abandoned > 0 {
			t.Errorf("seed %d: %g wasted and %g abandoned", c.Seed, r.Wasted, r.Abandoned)
		}
		if c.Retry.Patience > 0 {
			continue
		}
		f := must[Result](t)(Fluid(c))
		if d := f.Offered - f.Completed - f.Failed; math.Abs(d) > 0.01*f.Offered+5 {
			t.Errorf("seed %d, fluid: %g offered, %g completed, %g failed", c.Seed, f.Offered, f.Completed, f.Failed)
		}
		if d := f.InstanceHours/r.InstanceHours - 1; math.Abs(d) > 0.15 {
			t.Errorf("seed %d: %g instance-hours by request, %g as a fluid", c.Seed, r.InstanceHours, f.InstanceHours)
		}
	}
}

// TestGivenArrivals: given instants are played as they are.
func TestGivenArrivals(t *testing.T) {
	c := Config{Server: serverOf(t, ServerConfig{CS2: 0.01}), Initial: 1}
	c.Load = must[arrival.Profile](t)(arrival.Constant(0.1, time.Minute))
	c.Arrivals = []time.Duration{time.Second, 2 * time.Second, 59 * time.Second}
	r := must[Result](t)(Requests(c))
	if r.Offered != 3 || r.Completed != 3 || r.Workload.Requests != 3 {
		t.Errorf("offered %g, completed %g", r.Offered, r.Completed)
	}
}

// TestHours: an instance is paid from the call for it until it is gone, and a deployment pays for both fleets.
func TestHours(t *testing.T) {
	price := 1.5
	c := Config{Server: serverOf(t, ServerConfig{CS2: 0.01}), Initial: 2, Stages: slow, Price: &price}
	c.Load = must[arrival.Profile](t)(arrival.Constant(1, time.Hour))
	c.Incidents = []Incident{{At: 20 * time.Minute, Deploy: 3}}
	r := must[Result](t)(Requests(c))
	want := (2*(20*60+280) + 3*40*60) / 3600.0
	if math.Abs(r.InstanceHours-want) > 0.001 || math.Abs(*r.Cost-1.5*want) > 0.002 {
		t.Errorf("%g instance-hours at %g, not %g", r.InstanceHours, *r.Cost, want)
	}
	if len(r.Changes) != 1 || r.Changes[0].Policy != byDeploy || r.Changes[0].InForceS != 20*60+280 {
		t.Errorf("changes %+v", r.Changes)
	}
}

// TestUnknownsAreSwitches: each setting of the unknowns is played in both modes, and the publication delay is waited for.
func TestUnknownsAreSwitches(t *testing.T) {
	base := Config{Seed: 1, Server: serverOf(t, ServerConfig{CS2: 0.01, Depth: 50}), Initial: 4, Stages: slow}
	base.Gate.Depth = 50
	base.Load = must[arrival.Profile](t)(arrival.Surge(50, 1.6, 30*time.Minute, time.Hour, 2*time.Hour))
	base.Scaling = tracking(60*14, 2, 20)
	base.Scaling.Policies = append(base.Scaling.Policies, trackHeld(30, true))
	first := map[string]float64{}
	for _, v := range (autoscale.Unknowns{}).Variations() {
		c := base
		c.Unknowns, c.Routing = v.Unknowns, v.Router
		r, f := must[Result](t)(Requests(c)), must[Result](t)(Fluid(c))
		if len(r.Changes) == 0 || len(f.Changes) == 0 {
			t.Fatalf("%s: no change", v.Name)
		}
		first[v.Name] = r.Changes[0].At
		if d := f.InstanceHours/r.InstanceHours - 1; math.Abs(d) > 0.1 {
			t.Errorf("%s: %.2f instance-hours by request, %.2f as a fluid", v.Name, r.InstanceHours, f.InstanceHours)
		}
		if r.Unknowns != v.Unknowns.String() {
			t.Errorf("%s: recorded as %s", v.Name, r.Unknowns)
		}
	}
	if d := first["publication_delay_s=120"] - first[""]; d != 120 {
		t.Errorf("two minutes of publication delay change the first decision by %g s", d)
	}
}

// TestPlanned turns a plan's policies into the autoscaler's.
func TestPlanned(t *testing.T) {
	m := capacity.Metric{Namespace: "AWS/SageMaker", Name: metricConcurrency, Dimensions: map[string]string{"EndpointName": "e", "VariantName": "v"}}
	target, threshold, zero := 780.0, 30.0, 0.0
	track := capacity.Policy{Name: "rate", Type: capacity.TargetTracking, Metric: capacity.Metric{Predefined: "SageMakerVariantInvocationsPerInstance"}, Target: &target, OutCooldown: 300, InCooldown: 960}
	step := capacity.Policy{Name: "surge", Type: capacity.StepScaling, Metric: m, Statistic: "Maximum", Period: 10, Threshold: &threshold, Comparison: "GreaterThanThreshold",
		Steps: []capacity.Step{{Lower: &zero, Change: 25}}, Adjustment: "PercentChangeInCapacity", Evaluation: 3, Datapoints: 3, MissingData: "notBreaching", NoScaleIn: true, OutCooldown: 290, InCooldown: 960}
	people := capacity.Alarm{Name: "people", Metric: m, Statistic: "Maximum", Period: 60, Comparison: "GreaterThanThreshold", Threshold: 40, Evaluation: 1, Datapoints: 1}
	s := must[Scaling](t)(Planned([]capacity.Policy{track, step}, []capacity.Alarm{people}, 2, 30))
	if len(s.Policies) != 2 || len(s.Alarms) != 1 || s.Alarms[0].Policy != "surge" || s.Alarms[0].Period != 10*time.Second || *s.Policies[1].Step.Cooldown != 290*time.Second {
		t.Errorf("%+v", s)
	}
	c := Config{Server: serverOf(t, ServerConfig{CS2: 0.01, Depth: 50}), Initial: 4, Scaling: s, Stages: slow}
	c.Gate.Depth = 50
	c.Load = must[arrival.Profile](t)(arrival.Surge(50, 2, 20*time.Minute, 20*time.Minute, time.Hour))
	if r := must[Result](t)(Requests(c)); len(r.Changes) == 0 || r.Changes[0].Policy != "surge" {
		t.Errorf("changes %+v", r.Changes)
	}
	for _, bad := range []capacity.Policy{{Name: "x", Type: "predictive"}, {Name: "x", Type: capacity.TargetTracking}, {Name: "x", Type: capacity.StepScaling}} {
		if _, err := Planned([]capacity.Policy{bad}, nil, 1, 2); err == nil {
			t.Errorf("%+v is played", bad)
		}
	}
}

// TestServerOf is a plan's measurements as a server: as fast as the plan counts on.
func TestServerOf(t *testing.T) {
	s := must[*Server](t)(ServerOf(capacity.Measured{Points: published, MuPlan: 17, SLO: 3, SMean: 0.1, FirstAudioAt1: 40}, 50))
	if math.Abs(s.most()-17) > 1e-9 || math.Abs(s.first-0.4) > 1e-9 || s.stages != 1 {
		t.Errorf("%g a second, first audio after %g, %d stages", s.most(), s.first, s.stages)
	}
}

// TestServerPlaces is how many requests an instance executes at once, as its Q_max shows.
func TestServerPlaces(t *testing.T) {
	side := func(q int, s float64) (ps []capacity.Point) { // q of s seconds each, side by side
		for n := 1; n <= q; n++ {
			ps = append(ps, capacity.Point{N: n, X: float64(n) / s})
		}
		return ps
	}
	for _, c := range []struct {
		name string
		m    capacity.Measured
		want int
	}{
		{"a queue of 50 within the objective", capacity.Measured{Points: published, QMax: 50, MuPlan: 17, SLO: 3, SMean: 0.061}, 1},
		{"Q_max not known", capacity.Measured{Points: published, MuPlan: 17, SLO: 3, SMean: 0.061, FirstAudioAt1: 40}, 1},
		{"streams of five minutes heard at once", capacity.Measured{Points: side(4, 300), QMax: 4, MuPlan: 4. / 300, SLO: 0.3, SMean: 300, FirstAudioAt1: 120}, 4},
		{"streams of a second, two of which fit into the objective one after the other", capacity.Measured{Points: side(4, 1), QMax: 4, MuPlan: 4, SLO: 0.5, SMean: 1, FirstAudioAt1: 10}, 2},
		{"whole replies, for which no number of places accounts", capacity.Measured{Points: side(4, 300), QMax: 4, MuPlan: 4. / 300, SLO: 10, SMean: 300}, 1},
	} {
		if s := must[*Server](t)(ServerOf(c.m, c.m.QMax)); s.places != c.want {
			t.Errorf("%s: %d places, not %d", c.name, s.places, c.want)
		}
		one := must[*Server](t)(ServerOf(c.m, 1)) // as the ceiling on one invocation may demand
		if _, err := newFlows(one, 1); err != nil || one.places != 1 {
			t.Errorf("%s, one at a time: %d places, %v", c.name, one.places, err)
		}
	}
}

// TestStreamsSideBySide: replies of five minutes that are heard after 0.12 s, of 0.3 allowed, are late in neither way of
// playing while an instance has a place for each that it lets in.
func TestStreamsSideBySide(t *testing.T) {
	zero := 0.0
	m := capacity.Measured{Points: []capacity.Point{{N: 1, X: 1. / 300}, {N: 2, X: 2. / 300}, {N: 4, X: 4. / 300}}, QMax: 4, MuPlan: 4. / 300,
		SLO: 0.3, SMean: 300, FirstAudioAt1: 120, CS2: &zero}
	cfg := Config{Seed: 1, Server: must[*Server](t)(ServerOf(m, 4)), Initial: 5}
	cfg.Gate.Depth = 4
	cfg.Load = must[arrival.Profile](t)(arrival.Constant(6.25/300, 6*time.Hour)) // 1.25 streams for each: Erlang's loss formula says 3 % refused
	for mode, play := range map[string]func(Config) (Result, error){"fluid": Fluid, "requests": Requests} {
		r := must[Result](t)(play(cfg))
		if r.Late > 0.001*r.Completed || r.Shed > 0.06*r.Completed {
			t.Errorf("%s: %g late and %g refused of %g", mode, r.Late, r.Shed, r.Completed)
		}
	}
}

func TestRefused(t *testing.T) {
	good := Config{Server: serverOf(t, ServerConfig{CS2: 0.01, Depth: 50}), Initial: 1}
	good.Gate.Depth = 50
	good.Load = must[arrival.Profile](t)(arrival.Constant(1, time.Minute))
	for want, spoil := range map[string]func(*Config){
		"server":       func(c *Config) { c.Server = nil },
		"load":         func(c *Config) { c.Load = nil },
		"initial":      func(c *Config) { c.Initial = 0 },
		"whole minute": func(c *Config) { c.Start = time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC) },
		"multiple of":  func(c *Config) { c.Point = 7 * time.Second },
		"the same":     func(c *Config) { c.Gate.Depth = 7 },
		"in order":     func(c *Config) { c.Arrivals = []time.Duration{2, 1} },
		"attempts":     func(c *Config) { c.Retry.Attempts = 99 },
		"back-off":     func(c *Config) { c.Retry.Attempts = 2 },
		"one kind":     func(c *Config) { c.Incidents = []Incident{{Lose: 0.1, Slow: 2}} },
		"maximum":      func(c *Config) { c.Scaling.Policies = tracking(1, 1, 1).Policies },
		"is not simul": func(c *Config) {
			c.Scaling = Scaling{Max: 2, Policies: []autoscale.Policy{tracked("x", "DiskUtilization", "Average", 50)}}
		},
		"metric math": func(c *Config) {
			c.Scaling.Alarms = []Alarm{{Alarm: alarm.Alarm{Query: alarm.Query{Math: "m1", Name: metricCPU}}}}
		},
		"the statistic": func(c *Config) {
			c.Scaling.Alarms = []Alarm{{Alarm: alarm.Alarm{Query: alarm.Query{Name: metricCPU, Statistic: "p95"}}}}
		},
		"there is not": func(c *Config) {
			c.Scaling = Scaling{Max: 2, Alarms: []Alarm{{Policy: "ghost", Alarm: alarm.Alarm{Query: alarm.Query{Name: metricCPU, Statistic: "Average"}}}}}
		},
		"must be above 0": func(c *Config) { c.Scaling = tracking(-1, 1, 2) },
	} {
		c := good
		spoil(&c)
		for mode, play := range map[string]func(Config) (Result, error){"requests": Requests, "fluid": Fluid} {
			if _, err := play(c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, wants %q", mode, err, want)
			}
		}
	}
	c := good
	c.Retry = Retry{Attempts: 2, Backoff: time.Second, Patience: time.Second}
	if _, err := Fluid(c); err == nil || !strings.Contains(err.Error(), "requests") {
		t.Errorf("callers' patience as a fluid: %v", err)
	}
	for _, bad := range []ServerConfig{{Points: published}, {SLO: 1, Points: nil}, {SLO: 1, Points: published, First: 2}, {SLO: 1, Points: published, CS2: math.NaN()}} {
		if _, err := NewServer(bad); err == nil {
			t.Errorf("%+v is a server", bad)
		}
	}
}

// TestWorkloadsTellThemselvesApart: the digest is of what was asked for, not of what answered it.
func TestWorkloadsTellThemselvesApart(t *testing.T) {
	c := Config{Server: serverOf(t, ServerConfig{CS2: 0.01}), Initial: 1}
	c.Load = must[arrival.Profile](t)(arrival.Constant(1, time.Minute))
	base := c.workload().Digest
	same := c
	same.Initial, same.Scaling, same.Unknowns.Delay, same.Price = 3, tracking(60, 1, 2), time.Minute, new(float64)
	if same.workload().Digest != base {
		t.Error("other policies are another workload")
	}
	for name, change := range map[string]func(*Config){
		"seed":     func(c *Config) { c.Seed++ },
		"load":     func(c *Config) { c.Load = arrival.Profile{{At: 0, Rate: 2}, {At: time.Minute, Rate: 2}} },
		"retry":    func(c *Config) { c.Retry.Attempts = 2 },
		"incident": func(c *Config) { c.Incidents = []Incident{{Lose: 1}} },
		"faults":   func(c *Config) { c.Incidents = []Incident{{Faults: &fleet.Faults{fleet.FailStuck: 1}}} },
		"server":   func(c *Config) { c.Server = serverOf(t, ServerConfig{CS2: 1}) },
	} {
		other := c
		change(&other)
		if other.workload().Digest == base {
			t.Errorf("%s: the same digest", name)
		}
	}
}

func TestShapes(t *testing.T) {
	day := must[arrival.Profile](t)(Diurnal(10, 100, Day))
	if got := day.Expected(Day) / Day.Seconds(); math.Abs(got-55) > 0.1 {
		t.Errorf("a day's mean is %g, not 55", got)
	}
	hourly := must[arrival.Profile](t)(TopOfHour(10, 3, 10*time.Minute, 150*time.Minute))
	if got, want := hourly.Expected(150*time.Minute), 10*150*60.0+2*20*600/2; got != want {
		t.Errorf("%g arrivals, not %g", got, want)
	}
	bursts := must[arrival.Profile](t)(Bursts(10, 2, time.Hour, 10*time.Minute, 125*time.Minute))
	if got, want := bursts.Expected(125*time.Minute), 10*(125+10+5)*60.0; got != want {
		t.Errorf("%g arrivals, not %g", got, want)
	}
	for _, err := range []error{second(Diurnal(-1, 5, Day)), second(TopOfHour(1, math.NaN(), 1, Day)), second(Bursts(1, 2, 0, 1, Day))} {
		if err == nil {
			t.Error("a shape that cannot be is played")
		}
	}
}

func second(_ arrival.Profile, err error) error { return err }

// TestQuantile holds the histogram against sorted values.
func TestQuantile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var w waits
	for range 100_000 {
		w.observe(rng.ExpFloat64(), 1)
	}
	for _, p := range []float64{0.5, 0.95, 0.99} {
		if want := -math.Log(1 - p); math.Abs(w.quantile(p)/want-1) > 0.02 {
			t.Errorf("p%g: %g, not %g", 100*p, w.quantile(p), want)
		}
	}
	if (&waits{}).quantile(0.5) != 0 || binOf(0) != 0 || binOf(1e9) != bins-1 || binOf(edge(100)) != 100 {
		t.Error("an edge of the histogram")
	}
}

// TestCount: counts have their mean as their variance too, however small it is.
func TestCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, mean := range []float64{0.2, 7, 400} {
		sum, sq, n := 0.0, 0.0, 20_000.0
		for range int(n) {
			x := count(rng, mean)
			sum, sq = sum+x, sq+x*x
		}
		got := sum / n
		if v := sq/n - got*got; math.Abs(got/mean-1) > 0.05 || math.Abs(v/mean-1) > 0.05 {
			t.Errorf("expected %g: mean %.3f, variance %.3f", mean, got, v)
		}
	}
}

package sim

import (
	"math"
	"testing"
	"time"

	"loadline/internal/arrival"
	"loadline/internal/autoscale"
	"loadline/internal/capacity"
)

// TestScaleOutIsAChain is case E2: three minutes until the alarm and 103 s until the instance serves are 283 s, in which
// 5 a second more than the fleet completes are 1,415 requests that queue or are lost. Instances that serve before their
// first good audio count from then on alone.
func TestScaleOutIsAChain(t *testing.T) {
	for _, c := range []struct {
		name           string
		start, settle  time.Duration
		seconds, extra float64
	}{
		{"start of 103 s", 103 * time.Second, 0, 283, 1415},
		{"in service at 240 s, first good audio at 330 s", 60 * time.Second, 90 * time.Second, 330, 1650},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Seed: 1, Server: serverOf(t, ServerConfig{CS2: 0.01, Depth: 50}), Initial: 4, Even: true, Scaling: tracking(60*17.6, 4, 8)}
			cfg.Gate.Depth = 50
			cfg.Stages.Container, cfg.Stages.Settle = c.start, c.settle
			most := 4 * cfg.Server.most()
			cfg.Load = must[arrival.Profile](t)(arrival.Surge(0.9*most, (most+5)/(0.9*most), 30*time.Minute, 30*time.Minute, time.Hour))
			r := must[Result](t)(Requests(cfg))
			if len(r.Changes) == 0 || r.Changes[0].InForceS-1800 != c.seconds {
				t.Fatalf("changes %+v: the first in force %g s after the rise", r.Changes, c.seconds)
			}
			queued := 0.0
			for _, p := range r.Timeline {
				if p.At >= 1800 && p.At+10 <= 1800+c.seconds { // whole points: up to 3 s less
					queued += p.Offered*10 - p.Completed
				}
			}
			lost := r.Shed
			// What the four queues took in is not lost: they were not full before.
			if room := 4 * 50.0; lost > c.extra || lost < c.extra-room-30 {
				t.Errorf("%g lost of %g that came beyond what the fleet completes, with room for %g", lost, c.extra, room)
			}
			if queued < c.extra-60 || queued > c.extra+40 {
				t.Errorf("%g queued or lost, not %g", queued, c.extra)
			}
		})
	}
}

// TestTrackersAgree is case A5, arm b: with two trackers a fleet that one of them would shrink stays as it is for six
// hours, with nothing refused; when both are ready it shrinks to what the larger one wants.
func TestTrackersAgree(t *testing.T) {
	s := must[Scenario](t)(ScenarioNamed("two-trackers"))
	c := must[Config](t)(s.Config())
	both := must[Result](t)(Requests(c))
	if len(both.Changes) != 0 || len(both.Refusals) != 0 {
		t.Errorf("changes %v and refusals %v of two trackers that do not agree", both.Changes, both.Refusals)
	}
	c.Scaling.Policies = c.Scaling.Policies[:1]
	if one := must[Result](t)(Requests(c)); len(one.Changes) == 0 || one.Changes[0].To != 5 { // 60 a second at 13.5 each
		t.Errorf("changes %v of the one tracker alone, not to 5", one.Changes)
	}
	c = must[Config](t)(s.Config())
	c.Scaling.Policies[1].Tracking.Target = 60 // now both want fewer: 5, and ⌈12 × 27.9/60⌉ = 6
	if r := must[Result](t)(Requests(c)); len(r.Changes) == 0 || r.Changes[0].To != 6 {
		t.Errorf("changes %v of two trackers that agree, not to 6", r.Changes)
	}
}

// TestFlappingIsCounted is case E3: the simulator counts direction changes in the worst hour, and tells the guard's
// refusal from one by the fleet's largest size.
func TestFlappingIsCounted(t *testing.T) {
	c := must[Config](t)(must[Scenario](t)(ScenarioNamed("boundary-unguarded")).Config())
	free := must[Result](t)(Fluid(c))
	if free.MostAnHour < 2 {
		t.Errorf("%d direction changes in the worst hour", free.MostAnHour)
	}
	c.Unknowns.Guard = autoscale.GuardOn
	held := must[Result](t)(Fluid(c))
	if held.DirectionChanges != 0 || held.refusals(autoscale.Flapping) != 1 || held.refusals(autoscale.AtMax) != 0 {
		t.Errorf("%d direction changes, refusals %v", held.DirectionChanges, held.Refusals)
	}
}

// TestIdleProcessors is case E1: with the concurrency tracked beside the processors the fleet is not scaled in while
// callers wait, and what is asked for stays below the maximum that can be provisioned.
func TestIdleProcessors(t *testing.T) {
	c := must[Config](t)(must[Scenario](t)(ScenarioNamed("idle-cpu")).Config())
	alone := must[Result](t)(Requests(c))
	if last := alone.Timeline[len(alone.Timeline)-1]; last.Desired != 2 || last.InFlight < 99 {
		t.Errorf("processors alone: %d instances hold %g in the end", last.Desired, last.InFlight)
	}
	if shrunk := alone.ShrunkWhileBad(); len(shrunk) != 2 || shrunk[0].Policy != "cpu" || shrunk[0].To != 3 {
		t.Errorf("processors alone took instances away while callers waited: %+v", shrunk)
	}
	c.Scaling.Policies = append(c.Scaling.Policies, trackHeld(20, false))
	c.Quota = 40
	beside := must[Result](t)(Requests(c))
	for _, ch := range beside.Changes {
		if ch.At > 1800 && ch.To < ch.From {
			t.Errorf("scaled in at %g s, from %d to %d, while callers waited", ch.At, ch.From, ch.To)
		}
	}
	if shrunk := beside.ShrunkWhileBad(); len(shrunk) != 0 {
		t.Errorf("with the concurrency beside: %+v", shrunk)
	}
	if n := beside.refusals("service limit"); n != 0 {
		t.Errorf("%g refusals by the quota", n)
	}
}

// TestFewLongStreams is case E5: one stream of 300 s a minute is five at once by Little's law and one invocation a
// minute; for 240 requests of 1 s a minute, arm b, either metric sees the load.
func TestFewLongStreams(t *testing.T) {
	c := must[Config](t)(must[Scenario](t)(ScenarioNamed("few-long-streams")).Config())
	c.Load = must[arrival.Profile](t)(arrival.Constant(1./60, 24*time.Hour))
	c.Initial, c.Scaling = 4, Scaling{}
	r := must[Result](t)(Requests(c))
	if math.Abs(r.MeanInFlight-5) > 0.5 {
		t.Errorf("%.2f at once, not 5", r.MeanInFlight)
	}
	if r.Offered/(24*60) > 1.1 {
		t.Errorf("%.2f invocations a minute", r.Offered/(24*60))
	}
	for name, p := range map[string]autoscale.Policy{"rate": trackRate(30), "concurrency": trackHeld(3, false)} {
		short := must[Config](t)(streams(1, 2).loaded(arrival.Surge(0.5, 12, time.Hour, time.Hour, 2*time.Hour)).between(2, 20, p).done())
		short.Server = serverOf(t, ServerConfig{Points: []capacity.Point{{N: 1, X: 1}, {N: 4, X: 4}}, CS2: 0.04, Places: 4, SLO: 10 * time.Second, Depth: 8})
		if r := must[Result](t)(Requests(short)); len(r.Changes) == 0 || r.Changes[0].To <= 2 {
			t.Errorf("%s: changes %v as the load rose from 30 to 360 a minute", name, r.Changes)
		}
	}
}

// TestCutStreams is case E4, the plan's half: what the plan says of the streams that a removal cuts is what the simulator
// counts.
func TestCutStreams(t *testing.T) {
	c := must[Config](t)(must[Scenario](t)(ScenarioNamed("long-streams")).Config())
	cut, removed := 0.0, 0.0
	for seed := range uint64(4) {
		c.Seed = seed
		r := must[Result](t)(Requests(c))
		cut += r.Cut
		removed += 60 * 1.5 // 180 at once on 120
	}
	// Of the streams in flight at an instant, those that outlive a time a of their rest: E(S − a)⁺ / E(S).
	if want := 60.0 / 90; math.Abs(cut/removed-want) > 0.08 {
		t.Errorf("%.3f of the streams were cut, not %.3f", cut/removed, want)
	}
}

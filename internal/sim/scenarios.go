package sim

import (
	"time"

	"loadline/internal/arrival"
	"loadline/internal/autoscale"
	"loadline/internal/fleet"
)

// Scenarios are the named scenarios, in the order in which they are told.
func Scenarios() []Scenario {
	return []Scenario{{
		Name: "slots-walk",
		About: "The published rule on an unbounded queue: 12 healthy instances hold few requests each, so that one after the other is taken away, down to saturation; " +
			"then the load rises by half, the queues grow without end, their length asks for many times the fleet, and the quota of 20 refuses it whole.",
		Config: func() (Config, error) {
			return serial(0, 12).loaded(arrival.Surge(84, 1.5, 101*time.Minute, time.Hour, 3*time.Hour)).slots(1, 200, 37.5, 25).
				with(func(c *Config) { c.Quota = 20 }).done()
		},
		Expect: []Expect{
			{"instances wanted at the fewest, before the surge", 5, 5, func(r *Result) float64 { return fewest(r, 0, 101*time.Minute) }},
			{"refusals by the quota", 1, 60, func(r *Result) float64 { return r.refusals("service limit") }},
			{"instances asked for at the most, of a quota of 20", 38, 200, mostAsked},
			{"share late or lost in the quarter of an hour after the load has risen", 0.2, 1, func(r *Result) float64 { return 1 - r.good(103*time.Minute, 118*time.Minute) }},
		},
	}, {
		Name:  "surge-slots",
		About: "The published fleet of 9 under the peak of 5,000 a second that it was planned for, with a surge of a quarter: it serves 3 %.",
		Config: func() (Config, error) {
			return serial(50, 9).loaded(arrival.Surge(5000, 1.25, 10*time.Minute, 10*time.Minute, 40*time.Minute)).slots(1, 9, 37.5, 25).done()
		},
		Expect: []Expect{
			{"share served in time before the surge", 0.031, 0.033, func(r *Result) float64 { return r.good(0, 10*time.Minute) }},
			{"share served in time during it", 0.025, 0.027, func(r *Result) float64 { return r.good(10*time.Minute, 20*time.Minute) }},
		},
	}, {
		Name:  "surge-flow",
		About: "The flow rule's fleet of 384 under the same load: what the surge brings is completed until more instances come, and nobody waits too long.",
		Config: func() (Config, error) {
			return serial(50, 384).loaded(arrival.Surge(5000, 1.25, 10*time.Minute, 10*time.Minute, 40*time.Minute)).flow(280, 600, 60*13.15, 32, 25).done()
		},
		Expect: []Expect{
			{"late", 0, 0, func(r *Result) float64 { return r.Late }},
			{"share late or lost", 0, 0.0005, badShare},
			{"seconds from the rise to a larger fleet in force", 300, 370, func(r *Result) float64 { return r.Changes[0].InForceS - 600 }},
			{"instances in force after the first change", 480, 480, func(r *Result) float64 { return float64(r.Changes[0].To) }},
		},
	}, {
		Name:  "deploy-reset",
		About: "A deployment that does not retain the live count brings a fleet of 20 back with 2 instances, at full load.",
		Config: func() (Config, error) {
			return serial(50, 20).loaded(arrival.Constant(260, 2*time.Hour)).flow(2, 40, 60*13.5, 32, 25).
				with(func(c *Config) { c.Incidents = []Incident{{At: 30 * time.Minute, Deploy: 2}} }).done()
		},
		Expect: []Expect{
			{"instances after the deployment", 2, 2, func(r *Result) float64 { return fewest(r, 31*time.Minute, 2*time.Hour) }},
			{"share served in time in the ten minutes after it", 0.09, 0.2, func(r *Result) float64 { return r.good(35*time.Minute, 45*time.Minute) }},
			{"minutes until 15 instances serve again", 15, 70, func(r *Result) float64 { return r.reached(15, 40*time.Minute)/60 - 30 }},
		},
	}, {
		Name: "retry-storm",
		About: "Callers give up after 3 s and come back at once, up to four times, while the servers answer those who left: a surge of ten minutes ends, " +
			"and the fleet that carried the load before it never recovers.",
		Config: func() (Config, error) {
			return serial(0, 10).loaded(arrival.Surge(140, 1.5, 20*time.Minute, 10*time.Minute, 80*time.Minute)).
				with(func(c *Config) {
					c.Retry = Retry{Attempts: 4, Backoff: time.Second, Most: 4 * time.Second, Patience: 3 * time.Second, Unnoticed: true}
				}).done()
		},
		Expect: []Expect{
			{"share served in time before the surge", 0.999, 1, func(r *Result) float64 { return r.good(0, 20*time.Minute) }},
			{"share served in time long after it", 0, 0.001, func(r *Result) float64 { return r.good(time.Hour, 80*time.Minute) }},
			{"share of the work done for nobody", 0.7, 1, func(r *Result) float64 { return r.Wasted / (r.Wasted + r.Completed) }},
		},
	}, {
		Name:  "retry-budget",
		About: "The same surge with a gate that refuses beyond 50 and callers who retry one request in ten: minutes after the surge all is well.",
		Config: func() (Config, error) {
			return serial(50, 10).loaded(arrival.Surge(140, 1.5, 20*time.Minute, 10*time.Minute, 80*time.Minute)).
				with(func(c *Config) {
					c.Retry = Retry{Attempts: 4, Backoff: time.Second, Most: 4 * time.Second, Patience: 3 * time.Second, Unnoticed: true, Budget: 0.1}
				}).done()
		},
		Expect: []Expect{
			{"share served in time during the surge", 0.65, 0.75, func(r *Result) float64 { return r.good(20*time.Minute, 30*time.Minute) }},
			{"share served in time from two minutes after it on", 0.9999, 1, func(r *Result) float64 { return r.good(32*time.Minute, 80*time.Minute) }},
			{"retries a fresh request", 0, 0.1, func(r *Result) float64 { return r.Retried / r.Offered }},
		},
	}, {
		Name: "placement",
		About: "The load doubles and no machine can be found: each change keeps the endpoint Updating for half an hour, in which nothing else can be changed, " +
			"and is then rolled back, unfulfilled.",
		Config: func() (Config, error) {
			return serial(50, 6).loaded(arrival.Surge(80, 2, 20*time.Minute, 3*time.Hour, 200*time.Minute)).flow(2, 40, 60*13.5, 32, 25).
				with(func(c *Config) { c.Faults = fleet.Faults{fleet.FailPlacement: 1} }).done()
		},
		Expect: []Expect{
			{"instances in service at the most", 6, 6, func(r *Result) float64 { return float64(r.PeakInstances) }},
			{"changes that were not fulfilled", 4, 6, func(r *Result) float64 { return r.refusals("InsufficientInstanceCapacity") }},
			{"minutes from one change to the next", 30, 30, func(r *Result) float64 { return (r.Changes[1].At - r.Changes[0].At) / 60 }},
			{"share served in time once the load has doubled", 0.65, 0.69, func(r *Result) float64 { return r.good(30*time.Minute, 3*time.Hour) }},
		},
	}, {
		Name:  "zone-loss",
		About: "A third of 12 instances is lost at once. Two thirds carry the load until replacements have come, above what they complete: the fleet had no spare.",
		Config: func() (Config, error) {
			return serial(50, 12).loaded(arrival.Constant(165, time.Hour)).
				with(func(c *Config) { c.Incidents = []Incident{{At: 20 * time.Minute, Lose: 1.0 / 3}} }).done()
		},
		Expect: []Expect{
			{"lost until the replacements came: (165 − 8 × 17.9) × 280 s, less what fits into the queues", 4500, 6500, lost},
			{"cut off with their instances", 4, 60, func(r *Result) float64 { return r.Cut }},
		},
	}, {
		Name:  "zone-loss-spare",
		About: "The same loss, from a fleet that was planned with four spare instances.",
		Config: func() (Config, error) {
			return serial(50, 16).loaded(arrival.Constant(165, time.Hour)).
				with(func(c *Config) { c.Incidents = []Incident{{At: 20 * time.Minute, Lose: 1.0 / 3}} }).done()
		},
		Expect: []Expect{
			{"lost but for those that were cut off", 0, 5, func(r *Result) float64 { return lost(r) - r.Cut }},
			{"cut off with their instances", 1, 40, func(r *Result) float64 { return r.Cut }},
		},
	}, {
		Name: "launch",
		About: "Something begins at nine in the morning in Berlin, on the day before the clocks go forward and on the day itself. A scheduled minimum ten minutes earlier, " +
			"in that time zone, has the fleet ready both times.",
		Config: func() (Config, error) { return launch("Europe/Berlin") },
		Expect: []Expect{
			{"share late or lost", 0, 0.0001, badShare},
			{"seconds from the second start to the first, less a day: the clocks went forward", -3600, -3600, func(r *Result) float64 { return launchesAt(r, 1) - launchesAt(r, 0) - Day.Seconds() }},
		},
	}, {
		Name:   "launch-utc",
		About:  "The same with the schedule written in UTC, as it was right in winter: on the second day it comes an hour late.",
		Config: func() (Config, error) { return launch("") },
		Expect: []Expect{
			{"share served in time in the first quarter of an hour of the second day's", 0.4, 0.7, func(r *Result) float64 { return r.good(31*time.Hour, 31*time.Hour+15*time.Minute) }},
			{"share served in time on the first day", 0.9999, 1, func(r *Result) float64 { return r.good(0, Day) }},
		},
	}, {
		Name: "idle-cpu",
		About: "What the servers wait for takes ten times as long. Their processors fall idle, and a fleet that is scaled by its processors alone is scaled in, " +
			"while callers wait.",
		Config: func() (Config, error) {
			return serial(50, 12).loaded(arrival.Constant(130, 2*time.Hour)).between(2, 40, tracked("cpu", metricCPU, "Average", 60)).
				with(func(c *Config) { c.Incidents = []Incident{{At: 30 * time.Minute, Slow: 10}} }).done()
		},
		Expect: []Expect{
			{"percent of a processor once everything waits", 8, 12, func(r *Result) float64 { return r.Timeline[len(r.Timeline)-1].CPU }},
			{"instances in the end, of 13", 2, 2, func(r *Result) float64 { return float64(r.Timeline[len(r.Timeline)-1].Desired) }},
			{"share served in time in the end", 0, 0.001, func(r *Result) float64 { return r.good(time.Hour, 2*time.Hour) }},
		},
	}, {
		Name: "long-streams",
		About: "Streams of 90 s, a hundred and eighty at once on 120 instances, of which a scheduled maximum removes half: an instance is given 30 s for what it holds, " +
			"so that two in three of the streams on it are cut off.",
		Config: func() (Config, error) {
			sixty := 60
			return streams(90, 120).loaded(arrival.Constant(2, 2*time.Hour)).between(2, 120).
				with(func(c *Config) {
					c.Scaling.Scheduled = []autoscale.Scheduled{{Name: "evening", Schedule: "at(2026-01-05T01:00:00)", Max: &sixty}}
				}).done()
		},
		Expect: []Expect{
			{"cut off: 60 instances × 1.5 streams × (90 − 30)/90", 40, 80, func(r *Result) float64 { return r.Cut }},
			{"late", 0, 20, func(r *Result) float64 { return r.Late }},
		},
	}, {
		Name: "few-long-streams",
		About: "One stream of 300 s a minute, and then three: five and fifteen at once on two instances that hold four each, at one and three invocations a minute. " +
			"A tracker of 30 a minute and instance sees nothing of it.",
		Config: func() (Config, error) {
			return streams(300, 2).loaded(arrival.Surge(1./60, 3, time.Hour, 2*time.Hour, 3*time.Hour)).between(2, 20, trackRate(30)).done()
		},
		Expect: []Expect{
			{"changes of capacity", 0, 0, func(r *Result) float64 { return float64(len(r.Changes)) }},
			{"share served in time at three a minute", 0, 0.35, func(r *Result) float64 { return r.good(80*time.Minute, 3*time.Hour) }},
		},
	}, {
		Name:  "few-long-streams-held",
		About: "The same streams, with the concurrency tracked in place of the rate.",
		Config: func() (Config, error) {
			return streams(300, 2).loaded(arrival.Surge(1./60, 3, time.Hour, 2*time.Hour, 3*time.Hour)).between(2, 20, trackHeld(3, false)).done()
		},
		Expect: []Expect{
			{"changes of capacity", 2, 40, func(r *Result) float64 { return float64(len(r.Changes)) }},
			{"share served in time at three a minute", 0.85, 1, func(r *Result) float64 { return r.good(80*time.Minute, 3*time.Hour) }},
		},
	}, {
		Name: "two-trackers",
		About: "One tracker's low alarm has been in ALARM for hours, the other's is not: any tracker may scale out, and all must agree to scale in, so that the fleet stays " +
			"as large as it is. It is no fault.",
		Config: func() (Config, error) {
			return serial(50, 12).loaded(arrival.Constant(60, 6*time.Hour)).
				between(2, 40, trackRate(60*13.5), tracked("cpu", metricCPU, "Average", 30)).done()
		},
		Expect: []Expect{
			{"changes of capacity in six hours", 0, 0, func(r *Result) float64 { return float64(len(r.Changes)) }},
			{"percent of a processor: not below 0.9 × 30", 27, 30, func(r *Result) float64 { return meanCPU(r) }},
		},
	}, {
		Name: "flapping",
		About: "120 to 145 requests a minute against a target of 70 a minute and instance: at the top two instances are one too few, at the bottom three are one too many, " +
			"and the fleet follows each turn of the load.",
		Config: func() (Config, error) {
			var load arrival.Profile
			for at := time.Duration(0); at <= 12*time.Hour; at += 20 * time.Minute {
				load = append(load, arrival.Point{At: at, Rate: (120 + 25*float64(at/(20*time.Minute)%2)) / 60})
			}
			return boundary(load, nil, autoscale.GuardOn)
		},
		Expect: []Expect{
			{"direction changes in the worst hour", 3, 3, func(r *Result) float64 { return float64(r.MostAnHour) }},
			{"share late or lost", 0, 0.001, badShare},
		},
	}, {
		Name: "boundary",
		About: "122 requests a minute against the same target: two instances see 61 each, little enough for the low alarm, and one would see 122. " +
			"The autoscaler's guard refuses the removal, in its own words.",
		Config: func() (Config, error) {
			load, err := arrival.Constant(122./60, 12*time.Hour)
			return boundary(load, err, autoscale.GuardOn)
		},
		Expect: []Expect{
			{"direction changes", 0, 0, turns},
			{"refusals of the guard", 1, 1, func(r *Result) float64 { return r.refusals(autoscale.Flapping) }},
		},
	}, {
		Name:  "boundary-unguarded",
		About: "The same boundary without the guard: the fleet goes down and up for as long as it lasts.",
		Config: func() (Config, error) {
			load, err := arrival.Constant(122./60, 12*time.Hour)
			return boundary(load, err, autoscale.GuardOff)
		},
		Expect: []Expect{
			{"direction changes in 12 hours", 30, 40, turns},
			{"instances at the fewest", 1, 1, func(r *Result) float64 { return fewest(r, 0, 12*time.Hour) }},
		},
	}}
}

// launch is two days on which something begins at nine in the morning in Berlin, and a minimum that a zone's clock sets.
func launch(zone string) (Config, error) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		return Config{}, err
	}
	start := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	var load arrival.Profile
	for day := range 2 {
		nine := time.Date(2026, 3, 28+day, 9, 0, 0, 0, berlin).Sub(start)
		load = append(load, arrival.Point{At: time.Duration(day) * Day, Rate: 20}, arrival.Point{At: nine, Rate: 20}, arrival.Point{At: nine, Rate: 150},
			arrival.Point{At: nine + time.Hour, Rate: 150}, arrival.Point{At: nine + 2*time.Hour, Rate: 20})
	}
	load = append(load, arrival.Point{At: 2 * Day, Rate: 20})
	hour, location := "8", berlin
	if zone == "" {
		hour, location = "7", nil
	}
	twelve, two := 12, 2
	s := serial(50, 3).loaded(load, nil).flow(2, 40, 60*13.5, 32, 25).with(func(c *Config) {
		c.Start = start
		c.Scaling.Scheduled = []autoscale.Scheduled{
			{Name: "before", Schedule: "cron(50 " + hour + " ? * * *)", Timezone: zone, Location: location, Min: &twelve},
			{Name: "after", Schedule: "cron(0 11 ? * * *)", Timezone: zone, Location: location, Min: &two},
		}
	})
	return s.done()
}

// boundary is a fleet of two at the edge of what its target calls for.
func boundary(load arrival.Profile, err error, guard autoscale.FlappingGuard) (Config, error) {
	return serial(50, 2).loaded(load, err).between(1, 10, trackRate(70)).with(func(c *Config) { c.Even = true; c.Unknowns.Guard = guard }).done()
}

package main

import (
	"testing"
	"time"

	"loadline/internal/capacity"
	"loadline/internal/ladder"
)

// TestAgreement is a short trial: a surge of 24 s, a step policy that one period of 10 s calls, instances within 3 s.
func TestAgreement(t *testing.T) {
	if testing.Short() {
		t.Skip("plays half a minute of a surge in real time: not with -short")
	}
	t.Parallel()
	cs2, zero, threshold := 0.0025, 0.0, 6.0
	metric := capacity.Metric{Namespace: "AWS/SageMaker", Name: "ConcurrentRequestsPerModel", Dimensions: map[string]string{"EndpointName": endpoint, "VariantName": variant}}
	s := trial{
		profile: small, depth: 10, start: 3 * time.Second, initial: 3, most: 12, base: 9, ratio: 7. / 3, before: 3 * time.Second, surge: 24 * time.Second, ahead: 7 * time.Second,
		// The objective is far from what ten in the system take, so that a busy machine is not late by itself.
		m: capacity.Measured{QMax: 10, QRPS: 5, QSMean: 2, SLO: 6, Pct: 95, SMean: 0.2, SP95: 0.22, SAt: 1, Mu: ladder.Interval{Value: 5}, MuPlan: 5, CS2: &cs2,
			Points: []capacity.Point{{N: 1, X: 5}, {N: 10, X: 5}}},
		policies: []capacity.Policy{{Name: "loadline-surge", Type: capacity.StepScaling, Metric: metric, Statistic: "Maximum", Period: 10, Threshold: &threshold,
			Comparison: "GreaterThanThreshold", Steps: []capacity.Step{{Lower: &zero, Change: 3}}, Adjustment: "ChangeInCapacity", Evaluation: 1, Datapoints: 1,
			MissingData: "notBreaching", NoScaleIn: true, OutCooldown: 60, InCooldown: 300}},
		alarms: []capacity.Alarm{{Name: "loadline-surge", Metric: metric, Statistic: "Maximum", Period: 10, Comparison: "GreaterThanThreshold", Threshold: threshold,
			Evaluation: 1, Datapoints: 1, MissingData: "notBreaching", Policy: "loadline-surge"}},
	}
	a, err := s.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + a.String())
	if a.simulated.refused == 0 || len(a.simulated.steps) != 1 {
		t.Errorf("the trial tries nothing: %d refused, %d steps", a.simulated.refused, len(a.simulated.steps))
	}
	if why := a.differ(); why != "" {
		t.Error(why)
	}
}

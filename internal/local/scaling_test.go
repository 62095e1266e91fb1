package local

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aastypes "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
)

// stepper is an account whose time goes on when the test says so.
type stepper struct {
	*world
	offset atomic.Int64
	start  time.Time
}

// stepping starts an account that its clock's own loop leaves alone: time stands still between steps.
func stepping(t *testing.T, cfg Config, h http.HandlerFunc) *stepper {
	t.Helper()
	s := &stepper{start: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	cfg.Now = func() time.Time { return s.start.Add(time.Duration(s.offset.Load())) }
	s.world = serving(t, cfg, h)
	return s
}

func (s *stepper) elapsed() time.Duration { return time.Duration(s.offset.Load()) }

// step lets time pass in steps of at most ten seconds.
func (s *stepper) step(d time.Duration) {
	for d > 0 {
		by := min(d, 10*time.Second)
		s.offset.Add(int64(by))
		s.platform.Tick()
		d -= by
	}
}

// until steps until something is so, and is how long that took; -1 when it is not so after the longest.
func (s *stepper) until(longest time.Duration, is func() bool) time.Duration {
	for from := s.elapsed(); s.elapsed()-from <= longest; s.step(10 * time.Second) {
		if is() {
			return s.elapsed() - from
		}
	}
	return -1
}

func (s *stepper) count(t *testing.T) (desired, current int) {
	t.Helper()
	out, err := s.sm.DescribeEndpoint(t.Context(), &sm.DescribeEndpointInput{EndpointName: aws.String(speech)})
	if err != nil {
		t.Fatal(err)
	}
	v := out.ProductionVariants[0]
	return int(*v.DesiredInstanceCount), int(*v.CurrentInstanceCount)
}

func (s *stepper) desired(t *testing.T) int { d, _ := s.count(t); return d }

func (s *stepper) activities(t *testing.T, all bool) []aastypes.ScalingActivity {
	t.Helper()
	out, err := s.aas.DescribeScalingActivities(t.Context(), &aas.DescribeScalingActivitiesInput{ServiceNamespace: "sagemaker",
		ResourceId: aws.String(primary), IncludeNotScaledActivities: aws.Bool(all)})
	if err != nil {
		t.Fatal(err)
	}
	return out.ScalingActivities
}

func (s *stepper) track(t *testing.T, name, predefined string, target float64) *aas.PutScalingPolicyOutput {
	t.Helper()
	out, err := s.aas.PutScalingPolicy(t.Context(), &aas.PutScalingPolicyInput{PolicyName: &name, ServiceNamespace: "sagemaker",
		ResourceId: aws.String(primary), ScalableDimension: instanceCount, PolicyType: "TargetTrackingScaling",
		TargetTrackingScalingPolicyConfiguration: &aastypes.TargetTrackingScalingPolicyConfiguration{TargetValue: &target,
			ScaleInCooldown: aws.Int32(600), ScaleOutCooldown: aws.Int32(300),
			PredefinedMetricSpecification: &aastypes.PredefinedMetricSpecification{PredefinedMetricType: aastypes.MetricType(predefined)}}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// holding is a container whose requests stay until the gate opens.
type holding struct {
	gate   chan struct{}
	inside atomic.Int64
}

func (h *holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.inside.Add(1)
	defer h.inside.Add(-1)
	select {
	case <-h.gate:
	case <-r.Context().Done():
	}
	io.WriteString(w, "ok")
}

// TestScalesByConcurrency is the life of a fleet under target tracking on the high-resolution concurrency: the pair of
// alarms is there by AWS's names, the alarm goes off 30 s and the publication delay after the load came, instances start
// for real, activities tell of it, and fifteen quiet minutes later the fleet is at its minimum and the containers are gone.
func TestScalesByConcurrency(t *testing.T) {
	for _, across := range []autoscale.Across{autoscale.AcrossMax, autoscale.AcrossMean} {
		h := &holding{gate: make(chan struct{})}
		e := one(1)
		e.Variants[0].Stages = fleet.Stages{Provision: 100 * time.Second, Settle: 10 * time.Second}
		s := stepping(t, Config{Endpoints: []Endpoint{e}, Published: 20 * time.Second, Unknowns: autoscale.Unknowns{Across: across}}, h.ServeHTTP)
		put := s.track(t, "concurrency", "SageMakerVariantConcurrentRequestsPerModelHighResolution", 2)
		if len(put.Alarms) != 2 || !strings.HasPrefix(*put.Alarms[0].AlarmName, "TargetTracking-"+primary+"-AlarmHigh-") {
			t.Fatalf("alarms: %+v", put.Alarms)
		}
		alarms, err := s.cw.DescribeAlarms(t.Context(), &cw.DescribeAlarmsInput{AlarmNamePrefix: aws.String("TargetTracking-endpoint/" + speech)})
		if err != nil || len(alarms.MetricAlarms) != 2 {
			t.Fatalf("%v: %d alarms", err, len(alarms.MetricAlarms))
		}
		for _, a := range alarms.MetricAlarms {
			high := strings.Contains(*a.AlarmName, "-AlarmHigh-")
			if a.StateValue != "INSUFFICIENT_DATA" || *a.Period != 10 || a.Statistic != "Maximum" || *a.MetricName != "ConcurrentRequestsPerModel" ||
				high && (*a.Threshold != 2 || *a.EvaluationPeriods != 3 || a.ComparisonOperator != "GreaterThanThreshold") ||
				!high && (*a.Threshold != 1.8 || *a.EvaluationPeriods != 90 || a.ComparisonOperator != "LessThanThreshold") ||
				!slices.Equal(a.AlarmActions, []string{*put.PolicyARN}) || len(a.Dimensions) != 2 {
				t.Errorf("%+v", a)
			}
		}
		s.step(2 * time.Minute)

		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if _, err := s.invoke(t, "x"); err != nil {
					t.Errorf("invoke: %v", err)
				}
			})
		}
		for h.inside.Load() < 8 {
			<-time.After(time.Millisecond)
		}
		took := s.until(5*time.Minute, func() bool { return s.desired(t) > 1 })
		if took < 50*time.Second || took > 60*time.Second {
			t.Errorf("it scaled out after %s, want 50 s", took)
		}
		if d := s.desired(t); d != 4 {
			t.Errorf("8 requests at a target of 2 made %d instances", d)
		}
		log := s.activities(t, false)
		if len(log) != 1 || log[0].StatusCode != "InProgress" || *log[0].Description != "Setting desired instance count to 4." ||
			*log[0].Cause != "monitor alarm "+*put.Alarms[0].AlarmName+" in state ALARM triggered policy concurrency" {
			t.Errorf("%+v", log)
		}
		close(h.gate)
		calls.Wait()
		quiet := s.elapsed()
		s.step(100 * time.Second) // the containers start, and answer in real time
		for s.platform.Tick(); s.platform.Starting(speech) > 0; s.platform.Tick() {
			<-time.After(time.Millisecond)
		}
		s.step(20 * time.Second)
		if d, c := s.count(t); d != 4 || c != 4 {
			t.Fatalf("desired %d, in service %d", d, c)
		}
		log = s.activities(t, false)
		if a := log[len(log)-1]; a.StatusCode != "Successful" || *a.StatusMessage != "Successfully set desired instance count to 4. Change successfully fulfilled by sagemaker." || a.EndTime == nil {
			t.Errorf("%+v", a)
		}
		s.until(40*time.Minute, func() bool { return s.desired(t) == 1 })
		if took := s.elapsed() - quiet; took < 15*time.Minute || took > 16*time.Minute {
			t.Errorf("it scaled in after %s", took)
		}
		for _, c := s.count(t); c > 1; _, c = s.count(t) {
			<-time.After(time.Millisecond)
		}
		running := 0
		s.mu.Lock()
		for _, b := range s.boxes {
			if !b.ended.Load() {
				running++
			}
		}
		boxes := len(s.boxes)
		s.mu.Unlock()
		if boxes != 4 || running != 1 {
			t.Errorf("%d of %d containers run", running, boxes)
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	}
}

// TestScalesByRate: a standard metric reacts within 180 s and the publication delay, and a step policy on an alarm of
// one's own scales in.
func TestScalesByRate(t *testing.T) {
	s := stepping(t, Config{Endpoints: []Endpoint{one(1)}, Published: 30 * time.Second}, ok)
	s.track(t, "rate", "SageMakerVariantInvocationsPerInstance", 10)
	s.step(time.Minute)
	breach := s.elapsed()
	took := s.until(6*time.Minute, func() bool {
		for range 5 { // in ten seconds: 30 a minute
			if _, err := s.invoke(t, "x"); err != nil {
				t.Fatal(err)
			}
		}
		return s.desired(t) > 1
	})
	if took < 3*time.Minute || took > 4*time.Minute {
		t.Errorf("it scaled out %s after the breach at %s", took, breach)
	}
	if d := s.desired(t); d != 3 {
		t.Errorf("30 a minute at a target of 10 made %d instances", d)
	}
	s.settled(t)
	if _, err := s.aas.DeleteScalingPolicy(t.Context(), &aas.DeleteScalingPolicyInput{PolicyName: aws.String("rate"), ServiceNamespace: "sagemaker",
		ResourceId: aws.String(primary), ScalableDimension: instanceCount}); err != nil {
		t.Fatal(err)
	}
	before := s.desired(t)

	step, err := s.aas.PutScalingPolicy(t.Context(), &aas.PutScalingPolicyInput{PolicyName: aws.String("idle"), ServiceNamespace: "sagemaker",
		ResourceId: aws.String(primary), ScalableDimension: instanceCount, PolicyType: "StepScaling",
		StepScalingPolicyConfiguration: &aastypes.StepScalingPolicyConfiguration{AdjustmentType: "ChangeInCapacity", Cooldown: aws.Int32(60),
			StepAdjustments: []aastypes.StepAdjustment{{MetricIntervalUpperBound: aws.Float64(0), ScalingAdjustment: aws.Int32(-1)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.cw.PutMetricAlarm(t.Context(), &cw.PutMetricAlarmInput{AlarmName: aws.String("idle"), Namespace: aws.String("AWS/SageMaker"),
		MetricName: aws.String("ConcurrentRequestsPerModel"), Statistic: "Maximum", Period: aws.Int32(10), EvaluationPeriods: aws.Int32(2), Threshold: aws.Float64(0),
		ComparisonOperator: "LessThanOrEqualToThreshold", AlarmActions: []string{*step.PolicyARN},
		Dimensions: []cwtypes.Dimension{{Name: aws.String("EndpointName"), Value: aws.String(speech)}, {Name: aws.String("VariantName"), Value: aws.String("primary")}}}); err != nil {
		t.Fatal(err)
	}
	if took := s.until(2*time.Minute, func() bool { return s.desired(t) == before-1 }); took < 0 {
		t.Errorf("nothing scaled in: %+v", s.activities(t, true))
	}
	policies, err := s.aas.DescribeScalingPolicies(t.Context(), &aas.DescribeScalingPoliciesInput{ServiceNamespace: "sagemaker", PolicyNames: []string{"idle"}})
	if err != nil || len(policies.ScalingPolicies) != 1 {
		t.Fatalf("%v %+v", err, policies)
	}
	if p := policies.ScalingPolicies[0]; len(p.Alarms) != 1 || *p.Alarms[0].AlarmName != "idle" || p.PolicyType != "StepScaling" ||
		*p.StepScalingPolicyConfiguration.StepAdjustments[0].ScalingAdjustment != -1 || *p.StepScalingPolicyConfiguration.Cooldown != 60 {
		t.Errorf("%+v", p)
	}
}

// bounds is a registration with both bounds.
func bounds(least, most int32) func(*aas.RegisterScalableTargetInput) {
	return func(in *aas.RegisterScalableTargetInput) { in.MinCapacity, in.MaxCapacity = &least, &most }
}

// TestFaults: a quota, no machine, a container that is never healthy and a change that is stuck are four different answers.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault        fleet.Fault
		code, text   string
		after        time.Duration
		endpoint     string
		failureEnds  string
		desiredAfter int
	}{
		{fleet.FailQuota, "Failed", "ResourceLimitExceeded", time.Minute, "InService", "", 1},
		{fleet.FailPlacement, "Unfulfilled", "InsufficientInstanceCapacity", 31 * time.Minute, "InService", "InsufficientInstanceCapacity", 1},
		{fleet.FailHealth, "Unfulfilled", "did not pass the ping health check", 12 * time.Minute, "InService", "for this endpoint.", 1},
		{fleet.FailStuck, "InProgress", "Waiting for change to be fulfilled", 3 * time.Hour, "Updating", "", 3},
	} {
		e := one(1)
		e.Variants[0].Stages = fleet.Stages{Provision: 100 * time.Second}
		s := stepping(t, Config{Endpoints: []Endpoint{e}, Faults: fleet.Faults{c.fault: 1}}, ok)
		if err := s.register(t, primary, bounds(3, 9)); err != nil {
			t.Fatal(err)
		}
		changed := s.now()
		for step := time.Minute; s.elapsed() < c.after; {
			s.offset.Add(int64(step))
			s.platform.Tick()
		}
		log := s.activities(t, false)
		if len(log) != 1 || string(log[0].StatusCode) != c.code || !strings.Contains(*log[0].StatusMessage, c.text) || *log[0].Cause != "minimum capacity was set to 3" {
			t.Errorf("%s: %s %s", c.fault, log[0].StatusCode, *log[0].StatusMessage)
		}
		out, err := s.sm.DescribeEndpoint(t.Context(), &sm.DescribeEndpointInput{EndpointName: aws.String(speech)})
		if err != nil {
			t.Fatal(err)
		}
		if string(out.EndpointStatus) != c.endpoint || !strings.HasSuffix(aws.ToString(out.FailureReason), c.failureEnds) ||
			int(*out.ProductionVariants[0].DesiredInstanceCount) != c.desiredAfter || *out.ProductionVariants[0].CurrentInstanceCount != 1 {
			t.Errorf("%s: %s %q %+v", c.fault, out.EndpointStatus, aws.ToString(out.FailureReason), out.ProductionVariants[0])
		}
		if stuck := out.LastModifiedTime.Equal(changed); stuck != (c.fault == fleet.FailStuck) && c.fault != fleet.FailQuota {
			t.Errorf("%s: modified at %s, the change was at %s", c.fault, out.LastModifiedTime, changed)
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	}
}

// TestSuspended: a suspended state that is absent, {} and all false are the same; suspended out, alarms fire and nothing
// happens, and on resuming it does.
func TestSuspended(t *testing.T) {
	s := stepping(t, Config{Endpoints: []Endpoint{one(1)}}, ok)
	state := func() aastypes.SuspendedState {
		return *s.targets(t, aas.DescribeScalableTargetsInput{}).ScalableTargets[0].SuspendedState
	}
	before := state()
	suspend := func(st *aastypes.SuspendedState) {
		t.Helper()
		if err := s.register(t, primary, func(in *aas.RegisterScalableTargetInput) { in.SuspendedState = st }); err != nil {
			t.Fatal(err)
		}
	}
	suspend(nil)
	suspend(&aastypes.SuspendedState{})
	if after := state(); *after.DynamicScalingInSuspended || *after.DynamicScalingOutSuspended || *after.ScheduledScalingSuspended ||
		*before.DynamicScalingOutSuspended != *after.DynamicScalingOutSuspended {
		t.Errorf("%+v", after)
	}
	suspend(&aastypes.SuspendedState{DynamicScalingOutSuspended: aws.Bool(true)})
	put := s.track(t, "rate", "SageMakerVariantInvocationsPerInstance", 0.5)
	for range 5 {
		for range 3 {
			if _, err := s.invoke(t, "x"); err != nil {
				t.Fatal(err)
			}
		}
		s.step(time.Minute)
	}
	out, err := s.cw.DescribeAlarms(t.Context(), &cw.DescribeAlarmsInput{AlarmNames: []string{*put.Alarms[0].AlarmName}})
	if err != nil || out.MetricAlarms[0].StateValue != "ALARM" || len(s.activities(t, true)) != 0 {
		t.Errorf("%v: %s, activities %v", err, out.MetricAlarms[0].StateValue, s.activities(t, true))
	}
	suspend(&aastypes.SuspendedState{DynamicScalingOutSuspended: aws.Bool(false)})
	if d := s.desired(t); d != 6 {
		t.Errorf("3 a minute at a target of 0.5 made %d instances on resuming", d)
	}
}

// TestScalesByMetricMath: an alarm, and a policy, on what is computed of several metrics.
func TestScalesByMetricMath(t *testing.T) {
	s := stepping(t, Config{Endpoints: []Endpoint{one(1)}}, ok)
	ctx := t.Context()
	put := func(name string, v float64) {
		t.Helper()
		if _, err := s.cw.PutMetricData(ctx, &cw.PutMetricDataInput{Namespace: aws.String("Mine"), MetricData: []cwtypes.MetricDatum{{MetricName: &name, Value: &v,
			Timestamp: aws.Time(s.now())}}}); err != nil {
			t.Fatal(err)
		}
	}
	stat := func(id, name string, period int32) cwtypes.MetricDataQuery {
		return cwtypes.MetricDataQuery{Id: &id, ReturnData: aws.Bool(false), MetricStat: &cwtypes.MetricStat{Period: &period, Stat: aws.String("Average"),
			Metric: &cwtypes.Metric{Namespace: aws.String("Mine"), MetricName: &name}}}
	}
	alarmOn := func(queries ...cwtypes.MetricDataQuery) error {
		_, err := s.cw.PutMetricAlarm(ctx, &cw.PutMetricAlarmInput{AlarmName: aws.String("per-slot"), Threshold: aws.Float64(2), EvaluationPeriods: aws.Int32(2),
			ComparisonOperator: "GreaterThanThreshold", Metrics: queries})
		return err
	}
	ratio := cwtypes.MetricDataQuery{Id: aws.String("e"), Expression: aws.String("busy / slots")}
	wants(t, alarmOn(stat("busy", "Busy", 60), stat("slots", "Slots", 60)), "ValidationError", 400, "Exactly one")
	wants(t, alarmOn(stat("busy", "Busy", 60), stat("slots", "Slots", 120), ratio), "ValidationError", 400, "same Period")
	if err := alarmOn(stat("busy", "Busy", 60), stat("slots", "Slots", 60), ratio); err != nil {
		t.Fatal(err)
	}
	if _, err := s.aas.PutScalingPolicy(ctx, &aas.PutScalingPolicyInput{PolicyName: aws.String("per-slot"), ServiceNamespace: "sagemaker",
		ResourceId: aws.String(primary), ScalableDimension: instanceCount, PolicyType: "TargetTrackingScaling",
		TargetTrackingScalingPolicyConfiguration: &aastypes.TargetTrackingScalingPolicyConfiguration{TargetValue: aws.Float64(2),
			CustomizedMetricSpecification: &aastypes.CustomizedMetricSpecification{Metrics: []aastypes.TargetTrackingMetricDataQuery{
				{Id: aws.String("busy"), ReturnData: aws.Bool(false), MetricStat: &aastypes.TargetTrackingMetricStat{Stat: aws.String("Average"),
					Metric: &aastypes.TargetTrackingMetric{Namespace: aws.String("Mine"), MetricName: aws.String("Busy")}}},
				{Id: aws.String("e"), Expression: aws.String("busy / 2")}}}}}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		put("Busy", 12)
		put("Slots", 4)
		s.step(time.Minute)
	}
	out, err := s.cw.DescribeAlarms(ctx, &cw.DescribeAlarmsInput{})
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, a := range out.MetricAlarms {
		if len(a.Metrics) < 2 {
			t.Errorf("%s is told without its metrics", *a.AlarmName)
		}
		name := *a.AlarmName
		if i := strings.Index(name, "-Alarm"); i > 0 {
			name = name[i+6 : i+9]
		}
		states[name] = string(a.StateValue)
	}
	if states["per-slot"] != "ALARM" || states["Hig"] != "ALARM" || states["Low"] != "OK" {
		t.Errorf("%v", states)
	}
	if d := s.desired(t); d < 3 {
		t.Errorf("a metric of 6 at a target of 2 made %d instances", d)
	}
	policies, err := s.aas.DescribeScalingPolicies(ctx, &aas.DescribeScalingPoliciesInput{ServiceNamespace: "sagemaker"})
	if err != nil || len(policies.ScalingPolicies[0].TargetTrackingScalingPolicyConfiguration.CustomizedMetricSpecification.Metrics) != 2 {
		t.Errorf("%v %+v", err, policies)
	}
}

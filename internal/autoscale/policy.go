package autoscale

import (
	"math"
	"slices"
	"time"

	"loadline/internal/alarm"
)

// Policy of a target: exactly one of Tracking and Step is set.
type Policy struct {
	Name, Resource string
	Tracking       *Tracking
	Step           *Step
	ARN            string // made by PutPolicy
	Created        time.Time
	Alarms         []AlarmName // target tracking: the pair it made; step scaling: those that name it
}

// AlarmName is an alarm's name and ARN.
type AlarmName struct{ Name, ARN string }

// Tracking is target tracking: capacity follows a metric so that it stays near the target.
type Tracking struct {
	Target      float64
	Predefined  string       // a predefined metric type, or
	Custom      *alarm.Query // a metric of one's own
	OutCooldown *time.Duration
	InCooldown  *time.Duration
	NoScaleIn   bool // it never removes; the low alarm is there nevertheless
}

// DefaultCooldown is how long a cooldown is that is not set.
const DefaultCooldown = 5 * time.Minute

func cooldown(d *time.Duration) time.Duration {
	if d == nil {
		return DefaultCooldown
	}
	return *d
}

// The managed alarms. AWS publishes neither their periods nor their counts; these were read off live ones.
const (
	highPeriods     = 3
	lowPeriods      = 15
	lowPeriodsFast  = 90
	lowShare        = 0.9 // of the target
	standardPeriod  = time.Minute
	fastPeriod      = 10 * time.Second
	largestTarget   = 0x1p360
	managedAlarmSay = "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy "
)

// predefined is what stands behind a predefined metric type.
type predefined struct {
	metric, statistic string // "": by the switch
	period            time.Duration
	dimension         string // it is for
}

var predefinedMetrics = map[string]predefined{
	"SageMakerVariantInvocationsPerInstance":                             {"InvocationsPerInstance", "Sum", standardPeriod, InstanceCount},
	"SageMakerVariantConcurrentRequestsPerModelHighResolution":           {"ConcurrentRequestsPerModel", "", fastPeriod, InstanceCount},
	"SageMakerInferenceComponentInvocationsPerCopy":                      {"InvocationsPerCopy", "Sum", standardPeriod, CopyCount},
	"SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": {"ConcurrentRequestsPerCopy", "", fastPeriod, CopyCount},
}

const metricNamespace = "AWS/SageMaker"

// policy is a Policy and where its scaling stands.
type policy struct {
	Policy
	target *target
	id     string // in its ARN and its alarms' names
	high   string // names of its alarms
	low    string

	outUntil time.Time // while its scale-out cools down
	outBase  int       // the capacity before the scale-out that began it
}

// PutPolicy makes a policy, or changes the one of that name; of a target-tracking policy it makes the alarms.
func (s *Scaler) PutPolicy(now time.Time, p Policy) (Policy, error) {
	t := s.target(p.Resource)
	if t == nil {
		return Policy{}, missingTarget(p.Resource)
	}
	if p.Name == "" || len(p.Name) > 256 {
		return Policy{}, refuse(Validation, "A policy's name has 1 to 256 characters, not %d.", len(p.Name))
	}
	var err error
	switch {
	case (p.Tracking == nil) == (p.Step == nil):
		return Policy{}, refuse(Validation, "A policy is either TargetTrackingScaling or StepScaling, with the configuration of that type.")
	case p.Tracking != nil:
		err = p.Tracking.check(t, p.Name)
	default:
		err = p.Step.check()
	}
	if err != nil {
		return Policy{}, err
	}
	i := slices.IndexFunc(t.policies, func(x *policy) bool { return x.Name == p.Name })
	if i < 0 && len(t.policies) >= MostPolicies {
		return Policy{}, refuse(LimitExceeded, "A scalable target has at most %d scaling policies.", MostPolicies)
	}
	var at *policy
	if i >= 0 {
		at = t.policies[i]
		if p.Tracking == nil {
			s.removeAlarms(at)
		}
	} else {
		at = &policy{target: t, id: s.uuid(), Policy: Policy{Created: now}}
		at.ARN = s.arn("autoscaling", "scalingPolicy:"+at.id+":resource/sagemaker/"+t.Resource+":policyName/"+p.Name)
		t.policies = append(t.policies, at)
		s.arns[at.ARN] = at
	}
	p.ARN, p.Created, p.Alarms = at.ARN, at.Created, nil
	at.Policy = p
	if p.Tracking != nil {
		s.makeAlarms(now, at)
	}
	return s.shown(at), nil
}

// makeAlarms puts a policy's pair in place.
func (s *Scaler) makeAlarms(now time.Time, p *policy) {
	tt, t := p.Tracking, p.target
	q, period, low := alarm.Query{}, standardPeriod, lowPeriods
	if tt.Custom != nil {
		q = *tt.Custom
	} else {
		m := predefinedMetrics[tt.Predefined]
		q = alarm.Query{Namespace: metricNamespace, Name: m.metric, Statistic: m.statistic, Dims: t.of.dims()}
		if period = m.period; period < standardPeriod {
			low = lowPeriodsFast
		}
		if q.Statistic == "" {
			q.Statistic = [...]string{"Maximum", "Average"}[s.cfg.Unknowns.Statistic]
		}
	}
	if p.high == "" {
		p.high = "TargetTracking-" + t.Resource + "-AlarmHigh-" + s.uuid()
		p.low = "TargetTracking-" + t.Resource + "-AlarmLow-" + s.uuid()
	}
	a := alarm.Alarm{Name: p.high, Description: managedAlarmSay + p.ARN + ".", Query: q, Period: period, Periods: highPeriods, Datapoints: highPeriods,
		Threshold: tt.Target, Comparison: alarm.Above, Missing: alarm.MissingMissing, ActionsEnabled: true, AlarmActions: []string{p.ARN}}
	s.mustPut(now, a)
	a.Name, a.Periods, a.Datapoints, a.Threshold, a.Comparison = p.low, low, low, lowShare*tt.Target, alarm.Below
	s.mustPut(now, a)
}

func (s *Scaler) mustPut(now time.Time, a alarm.Alarm) {
	if err := s.PutAlarm(now, a); err != nil {
		panic(err) // check has seen every member that a caller gave
	}
}

func (r Resource) dims() []alarm.Dimension {
	if r.Component != "" {
		return []alarm.Dimension{{Name: "InferenceComponentName", Value: r.Component}}
	}
	return []alarm.Dimension{{Name: "EndpointName", Value: r.Endpoint}, {Name: "VariantName", Value: r.Variant}}
}

func (tt *Tracking) check(t *target, name string) error {
	if math.IsNaN(tt.Target) || math.Abs(tt.Target) > largestTarget {
		return refuse(Validation, "The value %v for TargetValue is invalid: it must be in the range of -2^360 to 2^360.", tt.Target)
	}
	if tt.Target <= 0 {
		return refuse(Validation, "The value %v for TargetValue is invalid: capacity is computed in proportion to it, so it must be above 0.", tt.Target)
	}
	for _, d := range []*time.Duration{tt.OutCooldown, tt.InCooldown} {
		if d != nil && *d < 0 {
			return refuse(Validation, "A cooldown of %g seconds is invalid: it must not be negative.", d.Seconds())
		}
	}
	switch {
	case (tt.Predefined == "") == (tt.Custom == nil):
		return refuse(Validation, "Exactly one of PredefinedMetricSpecification and CustomizedMetricSpecification must be given.")
	case tt.Custom != nil:
		probe := alarm.Alarm{Name: "x", Query: *tt.Custom, Period: standardPeriod, Periods: 1, Comparison: alarm.Above}
		if err := probe.Check(); err != nil {
			return refuse(Validation, "CustomizedMetricSpecification: %s", err)
		}
	case predefinedMetrics[tt.Predefined].dimension != t.Dimension:
		return refuse(Validation, "Unsupported predefined metric type %q for the scalable dimension %s.", tt.Predefined, t.Dimension)
	}
	for _, p := range t.policies {
		if p.Name != name && p.Tracking != nil && p.Tracking.sameMetric(tt) {
			return refuse(Validation, "Only one TargetTrackingScaling policy for a given metric specification is allowed: %s has it.", p.Name)
		}
	}
	return nil
}

func (tt *Tracking) sameMetric(o *Tracking) bool {
	if tt.Custom == nil || o.Custom == nil {
		return tt.Custom == nil && o.Custom == nil && tt.Predefined == o.Predefined
	}
	a, b := *tt.Custom, *o.Custom
	return a.Math == b.Math && a.Namespace == b.Namespace && a.Name == b.Name && a.Statistic == b.Statistic && a.Unit == b.Unit && slices.Equal(a.Dims, b.Dims)
}

// shown is the policy as it is described.
func (s *Scaler) shown(p *policy) Policy {
	out := p.Policy
	if p.Tracking != nil {
		for _, name := range []string{p.high, p.low} {
			if a := s.alarm(name); a != nil {
				out.Alarms = append(out.Alarms, AlarmName{a.Name, a.ARN})
			}
		}
		return out
	}
	for _, a := range s.alarms {
		if slices.Contains(a.AlarmActions, p.ARN) {
			out.Alarms = append(out.Alarms, AlarmName{a.Name, a.ARN})
		}
	}
	return out
}

// Policies of a target, in the order in which they were made; of every target where resource is empty.
func (s *Scaler) Policies(resource string) []Policy {
	var out []Policy
	for _, t := range s.targets {
		if resource != "" && t.Resource != resource {
			continue
		}
		for _, p := range t.policies {
			out = append(out, s.shown(p))
		}
	}
	return out
}

// DeletePolicy removes a policy, and the alarms that it made.
func (s *Scaler) DeletePolicy(resource, name string) error {
	t := s.target(resource)
	if t != nil {
		for _, p := range t.policies {
			if p.Name == name {
				s.removePolicy(t, p)
				return nil
			}
		}
	}
	return refuse(NotFound, "No scaling policy found for service namespace: sagemaker, resource ID: %s, policy name: %s", resource, name)
}

func (s *Scaler) removePolicy(t *target, p *policy) {
	s.removeAlarms(p)
	delete(s.arns, p.ARN)
	t.policies = slices.DeleteFunc(t.policies, func(x *policy) bool { return x == p })
	if t.by == p {
		t.by = nil
	}
	if t.queued != nil && t.queued.by == p {
		t.queued.cause, t.queued.by = t.queued.why(), nil
	}
}

func (s *Scaler) removeAlarms(p *policy) {
	s.DeleteAlarm(p.high)
	s.DeleteAlarm(p.low)
	p.high, p.low = "", ""
}

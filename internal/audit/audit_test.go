package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/freeze"
)

var now = time.Date(2026, 8, 4, 12, 0, 0, 0, time.UTC)

const (
	res    = "endpoint/tts/variant/primary"
	rate   = "SageMakerVariantInvocationsPerInstance"
	fast   = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
	digest = "8b1b96bc4dc0b30ddd84d8fe37af7c490937333c44a9f8f7d77b918c3d7eaced"
)

// clean is an endpoint that is deployed as it is declared: a rate that is tracked, concurrency that steps.
func clean() (Declared, Deployed) {
	dims := func() map[string]string { return map[string]string{"EndpointName": "tts", "VariantName": "primary"} }
	concurrency := func() capacity.Metric {
		return capacity.Metric{Namespace: "AWS/SageMaker", Name: "ConcurrentRequestsPerModel", Dimensions: dims()}
	}
	want := Declared{Model: "kokoro", Endpoint: "tts", Variant: "primary", InstanceType: "ml.g5.xlarge", ImageDigest: digest, Env: map[string]string{"VOICE": "af"},
		QueueBound: new(50), Min: 1, Max: 9, Scaling: true, Routing: "LEAST_OUTSTANDING_REQUESTS", PlanFile: "plan.json",
		Policies: []capacity.Policy{
			{Name: "loadline-rate", Type: capacity.TargetTracking, Metric: capacity.Metric{Predefined: rate}, Statistic: "Sum", Period: 60, Target: new(858.0), Evaluation: 3, Datapoints: 3, OutCooldown: 260, InCooldown: 960},
			{Name: "loadline-concurrency-out", Type: capacity.StepScaling, Metric: concurrency(), Statistic: "Maximum", Period: 10, Threshold: new(12.0),
				Steps: []capacity.Step{{Lower: new(0.0), Change: 25}}, Adjustment: "PercentChangeInCapacity", NoScaleIn: true, OutCooldown: 260, InCooldown: 960},
		},
		Alarms: []capacity.Alarm{{Name: "tts-primary-out", Metric: concurrency(), Statistic: "Maximum", Period: 10, Comparison: "GreaterThanThreshold", Threshold: 12, Evaluation: 3, Datapoints: 3,
			MissingData: "notBreaching", Policy: "loadline-concurrency-out"}},
	}
	arn := "arn:aws:autoscaling:us-east-1:000000000000:scalingPolicy:2:resource/sagemaker/endpoint/tts/variant/primary:policyName/loadline-concurrency-out"
	have := Deployed{Region: "us-east-1", Endpoint: "tts", Status: "InService", Modified: now.Add(-24 * time.Hour), Tags: map[string]string{}, Invocations: new(100.0), Role: new(true),
		Quota: map[string]int{"ml.g5.xlarge": 20},
		Variants: []Variant{{Name: "primary", InstanceType: "ml.g5.xlarge", Desired: 2, Current: 2, Initial: 1, Routing: "LEAST_OUTSTANDING_REQUESTS", ImageDigest: digest,
			Env: map[string]string{"VOICE": "af"}, QueueBound: new(50)}},
		Targets: []Target{{Resource: res, Min: 1, Max: 9}},
		Policies: []Policy{
			{Name: "loadline-rate", ARN: "arn:rate", Resource: res, Type: capacity.TargetTracking, Metric: capacity.Metric{Predefined: rate}, Target: new(858.0), OutCooldown: new(260), InCooldown: new(960),
				Alarms: []string{"TargetTracking-" + res + "-high", "TargetTracking-" + res + "-low"}},
			{Name: "loadline-concurrency-out", ARN: arn, Resource: res, Type: capacity.StepScaling, Statistic: "Maximum", Steps: []capacity.Step{{Lower: new(0.0), Change: 25}},
				Adjustment: "PercentChangeInCapacity", Cooldown: new(260), Alarms: []string{"tts-primary-out"}},
		},
		Alarms: []Alarm{
			{Name: "TargetTracking-" + res + "-high", Statistic: "Sum", Period: 60, Comparison: "GreaterThanThreshold", Threshold: 858, Evaluation: 3, Enabled: true, State: "OK", Actions: []string{"arn:rate"}},
			{Name: "TargetTracking-" + res + "-low", Statistic: "Sum", Period: 60, Comparison: "LessThanThreshold", Threshold: 772.2, Evaluation: 15, Enabled: true, State: "OK", Actions: []string{"arn:rate"}},
			{Name: "tts-primary-out", Metric: concurrency(), Statistic: "Maximum", Period: 10, Comparison: "GreaterThanThreshold", Threshold: 12, Evaluation: 3, Datapoints: 3, MissingData: "notBreaching",
				Enabled: true, Actions: []string{arn}, State: "OK"},
		}}
	return want, have
}

// seeds are what goes wrong: the kind that must be found, and how severe it is.
var seeds = []struct {
	name, kind string
	severity   Severity
	do         func(*Declared, *Deployed)
}{
	{"target value", "target_value", High, func(_ *Declared, h *Deployed) { h.Policies[0].Target = new(900.0) }},
	{"metric", "metric", High, func(_ *Declared, h *Deployed) { h.Policies[0].Metric.Predefined = fast }},
	{"metric of the alarm", "metric", High, func(_ *Declared, h *Deployed) { h.Alarms[2].Metric.Name = "Invocations" }},
	{"statistic", "statistic", High, func(_ *Declared, h *Deployed) { h.Alarms[2].Statistic = "Average" }},
	{"dimension", "dimension", High, func(_ *Declared, h *Deployed) { h.Alarms[2].Metric.Dimensions["VariantName"] = "AllTraffic" }},
	{"alarm period", "alarm_period", High, func(_ *Declared, h *Deployed) { h.Alarms[2].Period = 30 }},
	{"60 s where 10 s was meant", "slow_signal", High, func(_ *Declared, h *Deployed) { h.Alarms[2].Period = 60 }},
	{"threshold", "threshold", High, func(_ *Declared, h *Deployed) { h.Alarms[2].Threshold = 37.5 }},
	{"edited alarm of a tracker", "alarm_edited", High, func(_ *Declared, h *Deployed) { h.Alarms[0].Threshold = 2000 }},
	{"edited alarm of ours", "alarm_edited", High, func(_ *Declared, h *Deployed) { h.Alarms[2].Datapoints = 2 }},
	{"deleted alarm of a tracker", "alarm_deleted", High, func(_ *Declared, h *Deployed) { h.Alarms = h.Alarms[1:] }},
	{"deleted alarm of ours", "alarm_deleted", High, func(_ *Declared, h *Deployed) { h.Alarms, h.Policies[1].Alarms = h.Alarms[:2], nil }},
	{"alarm without actions", "alarm_disabled", High, func(_ *Declared, h *Deployed) { h.Alarms[2].Enabled = false }},
	{"alarm of another policy", "never_fires", High, func(_ *Declared, h *Deployed) { h.Alarms[2].Actions = nil }},
	{"missing data", "missing_data", Medium, func(_ *Declared, h *Deployed) { h.Alarms[2].MissingData = "" }},
	{"scale-out suspended", "suspended_out", Critical, func(_ *Declared, h *Deployed) { h.Targets[0].Out = true }},
	{"scale-in suspended", "suspended_in", Medium, func(_ *Declared, h *Deployed) { h.Targets[0].In = true }},
	{"schedules suspended", "suspended_scheduled", High, func(_ *Declared, h *Deployed) { h.Targets[0].Sched = true }},
	{"frozen by a run, seen by its tag", "frozen", Critical, func(_ *Declared, h *Deployed) { h.Tags[freeze.TagKey], h.Targets[0].Out = "out=0", true }},
	{"frozen by a run, seen by its record", "frozen", Critical, func(_ *Declared, h *Deployed) {
		h.Freeze = &artifact.Freeze{RunID: "1", Command: "qmax", Variant: "primary"}
	}},
	{"min", "min", Medium, func(_ *Declared, h *Deployed) { h.Targets[0].Min = 2 }},
	{"max", "max", High, func(_ *Declared, h *Deployed) { h.Targets[0].Max = 4 }},
	{"cooldown of one second more", "cooldown", Medium, func(_ *Declared, h *Deployed) { h.Policies[0].OutCooldown = new(261) }},
	{"cooldown of a step policy", "cooldown", Medium, func(_ *Declared, h *Deployed) { h.Policies[1].Cooldown = new(300) }},
	{"cooldown unset", "cooldown_unset", Medium, func(_ *Declared, h *Deployed) { h.Policies[0].InCooldown = nil }},
	{"scale-in flag", "scale_in_flag", High, func(_ *Declared, h *Deployed) { h.Policies[0].NoScaleIn = true }},
	{"steps", "steps", High, func(_ *Declared, h *Deployed) { h.Policies[1].Steps[0].Change = 1 }},
	{"missing policy", "policy_missing", High, func(_ *Declared, h *Deployed) { h.Policies = h.Policies[1:] }},
	{"extra policy", "policy_extra", Medium, func(_ *Declared, h *Deployed) {
		h.Policies = append(h.Policies, Policy{Name: "HasBacklogWithoutCapacity", ARN: "arn:x", Resource: res, Type: capacity.StepScaling, Alarms: []string{"tts-primary-out"}})
	}},
	{"second policy on one metric", "policy_duplicate", High, func(_ *Declared, h *Deployed) {
		h.Policies = append(h.Policies, Policy{Name: "by-hand", ARN: "arn:x", Resource: res, Type: capacity.TargetTracking, Metric: capacity.Metric{Predefined: rate}, Target: new(500.0),
			Alarms: []string{h.Alarms[0].Name, h.Alarms[1].Name}})
	}},
	{"orphan target", "target_orphan", High, func(_ *Declared, h *Deployed) {
		h.Targets = append(h.Targets, Target{Resource: "endpoint/tts/variant/AllTraffic", Min: 1, Max: 2})
	}},
	{"renamed variant", "renamed", High, func(_ *Declared, h *Deployed) {
		h.Targets[0].Resource, h.Policies = "endpoint/tts/variant/AllTraffic", nil
	}},
	{"missing target", "target_missing", High, func(_ *Declared, h *Deployed) { h.Targets, h.Policies = nil, nil }},
	{"orphan alarm", "alarm_orphan", Medium, func(_ *Declared, h *Deployed) {
		h.Alarms = append(h.Alarms, Alarm{Name: "TargetTracking-endpoint/tts/variant/AllTraffic-high", Actions: []string{"arn:aws:autoscaling:r:0:scalingPolicy:gone"}})
	}},
	{"stale schedule", "schedule_stale", Medium, func(_ *Declared, h *Deployed) {
		h.Schedules = []Schedule{{Name: "fair", Resource: res, Expression: "at(2026-07-01T08:00:00)", Min: new(4)}}
	}},
	{"schedule that is over", "schedule_stale", Medium, func(_ *Declared, h *Deployed) {
		h.Schedules = []Schedule{{Name: "fair", Resource: res, Expression: "cron(0 8 * * ? *)", End: now.Add(-time.Hour)}}
	}},
	{"extra schedule", "schedule_extra", Medium, func(_ *Declared, h *Deployed) {
		h.Schedules = []Schedule{{Name: "mornings", Resource: res, Expression: "cron(0 8 * * ? *)", Min: new(4)}}
	}},
	{"count reset by a deployment", "count_reset", High, func(_ *Declared, h *Deployed) {
		v := &h.Variants[0]
		v.Desired, v.Current, v.LastSet, v.LastSetAt, h.Modified = 1, 1, 6, now.Add(-2*time.Hour), now.Add(-time.Hour)
	}},
	{"fewer than min", "below_min", High, func(w *Declared, h *Deployed) { w.Min, h.Targets[0].Min = 3, 3 }},
	{"routing", "routing", High, func(_ *Declared, h *Deployed) { h.Variants[0].Routing = "RANDOM" }},
	{"instance type", "instance_type", High, func(_ *Declared, h *Deployed) { h.Variants[0].InstanceType = "ml.g6.xlarge" }},
	{"image", "image", High, func(_ *Declared, h *Deployed) { h.Variants[0].ImageDigest = strings.Repeat("a", 64) }},
	{"env", "env", High, func(_ *Declared, h *Deployed) { h.Variants[0].Env["VOICE"] = "bf" }},
	{"queue bound", "queue_bound", High, func(_ *Declared, h *Deployed) { h.Variants[0].QueueBound = new(0) }},
	{"metrics config", "metrics_config", High, func(w *Declared, h *Deployed) {
		w.Alarms[0].Metric.Name, h.Alarms[2].Metric.Name = "InvocationsPerInstance", "InvocationsPerInstance"
	}},
	{"quota", "quota", High, func(_ *Declared, h *Deployed) { h.Quota["ml.g5.xlarge"] = 4 }},
	{"role", "role_missing", High, func(_ *Declared, h *Deployed) { h.Role = new(false) }},
	{"a namespace where it is never published", "never_fires", High, func(_ *Declared, h *Deployed) {
		h.Policies[0].Metric = capacity.Metric{Namespace: "AWS/SageMaker", Name: "CPUUtilization", Dimensions: map[string]string{"EndpointName": "tts", "VariantName": "primary"}}
	}},
	{"no data while traffic flows", "never_fires", High, func(_ *Declared, h *Deployed) {
		h.Alarms[0].State, h.Alarms[0].Since = "INSUFFICIENT_DATA", now.Add(-9*24*time.Hour)
	}},
	{"endpoint gone", "endpoint_missing", High, func(_ *Declared, h *Deployed) { *h = Deployed{Endpoint: "tts", Missing: true} }},
	{"endpoint failed", "endpoint_status", High, func(_ *Declared, h *Deployed) { h.Status = "Failed" }},
	{"endpoint that makes no progress", "endpoint_stuck", High, func(_ *Declared, h *Deployed) {
		h.Status, h.Modified, h.Variants[0].Current = "Creating", now.Add(-35*time.Minute), 0
	}},
	{"endpoint that is being changed", "endpoint_status", High, func(_ *Declared, h *Deployed) {
		h.Status, h.Modified = "Updating", now.Add(-10*time.Minute)
	}},
	{"variant gone", "variant_missing", High, func(_ *Declared, h *Deployed) { h.Variants[0].Name = "AllTraffic" }},
	{"a target where none is declared", "target_undeclared", Medium, func(w *Declared, h *Deployed) { w.Scaling, w.Max, w.Policies, w.Alarms = false, 1, nil, nil }},
}

func TestSeeds(t *testing.T) {
	kinds := map[string]bool{}
	for _, s := range seeds {
		kinds[s.kind] = true
		t.Run(s.name, func(t *testing.T) {
			want, have := clean()
			s.do(&want, &have)
			r := Compare(want, have, now)
			i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == s.kind && f.Severity == s.severity })
			if i < 0 || !r.Drift() {
				t.Fatalf("no %s %s in %+v", s.severity, s.kind, r.Findings)
			}
			f := r.Findings[i]
			if f.Resource == "" || f.Found == "" || f.Expected == "" || f.ID == "" {
				t.Errorf("half a finding: %+v", f)
			}
			if strings.HasPrefix(f.Kind, "policy_extra") && strings.Contains(f.Mend, "delete") {
				t.Errorf("a policy of somebody's is offered for deletion: %q", f.Mend)
			}
			for i, a := range r.Findings[1:] {
				if a.Severity.rank() > r.Findings[i].Severity.rank() {
					t.Errorf("not worst first: %+v", r.Findings)
				}
			}
		})
	}
	if len(kinds) < 25 {
		t.Errorf("%d kinds are seeded", len(kinds))
	}
}

// TestClean: none of these is drift.
func TestClean(t *testing.T) {
	fixtures := []struct {
		name string
		do   func(*Declared, *Deployed)
	}{
		{"as declared", func(*Declared, *Deployed) {}},
		{"scaled out far beyond the endpoint config", func(_ *Declared, h *Deployed) { h.Variants[0].Desired, h.Variants[0].Current = 6, 6 }},
		{"scaled in to the config's count by the scaler", func(_ *Declared, h *Deployed) {
			v := &h.Variants[0]
			v.Desired, v.Current, v.LastSet, v.LastSetAt = 1, 1, 1, now.Add(-time.Hour)
		}},
		{"idle: alarms without data", func(_ *Declared, h *Deployed) {
			h.Invocations = new(0.0)
			for i := range h.Alarms {
				h.Alarms[i].State, h.Alarms[i].Since = "INSUFFICIENT_DATA", now.Add(-9*24*time.Hour)
			}
		}},
		{"traffic since a minute: alarms without data yet", func(_ *Declared, h *Deployed) {
			h.Alarms[0].State, h.Alarms[0].Since = "INSUFFICIENT_DATA", now.Add(-time.Minute)
		}},
		{"one tracker's low alarm long OK, the other's in ALARM", func(_ *Declared, h *Deployed) { h.Alarms[1].State = "ALARM" }},
		{"policies under other names", func(_ *Declared, h *Deployed) {
			h.Policies[0].Name, h.Policies[1].Name = "SagemakerEndpointInvocationScalingPolicy", "surge"
		}},
		{"an alarm under another name", func(_ *Declared, h *Deployed) { h.Alarms[2].Name, h.Policies[1].Alarms = "surge", []string{"surge"} }},
		{"environment that says where it runs", func(_ *Declared, h *Deployed) {
			h.Variants[0].Env["AWS_REGION"], h.Variants[0].Env["ENDPOINT_NAME"] = "us-east-1", "tts"
		}},
		{"a second variant, not of this model", func(_ *Declared, h *Deployed) {
			h.Variants = append(h.Variants, Variant{Name: "shadow", InstanceType: "ml.c5.xlarge"})
		}},
		{"nothing declared, nothing deployed", func(w *Declared, h *Deployed) {
			*w = Declared{Model: "kokoro", Endpoint: "tts", Variant: "primary", Min: 1, Max: 1}
			h.Targets, h.Policies, h.Alarms = nil, nil, nil
		}},
		{"a low alarm a little below", func(_ *Declared, h *Deployed) { h.Alarms[1].Threshold = 770 }},
		{"values that rounding writes otherwise", func(_ *Declared, h *Deployed) { h.Policies[0].Target = new(858.0000000000001) }},
	}
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			want, have := clean()
			f.do(&want, &have)
			if r := Compare(want, have, now); r.Drift() {
				t.Errorf("%+v", r.Findings)
			}
		})
	}
}

// TestUnread: what could not be read is neither missing nor fine.
func TestUnread(t *testing.T) {
	for what, gone := range map[string]func(*Deployed){
		"endpoint": func(h *Deployed) { h.Variants, h.Status = nil, "" }, "targets": func(h *Deployed) { h.Targets, h.Policies, h.Alarms = nil, nil, nil },
		"policies": func(h *Deployed) { h.Policies, h.Alarms = nil, nil }, "alarms": func(h *Deployed) { h.Alarms = nil }, "schedules": func(h *Deployed) {},
		"model": func(h *Deployed) {
			h.Variants[0].ImageDigest, h.Variants[0].Env, h.Variants[0].QueueBound = "", nil, nil
		},
	} {
		want, have := clean()
		gone(&have)
		have.Unread = []Unread{{what, "throttled"}}
		if r := Compare(want, have, now); r.Drift() || len(r.Unread) != 1 {
			t.Errorf("%s unread: %+v", what, r.Findings)
		}
	}
}

func TestForeign(t *testing.T) {
	f := Foreign(Target{Resource: "endpoint/theirs/variant/a", Min: 1, Max: 2}, nil, false)
	if f.Severity != Info || !f.Foreign || f.Mend != "" {
		t.Errorf("%+v", f)
	}
	f = Foreign(Target{Resource: "endpoint/tts-old/variant/AllTraffic"}, []Policy{{Name: "loadline-rate", Resource: "endpoint/tts-old/variant/AllTraffic"}}, false)
	if f.Foreign || !strings.Contains(f.Mend, "deregister-scalable-target") {
		t.Errorf("%+v", f)
	}
}

// TestCanFire is A4: where a metric is never published, an alarm never holds a datapoint.
func TestCanFire(t *testing.T) {
	good := map[string]string{"EndpointName": "tts", "VariantName": "AllTraffic"}
	for _, tt := range []struct {
		m    capacity.Metric
		says string
	}{
		{capacity.Metric{Predefined: fast}, ""},
		{capacity.Metric{Namespace: "AWS/SageMaker", Name: "CPUUtilization", Dimensions: good}, "published in /aws/sagemaker/Endpoints"},
		{capacity.Metric{Namespace: "/aws/sagemaker/Endpoints", Name: "CPUUtilization", Dimensions: good}, ""},
		{capacity.Metric{Namespace: "/aws/sagemaker/Endpoints", Name: "CPUUtilization", Dimensions: map[string]string{"EndpointName": "tts"}}, "without the dimension VariantName"},
		{capacity.Metric{Namespace: "/aws/sagemaker/Endpoints", Name: "CPUUtilization", Dimensions: map[string]string{"EndpointName": "tts", "VariantName": "b"}}, "VariantName is b"},
		{capacity.Metric{Namespace: "/aws/sagemaker/Endpoints", Name: "CPUUtilization", Dimensions: map[string]string{"EndpointName": "x", "VariantName": "AllTraffic"}}, "EndpointName is x"},
		{capacity.Metric{Namespace: "Loadline/Speech", Name: "QueueDepth"}, ""},
	} {
		if got := CanFire(tt.m, "tts", "AllTraffic"); !strings.Contains(got, tt.says) || (got == "") != (tt.says == "") {
			t.Errorf("%+v: %q, want %q", tt.m, got, tt.says)
		}
	}
}

// TestParseResource: ids that name nothing are told offline, each by what is wrong with it.
func TestParseResource(t *testing.T) {
	if e, v, err := ParseResource("endpoint/tts/variant/primary"); e != "tts" || v != "primary" || err != nil {
		t.Error(e, v, err)
	}
	for id, says := range map[string]string{
		"tts/primary":                     "endpoint/NAME/variant/NAME is wanted",
		"endpoint/tts/variant/":           `its variant is called ""`,
		"variant/primary/endpoint/tts":    "endpoint/NAME/variant/NAME is wanted",
		"endpoint//variant/primary":       `its endpoint is called ""`,
		"endpoint/t_ts/variant/primary":   `its endpoint is called "t_ts"`,
		"endpoint/tts/variant/primary/":   "endpoint/NAME/variant/NAME is wanted",
		"endpoint/tts/variant/-primary":   `its variant is called "-primary"`,
		"endpoint-config/tts/variant/one": "endpoint/NAME/variant/NAME is wanted",
		"":                                "endpoint/NAME/variant/NAME is wanted",
	} {
		if _, _, err := ParseResource(id); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestRetype is A2: another instance type under a scalable target is refused by SageMaker, so the steps around it are told,
// in their order; another image alone, or a variant that does not scale, needs none of them.
func TestRetype(t *testing.T) {
	mend := func(do func(*Deployed), kind string) string {
		want, have := clean()
		do(&have)
		for _, f := range Compare(want, have, now).Findings {
			if f.Kind == kind {
				return f.Mend
			}
		}
		t.Fatalf("no %s", kind)
		return ""
	}
	said := mend(func(h *Deployed) { h.Variants[0].InstanceType = "ml.g6.xlarge" }, "instance_type")
	at := -1
	for _, step := range []string{"describe-scalable-targets", "describe-scaling-policies", "describe-scheduled-actions", "deregister-scalable-target", "speech-infra deploy",
		"wait endpoint-in-service", "tts-bench qmax", "tts-bench apply", "tts-bench validate"} {
		i := strings.Index(said, step)
		if i <= at {
			t.Errorf("%s is not where it belongs in %s", step, said)
		}
		at = i
	}
	if said := mend(func(h *Deployed) { h.Variants[0].ImageDigest = strings.Repeat("a", 64) }, "image"); strings.Contains(said, "deregister") {
		t.Errorf("another image: %s", said)
	}
	if said := mend(func(h *Deployed) { h.Variants[0].InstanceType, h.Targets, h.Policies = "ml.g6.xlarge", nil, nil }, "instance_type"); strings.Contains(said, "deregister") {
		t.Errorf("without a target: %s", said)
	}
}

package awsfleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadline/internal/audit"
)

// TestAuditReadsOnly: the reading of an endpoint writes nothing and takes fewer than 30 calls.
func TestAuditReadsOnly(t *testing.T) {
	a := open(t, variant("primary", 2))
	r := NewAuditor(load(t, a))
	d, err := r.Endpoint(t.Context(), "tts", "primary")
	if err != nil || len(d.Unread) > 0 {
		t.Fatalf("%v, unread %+v", err, d.Unread)
	}
	if len(d.Targets) != 1 || d.Targets[0].Max != 9 || len(d.Variants) != 1 || d.Variants[0].InstanceType != "ml.g5.xlarge" || d.Variants[0].ImageDigest != digest ||
		d.Variants[0].Env["VOICE"] != "af_heart" || d.Variants[0].Env["AWS_REGION"] != "" || d.Variants[0].Routing != "LEAST_OUTSTANDING_REQUESTS" || d.Quota["ml.g5.xlarge"] == 0 || d.Role == nil {
		t.Errorf("%+v", d)
	}
	if d.Calls >= 30 || d.Calls != r.Calls() {
		t.Errorf("%d calls of %d", d.Calls, r.Calls())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for call := range a.calls {
		name := call[strings.LastIndex(call, ".")+1:]
		if !strings.HasPrefix(name, "Describe") && !strings.HasPrefix(name, "List") && !strings.HasPrefix(name, "Get") && name != "" && !strings.HasPrefix(call, "/") {
			t.Errorf("it calls %s", call)
		}
	}
}

// TestAuditUnread is A7: throttled is retried, what still cannot be read is said to be so, and access denied is not retried.
func TestAuditUnread(t *testing.T) {
	throttled := "Unable to retrieve alarms for scaling policies due to exception: AmazonCloudWatch: Rate exceeded"
	tests := []struct {
		name   string
		fault  fault
		unread string
		most   int
	}{
		{"throttled twice", fault{"DescribeScalingPolicies", 2, 400, "FailedResourceAccessException", throttled}, "", 3},
		{"throttled for ever", fault{"DescribeScalingPolicies", 0, 400, "FailedResourceAccessException", throttled}, "policies", 9},
		{"denied", fault{"DescribeScalingPolicies", 0, 400, "FailedResourceAccessException", "Access denied by CloudWatch"}, "policies", 1},
		{"no permission", fault{"DescribeScalableTargets", 0, 400, "AccessDeniedException", "not authorized to perform: application-autoscaling:DescribeScalableTargets"}, "targets", 1},
		{"a quota that may not be read", fault{"ListServiceQuotas", 0, 400, "AccessDeniedException", "no"}, "quota", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := open(t, variant("primary", 1))
			a.fail(tt.fault)
			d, err := NewAuditor(load(t, a)).Endpoint(t.Context(), "tts", "primary")
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, u := range d.Unread {
				said += u.What
			}
			n := 0
			for call, times := range a.calls {
				if strings.HasSuffix(call, tt.fault.target) {
					n = times
				}
			}
			if said != tt.unread || n > tt.most {
				t.Errorf("unread %q after %d calls, want %q", said, n, tt.unread)
			}
			r := audit.Compare(audit.Declared{Endpoint: "tts", Variant: "primary", Scaling: true, Min: 1, Max: 9}, d, time.Now())
			for _, f := range r.Findings {
				if strings.Contains(f.Kind, "missing") && tt.unread != "" && tt.unread != "quota" {
					t.Errorf("what could not be read is called missing: %+v", f)
				}
			}
		})
	}
}

// TestAuditMissing: an endpoint that AWS does not know is missing, and its targets are still looked for.
func TestAuditMissing(t *testing.T) {
	a := open(t, variant("primary", 1))
	d, err := NewAuditor(load(t, a)).Endpoint(t.Context(), "tts-old", "primary")
	if err != nil || !d.Missing || len(d.Unread) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestHeldStill is E3: why the scaler did nothing is asked for, told apart, and passed on where it is not known.
func TestHeldStill(t *testing.T) {
	a := open(t, variant("primary", 2))
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	activity := func(at int64, code string) string {
		return fmt.Sprintf(`{"ActivityId":"a","ServiceNamespace":"sagemaker","ResourceId":"endpoint/tts/variant/primary","ScalableDimension":"sagemaker:variant:DesiredInstanceCount",
			"Description":"Attempting to scale due to alarm triggered","Cause":"c","StartTime":%d,"EndTime":%d,"StatusCode":"Failed","NotScaledReasons":[{"Code":%q}]}`, at, at, code)
	}
	a.fail(fault{"DescribeScalingActivities", 0, 200, "", `{"ScalingActivities":[` + strings.Join([]string{
		activity(ago(time.Minute), "AutoScalingAnticipatedFlapping"), activity(ago(2*time.Minute), "AlreadyAtMaxCapacity"),
		activity(ago(3*time.Minute), "AlreadyAtMaxCapacity"), activity(ago(4*time.Minute), "SomethingOfTomorrow"), activity(ago(5*time.Hour), "AlreadyAtMinCapacity"),
	}, ",") + `]}`})
	r := NewAuditor(load(t, a))
	d, err := r.Endpoint(t.Context(), "tts", "primary")
	if err != nil || len(d.Unread) > 0 {
		t.Fatal(err, d.Unread)
	}
	said := map[string]string{}
	got := audit.Compare(audit.Declared{Endpoint: "tts", Variant: "primary", Scaling: true, Min: 1, Max: 9}, d, time.Now())
	for _, f := range got.Findings {
		said[f.Kind] += f.Found + "\n"
	}
	if got.Drift() || strings.Count(said["at_max"], "\n") != 1 || strings.Count(said["not_scaled"], "\n") != 2 || !strings.Contains(said["not_scaled"], "Flapping, healthy") ||
		!strings.Contains(said["not_scaled"], "held still: SomethingOfTomorrow") {
		t.Errorf("drift %v, %+v", got.Drift(), got.Findings)
	}
	acts, err := r.Activities(t.Context(), "tts", "primary", 5)
	if err != nil || len(acts) != 5 || acts[3].Failed != "SomethingOfTomorrow" || !strings.HasPrefix(acts[1].Failed, "AlreadyAtMaxCapacity, no room") {
		t.Errorf("%+v, %v", acts, err)
	}
}

// TestSuspended is A6: absent, {} and all false are one and the same.
func TestSuspended(t *testing.T) {
	for state, kinds := range map[string]string{
		``: "", `,"SuspendedState":{}`: "", `,"SuspendedState":null`: "",
		`,"SuspendedState":{"DynamicScalingInSuspended":false,"DynamicScalingOutSuspended":false,"ScheduledScalingSuspended":false}`: "",
		`,"SuspendedState":{"DynamicScalingInSuspended":false,"DynamicScalingOutSuspended":true,"ScheduledScalingSuspended":false}`:  "critical suspended_out",
		`,"SuspendedState":{"DynamicScalingInSuspended":true}`:                                                                       "medium suspended_in",
		`,"SuspendedState":{"ScheduledScalingSuspended":true}`:                                                                       "high suspended_scheduled",
	} {
		a := open(t, variant("primary", 2))
		a.fail(fault{"DescribeScalableTargets", 0, 200, "", `{"ScalableTargets":[{"ServiceNamespace":"sagemaker","ResourceId":"endpoint/tts/variant/primary",
			"ScalableDimension":"sagemaker:variant:DesiredInstanceCount","MinCapacity":1,"MaxCapacity":9,"RoleARN":"r","CreationTime":1` + state + `}]}`})
		d, err := NewAuditor(load(t, a)).Endpoint(t.Context(), "tts", "primary")
		if err != nil || len(d.Unread) > 0 {
			t.Fatal(err, d.Unread)
		}
		var said []string
		for _, f := range audit.Compare(audit.Declared{Endpoint: "tts", Variant: "primary", Scaling: true, Min: 1, Max: 9}, d, time.Now()).Findings {
			said = append(said, string(f.Severity)+" "+f.Kind)
		}
		if strings.Join(said, ", ") != kinds {
			t.Errorf("%q: %q, want %q", state, said, kinds)
		}
	}
}

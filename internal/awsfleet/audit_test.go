package awsfleet

import (
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

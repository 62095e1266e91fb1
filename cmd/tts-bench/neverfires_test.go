package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"loadline/internal/artifact"
	"loadline/internal/exit"
)

// TestPlannedPolicyNeverFires: a policy of the plan that could never fire is refused before anything is read or changed, by
// apply and by validate.
func TestPlannedPolicyNeverFires(t *testing.T) {
	t.Parallel()
	ladder, err := filepath.Abs("testdata/qmax-quick.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ran(t, dir, exit.OK, "saved", "plan", "--qmax", ladder, "--assume-t-total", "170", "--peak-rps", "500", "--trough-rps", "20", "--accept", "fleet_throughput", "--cpu", "70", "--vcpus", "4")
	plans, err := filepath.Glob(filepath.Join(dir, "artifacts/plan-*.json"))
	if err != nil || len(plans) != 1 {
		t.Fatalf("plans %v, %v", plans, err)
	}
	for _, c := range []struct {
		name  string
		wrong func(p *artifact.Plan)
		says  string
	}{
		{"namespace", func(p *artifact.Plan) { p.Policies[len(p.Policies)-1].Metric.Namespace = "AWS/SageMaker" }, "policy loadline-cpu cannot fire: CPUUtilization is published in /aws/sagemaker/Endpoints, never in AWS/SageMaker"},
		{"variant", func(p *artifact.Plan) {
			p.Policies[len(p.Policies)-1].Metric.Dimensions["VariantName"] = "AllTraffic"
		}, "policy loadline-cpu cannot fire: its dimension VariantName is AllTraffic, and the policy scales primary"},
		{"no variant", func(p *artifact.Plan) { delete(p.Policies[len(p.Policies)-1].Metric.Dimensions, "VariantName") }, "policy loadline-cpu cannot fire: CPUUtilization is never published without the dimension VariantName"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := readRecord(plans[0], artifact.ReadPlan)
			if err != nil {
				t.Fatal(err)
			}
			c.wrong(p)
			data, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, c.name+".json")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			// Nothing listens there: it is refused before a call.
			ran(t, dir, exit.No, c.says, "apply", "--plan", path, "--endpoint-url", "http://127.0.0.1:1", "--yes")
			ran(t, dir, exit.No, c.says, "validate", "--plan", path, "--endpoint-url", "http://127.0.0.1:1")
		})
	}
}

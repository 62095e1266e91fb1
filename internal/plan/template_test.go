package plan

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
)

// emitted is a plan of the published ladder by a rule, and what it scales by beside.
func emitted(t *testing.T, rule string, more Scaled) *artifact.Plan {
	t.Helper()
	in := published(t, rule)
	in.Scaled = more
	in.Scenario.Accept = []string{"fleet_throughput"}
	p, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTemplates: what is emitted is as before, and CloudFormation's own linter has nothing to say of it.
func TestTemplates(t *testing.T) {
	lint, missing := exec.LookPath("cfn-lint")
	for rule, more := range map[string]Scaled{capacity.RuleSlots: {CPU: 70, VCPUs: 4}, capacity.RuleFlow: {Component: "voice"}} {
		p := emitted(t, rule, Scaled{})
		for format, ext := range map[string]string{"cloudformation": ".template.json", "terraform": ".tf"} {
			got, err := Emit(p, format)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, rule+ext, got)
		}
		if missing != nil {
			continue
		}
		text, err := Emit(emitted(t, rule, more), "cloudformation")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "template.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(lint, file).CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("cfn-lint: %v\n%s", err, out)
		}
	}
	if missing != nil {
		t.Skip("cfn-lint is not on this machine (pip install cfn-lint): the template is compared with the one that it has passed")
	}
}

// TestTemplateNames: whatever policies and alarms are called, ids and labels are legal and their own, and text stays text.
func TestTemplateNames(t *testing.T) {
	p := emitted(t, capacity.RuleFlow, Scaled{})
	p.Policies[0].Name, p.Policies[1].Name = "1 ${nobody}", "1_%{nobody}"
	for i := range p.Alarms {
		if p.Alarms[i].Policy != "" {
			p.Alarms[i].Policy = p.Policies[1].Name
		}
	}
	tf, err := Emit(p, "terraform")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"_1___nobody_"`, `"1 $${nobody}"`, `"1_%%{nobody}"`, "= [aws_appautoscaling_policy._1___nobody__2.arn]"} {
		if !strings.Contains(tf, want) {
			t.Errorf("no %s in\n%s", want, tf)
		}
	}
	text, err := Emit(p, "cloudformation")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Resources map[string]struct {
			Type       string
			Properties map[string]any
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Resources) != 1+len(p.Policies)+len(p.Alarms) {
		t.Errorf("%v, %d resources", err, len(doc.Resources))
	}
	for id, r := range doc.Resources {
		if strings.IndexFunc(id, func(c rune) bool { return !letter(c) }) >= 0 {
			t.Errorf("logical id %q", id)
		}
		if r.Properties["DesiredCapacity"] != nil {
			t.Errorf("%s states a count", id)
		}
	}
}

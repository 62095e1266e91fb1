package main

import (
	"errors"
	"strings"
	"testing"

	"loadline/infra/stack"
	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/exit"
	"loadline/internal/gate"
	"loadline/internal/registry"
)

// TestLook: what must not be deployed is refused, by what runs.
func TestLook(t *testing.T) {
	type edit = func(*audit.Deployed, *stack.Model, *consent)
	for _, c := range []struct {
		name, refused, note string
		code                int
		edit                edit
	}{
		{"as it is", "", "the 6 instances that run now are kept", exit.OK, func(*audit.Deployed, *stack.Model, *consent) {}},
		{"new", "", "will be made, with 2 instances", exit.OK, func(d *audit.Deployed, _ *stack.Model, _ *consent) { *d = audit.Deployed{Missing: true} }},
		{"an orphan", "left behind: aws application-autoscaling deregister-scalable-target", "", exit.No, func(d *audit.Deployed, _ *stack.Model, _ *consent) { d.Missing = true }},
		{"unread", "could not be read, so what a deployment would change is not known: Rate exceeded", "", exit.Unknown, func(d *audit.Deployed, _ *stack.Model, _ *consent) {
			d.Unread = []audit.Unread{{What: "targets", Why: "Rate exceeded"}}
		}},
		{"something else unread", "", "are kept", exit.OK, func(d *audit.Deployed, _ *stack.Model, _ *consent) {
			d.Unread = []audit.Unread{{What: "quota", Why: "Rate exceeded"}}
		}},
		{"updating", "is Updating", "", exit.No, func(d *audit.Deployed, _ *stack.Model, _ *consent) { d.Status = "Updating" }},
		{"measured", "tts-bench thaw --endpoint tts", "", exit.No, func(d *audit.Deployed, _ *stack.Model, _ *consent) {
			d.Tags = map[string]string{"loadline:freeze": "out=0"}
		}},
		{"another variant (A8)", "has no variant AllTraffic: it has primary, canary", "", exit.No, func(d *audit.Deployed, m *stack.Model, _ *consent) {
			m.Variant = "AllTraffic"
			d.Variants = append(d.Variants, audit.Variant{Name: "canary"})
		}},
		{"more variants", "has the variants primary, canary, and its stack has primary alone", "", exit.No, func(d *audit.Deployed, _ *stack.Model, _ *consent) {
			d.Variants = append(d.Variants, audit.Variant{Name: "canary"})
		}},
		{"another type (A2)", "cannot become ml.g6.xlarge in one step", "", exit.No, func(_ *audit.Deployed, m *stack.Model, _ *consent) { m.InstanceType = "ml.g6.xlarge" }},
		{"another type, agreed", "", "are kept", exit.OK, func(_ *audit.Deployed, m *stack.Model, c *consent) { m.InstanceType, c.retype = "ml.g6.xlarge", true }},
		{"another type of what does not scale", "", "is stale", exit.OK, func(d *audit.Deployed, m *stack.Model, _ *consent) { m.InstanceType, d.Targets = "ml.g6.xlarge", nil }},
		{"another image alone (A2)", "", "are kept", exit.OK, func(d *audit.Deployed, _ *stack.Model, _ *consent) { d.Variants[0].ImageDigest = "b" }},
		{"fewer than run (A1)", "runs 6 instances, and may run 4", "", exit.No, func(_ *audit.Deployed, m *stack.Model, _ *consent) { m.MaxInstances = 4 }},
		{"fewer than run, agreed", "", "are kept", exit.OK, func(_ *audit.Deployed, m *stack.Model, c *consent) { m.MaxInstances, c.scaleIn = 4, true }},
		{"scaling goes", "would not any more: models.yaml names no plan", "", exit.No, func(_ *audit.Deployed, m *stack.Model, _ *consent) {
			m.Gate = gate.Decision{Conditions: []gate.Condition{{Detail: "models.yaml names no plan"}}}
		}},
		{"scaling goes, agreed", "", "are kept", exit.OK, func(_ *audit.Deployed, m *stack.Model, c *consent) { m.Gate, c.scalingOff = gate.Decision{}, true }},
		{"suspended", "", "scaling is suspended: out, and is left so", exit.OK, func(d *audit.Deployed, _ *stack.Model, _ *consent) { d.Targets[0].Out = true }},
		{"beyond the quota", "may run 8 of ml.g5.xlarge, and the fleet may grow to 10", "", exit.No, func(d *audit.Deployed, _ *stack.Model, _ *consent) { d.Quota = map[string]int{"ml.g5.xlarge": 8} }},
	} {
		d := audit.Deployed{Endpoint: "tts", Status: "InService", Variants: []audit.Variant{{Name: "primary", InstanceType: "ml.g5.xlarge", Desired: 6, Current: 6, Initial: 1, ImageDigest: "a"}},
			Targets: []audit.Target{{Resource: "endpoint/tts/variant/primary", Min: 2, Max: 10}}}
		m := stack.Model{Model: registry.Model{Name: "tts", Endpoint: "tts", Variant: "primary", InstanceType: "ml.g5.xlarge", MinInstances: 2, MaxInstances: 10}, Gate: gate.Decision{Open: true}}
		var agreed consent
		c.edit(&d, &m, &agreed)
		l := look(d, m, agreed)
		err := errors.Join(l.refuse...)
		if got := exit.Code(err); got != c.code || c.refused != "" && !strings.Contains(err.Error(), c.refused) || !strings.Contains(strings.Join(l.notes, "\n"), c.note) {
			t.Errorf("%s: code %d, %v, notes %q", c.name, got, err, l.notes)
		}
		if l.retype != agreed.retype {
			t.Errorf("%s: in steps: %v", c.name, l.retype)
		}
	}
}

func TestMoney(t *testing.T) {
	m := stack.Model{Model: registry.Model{Name: "tts", Endpoint: "tts", Variant: "primary", InstanceType: "ml.g5.xlarge", MinInstances: 2, MaxInstances: 10}, Gate: gate.Decision{Open: true}}
	d := audit.Deployed{Variants: []audit.Variant{{Name: "primary", InstanceType: "ml.g5.xlarge", Desired: 3}}, Targets: []audit.Target{{Resource: "endpoint/tts/variant/primary", Min: 1, Max: 4}}}
	if got := moneyText(m, d); strings.Contains(got, "$") || strings.Count(got, "unknown price") != 2 {
		t.Errorf("an unknown price: %s", got)
	}
	m.Price = &artifact.Price{PerHour: 1.5}
	want := "tts: now 1 to 4 instances of ml.g5.xlarge (3 run), $1.50 to $6.00 an hour\ntts: then 2 to 10 instances of ml.g5.xlarge, $3.00 to $15.00 an hour\n"
	if got := moneyText(m, d); got != want {
		t.Errorf("%s", got)
	}
	d.Variants[0].InstanceType = "ml.g4dn.xlarge"
	if got := moneyText(m, d); !strings.Contains(got, "ml.g4dn.xlarge (3 run), at an unknown price") {
		t.Errorf("the price of another type: %s", got)
	}
}

package sim

import (
	"fmt"
	"time"

	"loadline/internal/alarm"
	"loadline/internal/autoscale"
	"loadline/internal/capacity"
)

// Planned is the scaling of a plan's policies and alarms, for a target between least and most instances. An alarm without
// a policy tells people and is left out; a step policy without an alarm gets the one that it states.
func Planned(policies []capacity.Policy, alarms []capacity.Alarm, least, most int) (Scaling, error) {
	s := Scaling{Min: max(1, least), Max: max(1, least, most)}
	alarmed := map[string]bool{}
	for _, a := range alarms {
		if a.Policy == "" {
			continue
		}
		alarmed[a.Policy] = true
		s.Alarms = append(s.Alarms, Alarm{Policy: a.Policy, Alarm: alarm.Alarm{
			Name: a.Name, Query: query(a.Metric, a.Statistic), Period: seconds(a.Period), Periods: a.Evaluation, Datapoints: a.Datapoints,
			Threshold: a.Threshold, Comparison: alarm.Comparison(a.Comparison), Missing: alarm.Missing(a.MissingData)}})
	}
	for _, p := range policies {
		out := autoscale.Policy{Name: p.Name}
		outward, inward := seconds(p.OutCooldown), seconds(p.InCooldown)
		switch p.Type {
		case capacity.TargetTracking:
			if p.Target == nil {
				return Scaling{}, fmt.Errorf("policy %s tracks no target", p.Name)
			}
			t := &autoscale.Tracking{Target: *p.Target, Predefined: p.Metric.Predefined, OutCooldown: &outward, InCooldown: &inward, NoScaleIn: p.NoScaleIn}
			if t.Predefined == "" {
				q := query(p.Metric, p.Statistic)
				t.Custom = &q
			}
			out.Tracking = t
		case capacity.StepScaling:
			st := &autoscale.Step{Adjustment: autoscale.Adjustment(p.Adjustment), Aggregation: p.Statistic, Cooldown: &inward}
			if p.NoScaleIn {
				st.Cooldown = &outward
			}
			for _, x := range p.Steps {
				st.Steps = append(st.Steps, autoscale.StepAdjustment{Lower: x.Lower, Upper: x.Upper, Change: x.Change})
			}
			out.Step = st
			if !alarmed[p.Name] {
				if p.Threshold == nil {
					return Scaling{}, fmt.Errorf("step policy %s has neither an alarm nor a threshold", p.Name)
				}
				s.Alarms = append(s.Alarms, Alarm{Policy: p.Name, Alarm: alarm.Alarm{
					Name: p.Name, Query: query(p.Metric, p.Statistic), Period: seconds(p.Period), Periods: p.Evaluation, Datapoints: p.Datapoints,
					Threshold: *p.Threshold, Comparison: alarm.Comparison(p.Comparison), Missing: alarm.Missing(p.MissingData)}})
			}
		default:
			return Scaling{}, fmt.Errorf("policy %s is of type %q: %s and %s are simulated", p.Name, p.Type, capacity.TargetTracking, capacity.StepScaling)
		}
		s.Policies = append(s.Policies, out)
	}
	return s, nil
}

func query(m capacity.Metric, statistic string) alarm.Query {
	return alarm.Query{Namespace: m.Namespace, Name: m.Name, Statistic: statistic}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

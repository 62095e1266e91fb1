package report

import (
	"cmp"
	"fmt"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/chart"
)

// fewChanges is how many changes of capacity are named in the picture; of more only the marks are drawn.
const fewChanges = 5

// Fleet is the picture of simulated runs over time: load, instances, first audio and what was not served in time. slo is
// the objective in seconds, 0 where there is none.
func Fleet(id, title string, runs []artifact.SimulationRun, slo float64) chart.Figure {
	f := chart.Figure{ID: id, Title: title, Desc: told(runs), X: chart.Axis{Label: "time from the start", Kind: chart.Seconds, Min: new(0.0)}}
	load := chart.Panel{Y: chart.Axis{Label: "requests a second"}, Height: 100}
	fleet := chart.Panel{Y: chart.Axis{Label: "instances"}, Height: 130}
	wait := chart.Panel{Y: chart.Axis{Label: "first audio, p95", Kind: chart.Millis, Log: true}, Height: 120}
	if slo > 0 {
		wait.Rules = []chart.Rule{{Label: "objective", At: 1000 * slo}}
	}
	bad := chart.Panel{Y: chart.Axis{Label: "not in time, %", Min: new(0.0)}, Height: 100}
	most := 5.0 // of the share's axis, at least
	for i, r := range runs {
		var offered, in, desired, p95, share []chart.Point
		last := len(r.Timeline) - 1
		for k, pt := range r.Timeline {
			width := pt.At
			if k < last {
				width = r.Timeline[k+1].At - pt.At
			} else if k > 0 {
				width = pt.At - r.Timeline[k-1].At
			}
			mid := pt.At + width/2
			offered = append(offered, chart.Point{X: mid, Y: pt.Offered})
			in = append(in, chart.Point{X: mid, Y: pt.Instances})
			desired = append(desired, chart.Point{X: pt.At + width, Y: float64(pt.Desired)})
			if pt.P95 > 0 {
				p95 = append(p95, chart.Point{X: mid, Y: 1000 * pt.P95})
			}
			all := pt.Completed + pt.Shed
			if all > 0 {
				share = append(share, chart.Point{X: mid, Y: 100 * (pt.Late + pt.Shed) / all})
				most = max(most, share[len(share)-1].Y)
			}
		}
		of := ""
		if len(runs) > 1 {
			of = ", " + r.Label
		}
		if i == 0 {
			load.Series = append(load.Series, chart.Series{Name: "offered", Points: offered})
		}
		fleet.Series = append(fleet.Series, chart.Series{Name: "in service" + of, Kind: chart.Line, Points: in})
		if len(runs) == 1 {
			fleet.Series = append(fleet.Series, chart.Series{Name: "desired", Kind: chart.Step, Points: desired})
		}
		wait.Series = append(wait.Series, chart.Series{Name: "p95" + of, Points: p95})
		bad.Series = append(bad.Series, chart.Series{Name: "late or not served" + of, Points: share})
		for _, c := range r.Changes {
			fleet.Rug = append(fleet.Rug, chart.Tick{X: c.At, Label: fmt.Sprintf("%d to %d%s, %s", c.From, c.To, of, c.Policy), Shown: len(runs) == 1 && len(r.Changes) <= fewChanges})
		}
	}
	if most > 5 {
		most = 100
	}
	bad.Y.Max = &most
	f.Panels = []chart.Panel{load, fleet, wait, bad}
	return f
}

// told is the picture in words.
func told(runs []artifact.SimulationRun) string {
	var lines []string
	for _, r := range runs {
		lines = append(lines, fmt.Sprintf("%s: up to %s instances, %s instance-hours, %.2f %% late or not served, p95 %.3g s, %s changes of capacity, %s changes of direction.",
			cmp.Or(r.Label, "run"), count(r.PeakInstances), number(r.InstanceHours), 100*r.BadShare(), r.P95, count(len(r.Changes)), count(r.DirectionChanges)))
	}
	return strings.Join(lines, " ")
}

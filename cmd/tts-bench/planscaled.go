package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/plan"
	"loadline/internal/registry"
)

// scaledFlags are what else a plan scales by, and what.
type scaledFlags struct {
	component string
	cpu       float64
	vcpus     int
}

func (f *scaledFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.component, "component", "", "scale the copies of this inference component instead of instances; the ladder's instance held one copy (default: what the ladder measured)")
	fl.Float64Var(&f.cpu, "cpu", 0, "also track this share of an instance's processors, in percent; it adds instances only")
	fl.IntVar(&f.vcpus, "vcpus", 0, "processors of an instance, which the metric sums over (default: the registry's)")
}

var errCopiesCPU = errors.New("an inference component (--component) and --cpu exclude each other: processors are counted by instance, and what scales is copies")

// misused lists every mistake in how the flags were set.
func (f *scaledFlags) misused(set func(string) bool) (bad []error) {
	if set("cpu") && !(f.cpu > 0 && f.cpu <= 100) {
		bad = append(bad, fmt.Errorf("--cpu %g: a percentage above 0, at most 100, of all processors", f.cpu))
	}
	if set("vcpus") && (f.vcpus < 1 || f.vcpus > 1024) {
		bad = append(bad, fmt.Errorf("--vcpus %d: 1 to 1024", f.vcpus))
	}
	if set("vcpus") && !set("cpu") {
		bad = append(bad, errors.New("--vcpus belongs to --cpu"))
	}
	if f.component != "" && set("cpu") {
		bad = append(bad, errCopiesCPU)
	}
	return bad
}

// scaled is what the plan is asked for, with the registry's processors.
func (f *scaledFlags) scaled(file *registry.File, ladder artifact.Target) (plan.Scaled, error) {
	s := plan.Scaled{Component: cmp.Or(f.component, ladder.Component), CPU: f.cpu, VCPUs: f.vcpus}
	if s.CPU > 0 && s.Component != "" {
		return s, exit.Misuse(errCopiesCPU)
	}
	if s.CPU > 0 && s.VCPUs == 0 && file != nil {
		if m, err := file.Model(ladder.Model); err == nil {
			s.VCPUs = m.VCPUs
		}
	}
	if s.CPU > 0 && s.VCPUs == 0 {
		return s, exit.Misuse(errors.New("--cpu: how many processors an instance has is not known, and the metric sums over them: give --vcpus N, or vcpus in models.yaml"))
	}
	return s, nil
}

// Package freeze decides what a measurement changes on a SageMaker variant and how it is put back: the record that is
// written before the first change, the tag that carries it across machines, what forbids a measurement, what needs the
// owner's consent, and what is still changed afterwards.
//
// Reading and changing an endpoint is left to package awsfleet, keeping the record to package store.
//
//	rec := freeze.Record(v)          // before the first change
//	freeze.Still(rec, after)         // nil: everything is as it was
//	freeze.Tag(rec)                  // "out=0/in=0/sched=0/min=1/max=9/desired=3"
package freeze

import (
	"fmt"
	"strconv"
	"strings"

	"loadline/internal/artifact"
)

// TagKey is the endpoint tag that carries a freeze record where another machine can see it.
const TagKey = "loadline:freeze"

// InService is the endpoint status in which an endpoint can be measured and changed.
const InService = "InService"

// Variant is one production variant as it was read.
type Variant struct {
	Region   string
	Endpoint string
	ARN      string // of the endpoint
	Name     string // of the variant
	Siblings int    // other variants of the endpoint

	// Component is the inference component that scales: counts, Target and Status are its own then, "" the variant's.
	Component  string
	Neighbours []string // other components that share the variant's instances

	Status  string // EndpointStatus, or that of the component where the endpoint is in service
	Desired int
	Current int
	Routing string // RANDOM, LEAST_OUTSTANDING_REQUESTS, …

	Fingerprint artifact.Fingerprint
	BadBound    string // a queue bound in the container env that is no number, as "MAX_QUEUE_DEPTH=many"

	Async      bool // asynchronous inference
	Serverless bool
	Components bool // inference components: no model of its own
	Containers int  // of its model; more than one is a pipeline or a multi-container endpoint

	Target      *Target           // nil: no scalable target is registered
	Tags        map[string]string // nil: could not be read
	Invocations *float64          // in the last ten minutes; nil: could not be read
}

// Target is the scalable target of a variant.
type Target struct {
	Min, Max  int
	Suspended Flags
}

// Flags are the three ways in which scaling can be suspended; false is active.
type Flags struct{ Out, In, Sched bool }

// All suspends scaling whole.
var All = Flags{Out: true, In: true, Sched: true}

func (f Flags) String() string {
	var s []string
	for _, v := range []struct {
		name string
		set  bool
	}{{"scale-out", f.Out}, {"scale-in", f.In}, {"scheduled actions", f.Sched}} {
		if v.set {
			s = append(s, v.name)
		}
	}
	if s == nil {
		return "active"
	}
	return strings.Join(s, ", ") + " suspended"
}

// Record is what has to be put back on v. The caller adds the run's id, its owner and the time.
func Record(v Variant) artifact.Freeze {
	rec := artifact.Freeze{Schema: artifact.SchemaFreeze, Region: v.Region, Endpoint: v.Endpoint, Variant: v.Name, Component: v.Component, Desired: v.Desired}
	if t := v.Target; t != nil {
		rec.HadTarget, rec.Min, rec.Max = true, t.Min, t.Max
		rec.Suspended.Out, rec.Suspended.In, rec.Suspended.Sched = t.Suspended.Out, t.Suspended.In, t.Suspended.Sched
	}
	return rec
}

// Before is the suspension that rec found.
func Before(rec artifact.Freeze) Flags {
	return Flags{Out: rec.Suspended.Out, In: rec.Suspended.In, Sched: rec.Suspended.Sched}
}

// Still lists what of rec is not yet put back on v; nil when all is. A count that differs is accepted once scaling is
// active again and holds it within its bounds: then the autoscaler owns it.
func Still(rec artifact.Freeze, v Variant) []string {
	var left []string
	if t := v.Target; rec.HadTarget && t != nil {
		if t.Suspended != Before(rec) {
			left = append(left, fmt.Sprintf("scaling: %s, was: %s", t.Suspended, Before(rec)))
		}
		if t.Min != rec.Min || t.Max != rec.Max {
			left = append(left, fmt.Sprintf("scaling bounds: %d to %d, were %d to %d", t.Min, t.Max, rec.Min, rec.Max))
		}
	}
	if v.Desired != rec.Desired && !scalerOwns(v) {
		left = append(left, fmt.Sprintf("desired count: %d, was %d", v.Desired, rec.Desired))
	}
	if v.Status != InService {
		whose := "endpoint"
		if v.Component != "" {
			whose = "inference component"
		}
		left = append(left, fmt.Sprintf("%s status: %s, desired %d, current %d", whose, v.Status, v.Desired, v.Current))
	}
	return left
}

func scalerOwns(v Variant) bool {
	return v.Target != nil && !v.Target.Suspended.Out && v.Desired >= v.Target.Min && v.Desired <= v.Target.Max
}

// Tag is rec as the value of TagKey. max=0 stands for a variant without a scalable target. The variant is named only
// where siblings make it necessary, a component where its copies are what was pinned.
func Tag(rec artifact.Freeze, siblings int) string {
	bit := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	s := fmt.Sprintf("out=%d/in=%d/sched=%d/min=%d/max=%d/desired=%d",
		bit(rec.Suspended.Out), bit(rec.Suspended.In), bit(rec.Suspended.Sched), rec.Min, rec.Max, rec.Desired)
	if siblings > 0 {
		s += "/variant=" + rec.Variant
	}
	if rec.Component != "" {
		s += "/component=" + rec.Component
	}
	return s
}

// ParseTag reads what Tag wrote. Variant is empty where the tag names none.
func ParseTag(s string) (artifact.Freeze, error) {
	rec := artifact.Freeze{Schema: artifact.SchemaFreeze}
	fail := func(why string) (artifact.Freeze, error) {
		return artifact.Freeze{}, fmt.Errorf("tag %s = %q: %s: want out=0/in=0/sched=0/min=1/max=9/desired=3", TagKey, s, why)
	}
	numbers := map[string]int{}
	names := map[string]*string{"variant": &rec.Variant, "component": &rec.Component}
	for part := range strings.SplitSeq(s, "/") {
		key, value, _ := strings.Cut(part, "=")
		if _, twice := numbers[key]; twice {
			return fail(key + " is given twice")
		}
		if name := names[key]; name != nil {
			if *name != "" || value == "" {
				return fail(key + " is given twice, or empty")
			}
			*name = value
			continue
		}
		switch key {
		case "out", "in", "sched", "min", "max", "desired":
		default:
			return fail(fmt.Sprintf("unknown part %q", part))
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || strconv.Itoa(n) != value {
			return fail(fmt.Sprintf("%q is no count", part))
		}
		numbers[key] = n
	}
	if len(numbers) != 6 {
		return fail("a part is missing")
	}
	if numbers["out"] > 1 || numbers["in"] > 1 || numbers["sched"] > 1 || numbers["min"] > numbers["max"] {
		return fail("out of range")
	}
	rec.Suspended.Out, rec.Suspended.In, rec.Suspended.Sched = numbers["out"] == 1, numbers["in"] == 1, numbers["sched"] == 1
	rec.Min, rec.Max, rec.Desired = numbers["min"], numbers["max"], numbers["desired"]
	rec.HadTarget = rec.Max > 0
	return rec, nil
}

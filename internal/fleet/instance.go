package fleet

import (
	"fmt"
	"slices"
	"time"
)

// fit asks for what a variant lacks and drains what it has too much: the instances that came last go first.
func (e *Endpoint) fit(events []Event, v *Variant, now time.Time) []Event {
	for len(v.Instances) < v.Desired {
		events = e.add(events, v, v.stages, now, e.change, 0)
	}
	for i := len(v.Instances) - 1; i >= v.Desired; i-- {
		inst := &v.Instances[i]
		events = drain(events, v, inst, now)
	}
	return events
}

func drain(events []Event, v *Variant, inst *Instance, now time.Time) []Event {
	if inst.Phase == Draining {
		return events
	}
	inst.enter(Draining, now, time.Time{})
	return append(events, event(now, Drain, v, inst, ""))
}

func event(at time.Time, k Kind, v *Variant, i *Instance, why string) Event {
	return Event{At: at, Kind: k, Variant: v.Name, Instance: i.ID, Detail: why, Revision: i.Revision}
}

// add asks for an instance. One that comes with a change takes the change down if it fails; one with change 0 stands in for
// one that served, and is tried again.
func (e *Endpoint) add(events []Event, v *Variant, stages Stages, now time.Time, change, tries int) []Event {
	stages = stages.drawn(e.rng)
	if stages.Health <= 0 {
		stages.Health = DefaultHealth
	}
	if stages.Placement <= 0 {
		stages.Placement = DefaultPlacement
	}
	inst := Instance{ID: fmt.Sprintf("i-0%016x", e.rng.Uint64()), Revision: v.Revision, stages: stages, change: change, tries: tries}
	inst.fault = e.Faults.instance(e.rng)
	due := now.Add(stages.Provision)
	switch {
	case inst.fault == FailStuck:
		due = time.Time{}
	case inst.fault == FailPlacement:
		due = now.Add(stages.Placement)
	case tries > 0: // not in a loop as fast as a container can fail
		due = now.Add(max(stages.Provision, min(time.Second<<tries, time.Minute)))
	}
	inst.enter(Provisioning, now, due)
	v.Instances = append(v.Instances, inst)
	return append(events, event(now, Provision, v, &inst, ""))
}

func (i *Instance) enter(p Phase, at, due time.Time) { i.Phase, i.Since, i.due = p, at, due }

// Next is when Advance has something to do next; false when everything waits for a report.
func (e *Endpoint) Next() (time.Time, bool) {
	var next time.Time
	sooner := func(due time.Time) {
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	for _, v := range e.all() {
		for n := range v.Instances {
			sooner(v.Instances[n].due)
		}
	}
	for _, c := range e.components {
		for _, k := range c.Copies {
			sooner(k.due)
		}
	}
	return next, !next.IsZero()
}

// Advance does what is due by now. An event carries the time at which it was due, however late Advance is called.
func (e *Endpoint) Advance(now time.Time) []Event {
	var events []Event
	for {
		due, ok := e.Next()
		if !ok || due.After(now) {
			return events
		}
		for _, v := range e.all() {
			// A copy of the list: giving an instance up takes it out, and others of its change with it.
			for _, was := range slices.Clone(v.Instances) {
				if was.due.IsZero() || was.due.After(due) {
					continue
				}
				i := v.find(was.ID)
				if i == nil || i.due.IsZero() || i.due.After(due) {
					continue
				}
				switch i.Phase {
				case Provisioning:
					if i.fault == FailPlacement {
						events = e.giveUp(events, v, i.ID, due, noMachine)
						continue
					}
					if v.hosting != nil { // nothing runs on it yet
						i.enter(Settling, due, due.Add(i.stages.Settle))
						continue
					}
					i.enter(Starting, due, due.Add(i.stages.Health))
					events = append(events, event(due, Start, v, i, ""))
				case Starting:
					why := fmt.Sprintf("The primary container for production variant %s did not pass the ping health check within %s (instance %s). Please check CloudWatch logs for this endpoint.", v.Name, i.stages.Health, i.ID)
					events = e.giveUp(events, v, i.ID, due, why)
				case Settling:
					events = e.serve(events, v, i, due)
				case Serving: // it has been empty for long enough
					gone := *i
					e.remove(v, i.ID)
					v.Desired--
					events = append(events, event(due, Removed, v, &gone, ""))
				}
			}
		}
		events = e.advanceCopies(events, due)
	}
}

// Healthy reports that an instance's container passed its health check. A report on an instance that is not starting is
// stale and changes nothing.
func (e *Endpoint) Healthy(id string, now time.Time) []Event {
	if c, k := e.copy(id); k != nil {
		return e.copyHealthy(c, k, now)
	}
	v, i := e.instance(id)
	if i == nil || i.Phase != Starting || i.fault == FailHealth {
		return nil
	}
	if i.stages.Settle > 0 {
		i.enter(Settling, now, now.Add(i.stages.Settle))
		return nil
	}
	return e.serve(nil, v, i, now)
}

func (e *Endpoint) serve(events []Event, v *Variant, i *Instance, at time.Time) []Event {
	if slices.Contains(e.green, v) {
		i.enter(Waiting, at, time.Time{})
		return e.settle(e.takeOver(events, at), at)
	}
	i.enter(Serving, at, time.Time{})
	if v.hosting != nil {
		e.idle(at)
		return e.settle(e.place(append(events, event(at, Hosts, v, i, "")), at), at)
	}
	return e.settle(append(events, event(at, Route, v, i, "")), at)
}

// Broke reports that an instance's container could not be started, or ended by itself. One that was meant to come takes
// its change down; one that served is replaced.
func (e *Endpoint) Broke(id string, now time.Time, why string) []Event {
	if c, k := e.copy(id); k != nil {
		if k.Phase == Draining {
			return e.copyGone(c, k, now)
		}
		return e.failCopy(nil, c, id, now, why)
	}
	v, i := e.instance(id)
	if i == nil {
		return nil
	}
	switch i.Phase {
	case Draining:
		return e.Gone(id, now)
	case Serving:
		events := e.drop(nil, v, id, now, why)
		if slices.Contains(e.blue, v) {
			return e.settle(events, now)
		}
		return append(e.add(events, v, v.stages, now, 0, 0), e.Advance(now)...)
	}
	return e.giveUp(nil, v, id, now, why)
}

// drop takes an instance out that is not to be drained.
func (e *Endpoint) drop(events []Event, v *Variant, id string, at time.Time, why string) []Event {
	i := *v.find(id)
	e.remove(v, id)
	return append(events, event(at, Stop, v, &i, why), event(at, Removed, v, &i, why))
}

// giveUp ends an instance that did not come to serve, and decides what becomes of the change that it came with.
func (e *Endpoint) giveUp(events []Event, v *Variant, id string, at time.Time, why string) []Event {
	i := *v.find(id)
	if i.change != 0 {
		e.Reason = why
	}
	events = e.drop(events, v, id, at, why)
	switch {
	case slices.Contains(e.blue, v): // it is not wanted any more
	case i.change == 0 && v.hosting != nil: // its copies wait on, and are given up in their time
		v.Desired--
	case i.change == 0:
		return append(e.add(events, v, v.stages, at, 0, i.tries+1), e.Advance(at)...)
	case e.Status == Creating:
		v.Desired--
		for _, v := range e.variants {
			for _, i := range slices.Clone(v.Instances) {
				events = e.drop(events, v, i.ID, at, why)
			}
			v.Desired = 0
		}
		return e.status(events, Failed, at)
	case e.Status == Updating && i.change == e.change:
		return e.rollBack(events, at, why)
	default:
		v.Desired--
	}
	return e.settle(events, at)
}

// rollBack undoes the change under way: what came with it goes, and counts and weights are what they were.
func (e *Endpoint) rollBack(events []Event, at time.Time, why string) []Event {
	events = e.status(events, RollingBack, at)
	for _, v := range e.all() {
		for _, was := range slices.Clone(v.Instances) {
			i := v.find(was.ID)
			switch {
			case i.change != e.change:
			case i.Phase == Serving:
				events = drain(events, v, i, at)
			case i.Phase != Draining:
				events = e.drop(events, v, i.ID, at, why)
			}
		}
	}
	e.green = nil
	for _, was := range e.before {
		if v := e.variant(was.Name); v != nil {
			v.Desired, v.Weight, v.DesiredWeight = was.Desired, was.Weight, was.DesiredWeight
			for alive(v) < v.Desired { // what the change had let go
				events = e.add(events, v, v.stages, at, 0, 0)
			}
		}
	}
	return e.settle(append(events, e.Advance(at)...), at)
}

// alive is how many instances a variant has that do not drain.
func alive(v *Variant) int {
	n := 0
	for _, i := range v.Instances {
		if i.Phase != Draining {
			n++
		}
	}
	return n
}

// Gone reports that a drained instance has ended.
func (e *Endpoint) Gone(id string, now time.Time) []Event {
	if c, k := e.copy(id); k != nil {
		return e.copyGone(c, k, now)
	}
	v, i := e.instance(id)
	if i == nil || i.Phase != Draining {
		return nil
	}
	gone := *i
	e.remove(v, id)
	return e.settle([]Event{event(now, Removed, v, &gone, "")}, now)
}

// settle ends the change under way when every instance serves that is meant to, and the others are gone.
func (e *Endpoint) settle(events []Event, at time.Time) []Event {
	switch e.Status {
	case Creating, Updating, RollingBack:
	case Deleting:
		for _, v := range e.all() {
			if len(v.Instances) > 0 {
				return events
			}
		}
		return append(events, Event{At: at, Kind: Deleted})
	default:
		return events
	}
	for _, v := range e.blue {
		if len(v.Instances) > 0 {
			return events
		}
	}
	if e.green != nil {
		return events
	}
	for _, v := range e.variants {
		if v.Desired < 1 && v.hosting == nil {
			return e.status(events, Failed, at)
		}
		if len(v.Instances) != v.Desired {
			return events
		}
		for n := range v.Instances {
			if v.Instances[len(v.Instances)-1-n].Phase != Serving { // those that came last are ready last
				return events
			}
		}
	}
	e.blue, e.before = nil, nil
	return e.status(events, InService, at)
}

func (e *Endpoint) status(events []Event, s Status, at time.Time) []Event {
	if e.Status == s {
		return events
	}
	e.Status, e.Modified = s, at
	return append(events, Event{At: at, Kind: Changed, Detail: string(s)})
}

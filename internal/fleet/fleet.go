// Package fleet is the life of a SageMaker endpoint as a state machine: its variants, how many instances each is meant to
// have and has, what an instance goes through before it takes traffic and after it stops, and when the endpoint says
// Updating.
//
// It decides what happens and says so in events; starting containers, asking after their health and routing requests is
// the caller's, who reports back. Time is an argument: nothing here waits.
//
//	e, events, err := fleet.New(cfg, now, rng)       // Start for each first instance
//	events, err = e.Healthy(id, now)                 // InService, then the status
//	events, err = e.SetCapacity(now, changes, room)  // Provision …, status Updating
//	events = e.Advance(now)                          // Start: its machine has come
//
// While anything is under way the endpoint is Updating and refuses another change, as SageMaker does, so scale-outs
// follow one another however short a cooldown is.
package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Status of an endpoint, in SageMaker's words.
type Status string

// The statuses that an endpoint goes through here.
const (
	Creating  Status = "Creating"
	InService Status = "InService"
	Updating  Status = "Updating"
	Failed    Status = "Failed"
)

// Phase of one instance.
type Phase string

// An instance goes from the first phase to the last and never back.
const (
	Provisioning Phase = "provisioning" // waiting for a machine and its image
	Starting     Phase = "starting"     // its container runs and is not healthy yet
	Settling     Phase = "settling"     // healthy, not in rotation yet
	Serving      Phase = "serving"      // takes traffic, and counts
	Draining     Phase = "draining"     // takes no more traffic, counts until it is gone
)

// Stages are the times that an instance needs for what is not its container's own doing.
type Stages struct {
	Provision time.Duration // from the capacity call to the start of the container
	Health    time.Duration // from there until it must be healthy, or it is given up; 0: 8 minutes
	Settle    time.Duration // from healthy to in service
}

// DefaultHealth is how long a container may take to become healthy.
const DefaultHealth = 8 * time.Minute

// VariantConfig is a production variant as its endpoint configuration states it.
type VariantConfig struct {
	Name         string
	InstanceType string
	Initial      int // instances, at least 1
	Weight       float64
	Stages       Stages
}

// Config of an endpoint.
type Config struct {
	Name     string
	Variants []VariantConfig
	// AtOnce gives the first instances no provisioning and no settling: the endpoint has been there for a while.
	AtOnce bool
}

// Instance is one machine of a variant.
type Instance struct {
	ID     string
	Phase  Phase
	Since  time.Time // when it came into its phase
	due    time.Time // when its phase ends by itself; zero: when somebody reports
	stages Stages
}

// Variant is a production variant as it is now.
type Variant struct {
	Name          string
	InstanceType  string
	Weight        float64
	DesiredWeight float64
	Desired       int // instances wanted
	Instances     []Instance
	stages        Stages
}

// Current is how many instances are in service, those that drain included: SageMaker counts one until it is gone.
func (v *Variant) Current() int {
	n := 0
	for _, i := range v.Instances {
		if i.Phase == Serving || i.Phase == Draining {
			n++
		}
	}
	return n
}

// Kind says what an event is.
type Kind string

// The events. Start, Drain and Stop are for the caller to act on; the others are for it to show.
const (
	Provision Kind = "provision"  // a machine has been asked for
	Start     Kind = "start"      // start the container; answer with Healthy or Broke
	Route     Kind = "in_service" // send it traffic
	Drain     Kind = "drain"      // send it no more, let it finish, stop it; answer with Gone
	Stop      Kind = "stop"       // it was given up before it served: stop whatever runs; no answer
	Removed   Kind = "removed"    // it no longer counts
	Changed   Kind = "status"     // the endpoint's status is Detail
)

// Event is one thing that happened, or is to be done.
type Event struct {
	At       time.Time
	Kind     Kind
	Variant  string
	Instance string
	Detail   string
}

// Endpoint is the machine. It is not safe for concurrent use.
type Endpoint struct {
	Name     string
	Status   Status
	Created  time.Time
	Modified time.Time
	Reason   string // why the last change failed, empty when it did not
	variants []*Variant
	rng      *rand.Rand
}

// ErrInProgress refuses a change while another one is under way.
var ErrInProgress = errors.New("a change of the endpoint is in progress")

// A VariantError names a variant that the endpoint does not have.
type VariantError struct {
	Variant string
	Have    []string
}

func (e *VariantError) Error() string {
	return fmt.Sprintf("no variant %q: the endpoint has %s", e.Variant, strings.Join(e.Have, ", "))
}

// A CountError is a number of instances that cannot be.
type CountError struct {
	Variant string
	Count   int
}

func (e *CountError) Error() string {
	return fmt.Sprintf("variant %q cannot have %d instances: a real-time variant keeps at least 1", e.Variant, e.Count)
}

// A LimitError is a change that the account's quota does not cover. Nothing of it is done: it is all or nothing.
type LimitError struct {
	InstanceType       string
	Limit, Used, Delta int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the limit for %s is %d instances, %d are in use, %d more were asked for", e.InstanceType, e.Limit, e.Used, e.Delta)
}

// New is an endpoint that is being created; the events start its first instances.
func New(cfg Config, now time.Time, rng *rand.Rand) (*Endpoint, []Event, error) {
	if len(cfg.Variants) == 0 {
		return nil, nil, errors.New("an endpoint needs at least one variant")
	}
	e := &Endpoint{Name: cfg.Name, Status: Creating, Created: now, Modified: now, rng: rng}
	for _, vc := range cfg.Variants {
		if e.variant(vc.Name) != nil {
			return nil, nil, fmt.Errorf("variant %q is there twice", vc.Name)
		}
		if vc.Initial < 1 {
			return nil, nil, &CountError{vc.Name, vc.Initial}
		}
		e.variants = append(e.variants, &Variant{Name: vc.Name, InstanceType: vc.InstanceType, Weight: vc.Weight,
			DesiredWeight: vc.Weight, Desired: vc.Initial, stages: vc.Stages})
	}
	var events []Event
	for i, v := range e.variants {
		stages := v.stages
		if cfg.AtOnce {
			stages.Provision, stages.Settle = 0, 0
		}
		for range cfg.Variants[i].Initial {
			events = e.add(events, v, stages, now)
		}
	}
	return e, append(events, e.Advance(now)...), nil
}

// Variants is the endpoint's variants in the order of its configuration: a copy.
func (e *Endpoint) Variants() []Variant {
	out := make([]Variant, len(e.variants))
	for i, v := range e.variants {
		out[i] = *v
		out[i].Instances = slices.Clone(v.Instances)
	}
	return out
}

// Held is how many instances of the type the endpoint holds or has asked for, as a quota counts them.
func (e *Endpoint) Held(instanceType string) int {
	n := 0
	for _, v := range e.variants {
		if v.InstanceType == instanceType {
			n += max(v.Desired, len(v.Instances))
		}
	}
	return n
}

// Change of one variant; nil leaves what is.
type Change struct {
	Variant string
	Desired *int
	Weight  *float64
}

// Quota is how many instances of a type the account may hold, and how many it holds over all its endpoints.
type Quota func(instanceType string) (limit, used int)

// SetCapacity changes counts and weights: all of it or, with an error, nothing. It refuses with ErrInProgress, a
// *VariantError, a *CountError or a *LimitError. quota may be nil for no limit.
func (e *Endpoint) SetCapacity(now time.Time, changes []Change, quota Quota) ([]Event, error) {
	if e.Status != InService {
		return nil, fmt.Errorf("endpoint %s is %s: %w", e.Name, e.Status, ErrInProgress)
	}
	asked := map[string]int{} // by instance type
	for _, c := range changes {
		v := e.variant(c.Variant)
		if v == nil {
			return nil, &VariantError{c.Variant, e.names()}
		}
		if c.Desired == nil {
			continue
		}
		if *c.Desired < 1 {
			return nil, &CountError{c.Variant, *c.Desired}
		}
		asked[v.InstanceType] += *c.Desired - v.Desired
	}
	if quota != nil {
		for _, v := range e.variants { // in order, so that the same refusal is always the same
			if delta := asked[v.InstanceType]; delta > 0 {
				if limit, used := quota(v.InstanceType); used+delta > limit {
					return nil, &LimitError{v.InstanceType, limit, used, delta}
				}
			}
		}
	}
	e.Modified, e.Reason = now, ""
	events := e.status(nil, Updating, now)
	for _, c := range changes {
		v := e.variant(c.Variant)
		if c.Weight != nil {
			v.Weight, v.DesiredWeight = *c.Weight, *c.Weight
		}
		if c.Desired != nil {
			v.Desired = *c.Desired
			events = e.fit(events, v, now)
		}
	}
	events = append(events, e.Advance(now)...)
	return e.settle(events, now), nil
}

// fit asks for what a variant lacks and drains what it has too much: the instances that came last go first.
func (e *Endpoint) fit(events []Event, v *Variant, now time.Time) []Event {
	for len(v.Instances) < v.Desired {
		events = e.add(events, v, v.stages, now)
	}
	for i := len(v.Instances) - 1; i >= v.Desired; i-- {
		inst := &v.Instances[i]
		inst.enter(Draining, now, time.Time{})
		events = append(events, Event{now, Drain, v.Name, inst.ID, ""})
	}
	return events
}

func (e *Endpoint) add(events []Event, v *Variant, stages Stages, now time.Time) []Event {
	if stages.Health <= 0 {
		stages.Health = DefaultHealth
	}
	inst := Instance{ID: fmt.Sprintf("i-0%016x", e.rng.Uint64()), stages: stages}
	inst.enter(Provisioning, now, now.Add(stages.Provision))
	v.Instances = append(v.Instances, inst)
	return append(events, Event{now, Provision, v.Name, inst.ID, ""})
}

func (i *Instance) enter(p Phase, at, due time.Time) { i.Phase, i.Since, i.due = p, at, due }

// Next is when Advance has something to do next; false when everything waits for a report.
func (e *Endpoint) Next() (time.Time, bool) {
	var next time.Time
	for _, v := range e.variants {
		for _, i := range v.Instances {
			if !i.due.IsZero() && (next.IsZero() || i.due.Before(next)) {
				next = i.due
			}
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
		for _, v := range e.variants {
			// A copy of the list: giving an instance up takes it out.
			for _, i := range slices.Clone(v.Instances) {
				if i.due.IsZero() || i.due.After(due) {
					continue
				}
				switch i.Phase {
				case Provisioning:
					v.find(i.ID).enter(Starting, due, due.Add(i.stages.Health))
					events = append(events, Event{due, Start, v.Name, i.ID, ""})
				case Starting:
					why := fmt.Sprintf("the container of instance %s did not pass its health check within %s", i.ID, i.stages.Health)
					events = e.giveUp(events, v, i.ID, due, why)
				case Settling:
					events = e.serve(events, v, v.find(i.ID), due)
				}
			}
		}
	}
}

// Healthy reports that an instance's container passed its health check. A report on an instance that is not starting is
// stale and changes nothing.
func (e *Endpoint) Healthy(id string, now time.Time) []Event {
	v, i := e.instance(id)
	if i == nil || i.Phase != Starting {
		return nil
	}
	if i.stages.Settle > 0 {
		i.enter(Settling, now, now.Add(i.stages.Settle))
		return nil
	}
	return e.serve(nil, v, i, now)
}

func (e *Endpoint) serve(events []Event, v *Variant, i *Instance, at time.Time) []Event {
	i.enter(Serving, at, time.Time{})
	return e.settle(append(events, Event{at, Route, v.Name, i.ID, ""}), at)
}

// Broke reports that an instance's container could not be started, or ended by itself. One that was meant to come is
// given up and the variant wants one fewer; one that served is replaced.
func (e *Endpoint) Broke(id string, now time.Time, why string) []Event {
	v, i := e.instance(id)
	if i == nil {
		return nil
	}
	switch i.Phase {
	case Draining:
		return e.Gone(id, now)
	case Serving:
		e.remove(v, id)
		events := []Event{{now, Stop, v.Name, id, why}, {now, Removed, v.Name, id, why}}
		return append(e.fit(events, v, now), e.Advance(now)...)
	}
	return e.giveUp(nil, v, id, now, why)
}

func (e *Endpoint) giveUp(events []Event, v *Variant, id string, at time.Time, why string) []Event {
	e.Reason = why
	e.remove(v, id)
	v.Desired--
	events = append(events, Event{at, Stop, v.Name, id, why}, Event{at, Removed, v.Name, id, why})
	return e.settle(events, at)
}

// Gone reports that a drained instance has ended.
func (e *Endpoint) Gone(id string, now time.Time) []Event {
	v, i := e.instance(id)
	if i == nil || i.Phase != Draining {
		return nil
	}
	e.remove(v, id)
	return e.settle([]Event{{now, Removed, v.Name, id, ""}}, now)
}

// settle ends the change under way when every instance serves.
func (e *Endpoint) settle(events []Event, at time.Time) []Event {
	if e.Status != Creating && e.Status != Updating {
		return events
	}
	for _, v := range e.variants {
		if v.Desired < 1 {
			return e.status(events, Failed, at)
		}
		if len(v.Instances) != v.Desired || v.Current() != v.Desired {
			return events
		}
		for _, i := range v.Instances {
			if i.Phase != Serving {
				return events
			}
		}
	}
	return e.status(events, InService, at)
}

func (e *Endpoint) status(events []Event, s Status, at time.Time) []Event {
	if e.Status == s {
		return events
	}
	e.Status, e.Modified = s, at
	return append(events, Event{At: at, Kind: Changed, Detail: string(s)})
}

func (e *Endpoint) variant(name string) *Variant {
	for _, v := range e.variants {
		if v.Name == name {
			return v
		}
	}
	return nil
}

func (e *Endpoint) names() []string {
	var out []string
	for _, v := range e.variants {
		out = append(out, v.Name)
	}
	return out
}

func (e *Endpoint) instance(id string) (*Variant, *Instance) {
	for _, v := range e.variants {
		if i := v.find(id); i != nil {
			return v, i
		}
	}
	return nil, nil
}

func (v *Variant) find(id string) *Instance {
	for i := range v.Instances {
		if v.Instances[i].ID == id {
			return &v.Instances[i]
		}
	}
	return nil
}

func (e *Endpoint) remove(v *Variant, id string) {
	v.Instances = slices.DeleteFunc(v.Instances, func(i Instance) bool { return i.ID == id })
}

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Room is what an instance has for inference components, and what one copy of a component needs of it.
type Room struct {
	CPUs, Accelerators float64
	Memory             int // MB
}

func (r Room) holds(need Room) bool {
	return r.CPUs >= need.CPUs && r.Accelerators >= need.Accelerators && r.Memory >= need.Memory
}

func (r Room) less(need Room) Room {
	return Room{r.CPUs - need.CPUs, r.Accelerators - need.Accelerators, r.Memory - need.Memory}
}

// Hosting makes a variant hold inference components in place of one container an instance.
type Hosting struct {
	Room Room // of an instance
	// Min and Max let the platform add instances that copies need, and remove those that are empty. Max 0: it does not.
	Min, Max int
}

// IdleGrace is how long an instance without copies is kept before the platform removes it. AWS names no figure.
const IdleGrace = time.Minute

// ComponentConfig is an inference component.
type ComponentConfig struct {
	Name, Variant string
	Copies        int // at the start, at least 1
	Need          Room
	Stages        Stages // of a copy: Provision is from its place on an instance to the start of its container
}

// Component is an inference component as it is now.
type Component struct {
	Name, Variant     string
	Status            Status
	Desired           int
	Copies            []Copy
	Reason            string // why the last change failed, empty when it did not
	Created, Modified time.Time
	need              Room
	stages            Stages
	before            int // copies before the change under way
	change            int // its number
}

// Copy is one copy of a component.
type Copy struct {
	ID       string
	Instance string // that it is on; "": it waits for one
	Phase    Phase
	Since    time.Time
	due      time.Time
	change   int
}

// Current is how many copies are in service, those that drain included.
func (c *Component) Current() int {
	n := 0
	for _, k := range c.Copies {
		if k.Phase == Serving || k.Phase == Draining {
			n++
		}
	}
	return n
}

// Events of components. A copy's events are an instance's: Start, Route, Drain, Stop, Removed, with Component set, Instance
// the copy and Host the instance that it is on; they are answered with Healthy, Broke and Gone.
const (
	Hosts            Kind = "hosts"             // an instance can take copies
	ComponentStatus  Kind = "component_status"  // the component's status is Detail
	ComponentDeleted Kind = "component_deleted" // it is gone
)

// A ComponentError names a component that the endpoint does not have.
type ComponentError struct{ Name string }

func (e *ComponentError) Error() string { return fmt.Sprintf("no inference component %q", e.Name) }

// Components are the endpoint's inference components in the order of their making: a copy.
func (e *Endpoint) Components() []Component {
	out := make([]Component, len(e.components))
	for i, c := range e.components {
		out[i] = *c
		out[i].Copies = slices.Clone(c.Copies)
	}
	return out
}

func (e *Endpoint) component(name string) *Component {
	for _, c := range e.components {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// CreateComponent starts the copies of a component, on instances that there are or that come for it.
func (e *Endpoint) CreateComponent(now time.Time, cfg ComponentConfig) ([]Event, error) {
	v := e.variant(cfg.Variant)
	switch {
	case e.Status != InService:
		return nil, fmt.Errorf("endpoint %s is %s: %w", e.Name, e.Status, ErrInProgress)
	case v == nil:
		return nil, &VariantError{cfg.Variant, e.names()}
	case v.hosting == nil:
		return nil, fmt.Errorf("variant %q has a container of its own and holds no inference components", cfg.Variant)
	case e.component(cfg.Name) != nil:
		return nil, fmt.Errorf("there is an inference component %q already", cfg.Name)
	case cfg.Copies < 1:
		return nil, fmt.Errorf("inference component %q cannot start with %d copies: it starts with at least 1, and can be scaled to 0 then", cfg.Name, cfg.Copies)
	case !v.hosting.Room.holds(cfg.Need):
		return nil, fmt.Errorf("a copy of inference component %q needs more than an instance of %s has", cfg.Name, v.InstanceType)
	}
	if cfg.Stages.Health <= 0 {
		cfg.Stages.Health = DefaultHealth
	}
	if cfg.Stages.Placement <= 0 {
		cfg.Stages.Placement = DefaultPlacement
	}
	c := &Component{Name: cfg.Name, Variant: cfg.Variant, Created: now, need: cfg.Need, stages: cfg.Stages}
	e.components = append(e.components, c)
	return e.recount(nil, c, Creating, cfg.Copies, now), nil
}

// SetCopies changes how many copies a component has. It refuses with ErrInProgress, a *ComponentError or a *CountError.
func (e *Endpoint) SetCopies(now time.Time, name string, n int) ([]Event, error) {
	c := e.component(name)
	switch {
	case c == nil:
		return nil, &ComponentError{name}
	case c.Status != InService:
		return nil, fmt.Errorf("inference component %s is %s: %w", name, c.Status, ErrInProgress)
	case n < 0:
		return nil, &CountError{name, n}
	}
	return e.recount(nil, c, Updating, n, now), nil
}

// DeleteComponent drains a component's copies; it is gone when they are.
func (e *Endpoint) DeleteComponent(now time.Time, name string) ([]Event, error) {
	c := e.component(name)
	switch {
	case c == nil:
		return nil, &ComponentError{name}
	case c.Status != InService && c.Status != Failed:
		return nil, fmt.Errorf("inference component %s is %s: %w", name, c.Status, ErrInProgress)
	}
	return e.recount(nil, c, Deleting, 0, now), nil
}

// recount begins a change of a component's copies.
func (e *Endpoint) recount(events []Event, c *Component, s Status, n int, now time.Time) []Event {
	c.before, c.Desired, c.Reason, c.Modified = c.Desired, n, "", now
	c.change++
	events = e.componentStatus(events, c, s, now)
	for len(c.Copies) < n {
		k := Copy{ID: fmt.Sprintf("c-0%016x", e.rng.Uint64()), Phase: Waiting, Since: now, due: now.Add(c.stages.Placement), change: c.change}
		if e.Faults.draw(e.rng, FailStuck) {
			k.Phase, k.due = Provisioning, time.Time{}
		}
		c.Copies = append(c.Copies, k)
	}
	for i := len(c.Copies) - 1; i >= n; i-- { // the newest go first
		events = e.release(events, c, &c.Copies[i], now, "")
	}
	c.Copies = slices.DeleteFunc(c.Copies, func(k Copy) bool { return k.Phase == "" })
	events = e.place(events, now)
	return e.settleComponent(append(events, e.Advance(now)...), c, now)
}

// release drains a copy that serves, and ends one that does not; its phase is empty then.
func (e *Endpoint) release(events []Event, c *Component, k *Copy, now time.Time, why string) []Event {
	switch k.Phase {
	case Draining:
	case Serving:
		k.Phase, k.Since, k.due = Draining, now, time.Time{}
		events = append(events, copyEvent(now, Drain, c, k, why))
	default:
		if k.Phase == Starting || k.Phase == Settling {
			events = append(events, copyEvent(now, Stop, c, k, why))
		}
		events = append(events, copyEvent(now, Removed, c, k, why))
		k.Phase = ""
	}
	return events
}

func copyEvent(now time.Time, kind Kind, c *Component, k *Copy, why string) Event {
	return Event{At: now, Kind: kind, Variant: c.Variant, Component: c.Name, Instance: k.ID, Host: k.Instance, Detail: why}
}

// place gives waiting copies an instance with room, the fullest that has it, so that others can become empty; and asks for
// instances that are missing.
func (e *Endpoint) place(events []Event, now time.Time) []Event {
	for _, v := range e.variants {
		if v.hosting == nil {
			continue
		}
		coming := []Room{} // of instances on their way, less the copies that wait for them
		for _, i := range v.Instances {
			if i.Phase == Provisioning || i.Phase == Settling {
				coming = append(coming, v.hosting.Room)
			}
		}
		for _, c := range e.components {
			if c.Variant != v.Name {
				continue
			}
			for n := range c.Copies {
				k := &c.Copies[n]
				if k.Phase != Waiting {
					continue
				}
				if host := e.host(v, c.need); host != "" {
					k.Instance, k.Phase, k.Since, k.due = host, Provisioning, now, now.Add(c.stages.Provision)
					continue
				}
				at := slices.IndexFunc(coming, func(r Room) bool { return r.holds(c.need) })
				if at < 0 && alive(v) < v.hosting.Max && e.room(map[string]int{v.InstanceType: 1}, e.Limit) == nil {
					v.Desired++
					events = e.add(events, v, v.stages, now, 0, 0)
					coming = append(coming, v.hosting.Room)
					at = len(coming) - 1
				}
				if at >= 0 {
					coming[at] = coming[at].less(c.need)
				}
			}
		}
	}
	return events
}

// host is the instance with the least room that holds the need; "" when there is none.
func (e *Endpoint) host(v *Variant, need Room) string {
	best, least := "", Room{}
	for _, i := range v.Instances {
		if i.Phase != Serving {
			continue
		}
		if room := e.left(v, i.ID); room.holds(need) && (best == "" || least.holds(room)) {
			best, least = i.ID, room
		}
	}
	return best
}

// left is the room that an instance has left.
func (e *Endpoint) left(v *Variant, id string) Room {
	room := v.hosting.Room
	for _, c := range e.components {
		for _, k := range c.Copies {
			if k.Instance == id {
				room = room.less(c.need)
			}
		}
	}
	return room
}

// empty says whether no copy is on an instance.
func (e *Endpoint) empty(id string) bool {
	for _, c := range e.components {
		if slices.ContainsFunc(c.Copies, func(k Copy) bool { return k.Instance == id }) {
			return false
		}
	}
	return true
}

// idle notes since when instances are empty, and how long those are kept that the platform may remove.
func (e *Endpoint) idle(now time.Time) {
	for _, v := range e.variants {
		if v.hosting == nil || v.hosting.Max == 0 {
			continue
		}
		spare := alive(v) - v.hosting.Min
		for n := len(v.Instances) - 1; n >= 0; n-- {
			i := &v.Instances[n]
			switch {
			case i.Phase != Serving:
			case !e.empty(i.ID) || spare <= 0:
				i.due = time.Time{}
			default:
				if spare--; i.due.IsZero() {
					i.due = now.Add(IdleGrace)
				}
			}
		}
	}
}

// advanceCopies does what is due of copies at a time.
func (e *Endpoint) advanceCopies(events []Event, due time.Time) []Event {
	for _, c := range slices.Clone(e.components) {
		for _, was := range slices.Clone(c.Copies) {
			k := c.find(was.ID)
			if k == nil || k.due.IsZero() || k.due.After(due) {
				continue
			}
			switch k.Phase {
			case Waiting:
				events = e.failCopy(events, c, k.ID, due, fmt.Sprintf("Could not place a copy of inference component %s: InsufficientInstanceCapacity", c.Name))
			case Provisioning:
				k.Phase, k.Since, k.due = Starting, due, due.Add(c.stages.Health)
				events = append(events, copyEvent(due, Start, c, k, ""))
			case Starting:
				events = e.failCopy(events, c, k.ID, due, fmt.Sprintf("The container of inference component %s did not pass the ping health check within %s.", c.Name, c.stages.Health))
			case Settling:
				events = e.serveCopy(events, c, k, due)
			}
		}
	}
	return events
}

func (c *Component) find(id string) *Copy {
	for i := range c.Copies {
		if c.Copies[i].ID == id {
			return &c.Copies[i]
		}
	}
	return nil
}

func (e *Endpoint) copy(id string) (*Component, *Copy) {
	for _, c := range e.components {
		if k := c.find(id); k != nil {
			return c, k
		}
	}
	return nil, nil
}

// copyHealthy is Healthy of a copy.
func (e *Endpoint) copyHealthy(c *Component, k *Copy, now time.Time) []Event {
	if k.Phase != Starting || e.Faults.draw(e.rng, FailHealth) {
		return nil
	}
	if c.stages.Settle > 0 {
		k.Phase, k.Since, k.due = Settling, now, now.Add(c.stages.Settle)
		return nil
	}
	return e.serveCopy(nil, c, k, now)
}

func (e *Endpoint) serveCopy(events []Event, c *Component, k *Copy, at time.Time) []Event {
	k.Phase, k.Since, k.due = Serving, at, time.Time{}
	return e.settleComponent(append(events, copyEvent(at, Route, c, k, "")), c, at)
}

// failCopy ends a copy. One that came with a change takes the change down; one that served is started again.
func (e *Endpoint) failCopy(events []Event, c *Component, id string, at time.Time, why string) []Event {
	k := c.find(id)
	if k.Phase == Serving || k.change != c.change || c.Status == InService {
		events = append(events, copyEvent(at, Stop, c, k, why), copyEvent(at, Removed, c, k, why))
		k.Phase, k.Instance, k.Since, k.due, k.change = Waiting, "", at, at.Add(c.stages.Placement), 0
		return append(e.place(events, at), e.Advance(at)...)
	}
	// What came with the change goes.
	c.Reason, c.Desired = why, c.before
	for i := range c.Copies {
		if c.Copies[i].change == c.change {
			events = e.release(events, c, &c.Copies[i], at, why)
		}
	}
	c.Copies = slices.DeleteFunc(c.Copies, func(k Copy) bool { return k.Phase == "" })
	return e.settleComponent(events, c, at)
}

// copyGone is Gone of a copy.
func (e *Endpoint) copyGone(c *Component, k *Copy, now time.Time) []Event {
	if k.Phase != Draining {
		return nil
	}
	events := []Event{copyEvent(now, Removed, c, k, "")}
	id := k.ID
	c.Copies = slices.DeleteFunc(c.Copies, func(x Copy) bool { return x.ID == id })
	return e.settleComponent(e.place(events, now), c, now)
}

// settleComponent ends a change of a component when every copy serves.
func (e *Endpoint) settleComponent(events []Event, c *Component, at time.Time) []Event {
	e.idle(at)
	if c.Status == InService || c.Status == Failed || len(c.Copies) != c.Desired ||
		slices.ContainsFunc(c.Copies, func(k Copy) bool { return k.Phase != Serving }) {
		return events
	}
	switch {
	case c.Status == Deleting:
		e.components = slices.DeleteFunc(e.components, func(x *Component) bool { return x == c })
		return append(events, Event{At: at, Kind: ComponentDeleted, Variant: c.Variant, Component: c.Name})
	case c.Status == Creating && c.Reason != "":
		return e.componentStatus(events, c, Failed, at)
	}
	return e.componentStatus(events, c, InService, at)
}

func (e *Endpoint) componentStatus(events []Event, c *Component, s Status, at time.Time) []Event {
	if c.Status == s {
		return events
	}
	c.Status, c.Modified = s, at
	return append(events, Event{At: at, Kind: ComponentStatus, Variant: c.Variant, Component: c.Name, Detail: string(s)})
}

// errManaged refuses to count the instances of a variant that holds inference components: the platform does.
var errManaged = errors.New("its instances follow its inference components and cannot be given a number")

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
// follow one another however short a cooldown is. A change that fails is rolled back whole. Faults make things fail on
// demand.
package fleet

import (
	"errors"
	"fmt"
	"maps"
	"math"
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
	// RollingBack: a change of counts or weights, or an update, has failed, and what was before is being restored.
	RollingBack Status = "RollingBack"
	Deleting    Status = "Deleting"
	Failed      Status = "Failed"
)

// Phase of one instance.
type Phase string

// An instance goes from the first phase to the last and never back.
const (
	Provisioning Phase = "provisioning" // waiting for a machine and its image
	Starting     Phase = "starting"     // its container runs and is not healthy yet
	Settling     Phase = "settling"     // healthy, not in rotation yet
	Waiting      Phase = "waiting"      // could take traffic, and waits for the others of its update
	Serving      Phase = "serving"      // takes traffic, and counts
	Draining     Phase = "draining"     // takes no more traffic, counts until it is gone
)

// Stages are the times that an instance needs for what is not its container's own doing.
type Stages struct {
	Provision time.Duration // from the capacity call to the start of the container
	Health    time.Duration // from there until it must be healthy, or it is given up; 0: 8 minutes
	Settle    time.Duration // from healthy to in service
	Placement time.Duration // until an instance for which there is no machine is given up; 0: 30 minutes
	Spread    float64       // of Provision and Settle from one instance to the next, as standard deviation over mean
}

// drawn is the stages of one instance: log-normal around their means, which are kept.
func (s Stages) drawn(rng *rand.Rand) Stages {
	if s.Spread > 0 {
		sigma := math.Sqrt(math.Log1p(s.Spread * s.Spread))
		for _, d := range []*time.Duration{&s.Provision, &s.Settle} {
			*d = time.Duration(float64(*d) * math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2))
		}
	}
	return s
}

// How long a container may take to become healthy, and a machine to be found.
const (
	DefaultHealth    = 8 * time.Minute
	DefaultPlacement = 30 * time.Minute
)

// VariantConfig is a production variant as its endpoint configuration states it.
type VariantConfig struct {
	Name         string
	InstanceType string
	Initial      int // instances, at least 1
	Weight       float64
	Stages       Stages
	Hosting      *Hosting // of inference components; nil: each instance runs the variant's own container
}

// Config of an endpoint.
type Config struct {
	Name     string
	Variants []VariantConfig
	// AtOnce gives the first instances no provisioning, no settling and no faults: the endpoint has been there for a while.
	AtOnce bool
	Faults Faults
}

// Instance is one machine of a variant.
type Instance struct {
	ID       string
	Phase    Phase
	Since    time.Time // when it came into its phase
	Revision int       // of the configuration that it runs, the first is 0
	due      time.Time // when its phase ends by itself; zero: when somebody reports
	stages   Stages
	fault    Fault
	change   int // that it came with; 0: it is in nobody's place, or in one's that served
	tries    int // in its place before it
}

// Variant is a production variant as it is now.
type Variant struct {
	Name          string
	InstanceType  string
	Weight        float64
	DesiredWeight float64
	Desired       int // instances wanted
	Instances     []Instance
	Revision      int
	stages        Stages
	hosting       *Hosting
	found         int // place of the instance that was looked up last
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
	Deleted   Kind = "deleted"    // the endpoint is gone
)

// Event is one thing that happened, or is to be done.
type Event struct {
	At       time.Time
	Kind     Kind
	Variant  string
	Instance string
	Detail   string
	Revision int // of the instance's configuration
	// Of the events of inference components.
	Component, Host string
}

// Endpoint is the machine. It is not safe for concurrent use.
type Endpoint struct {
	Name     string
	Status   Status
	Created  time.Time
	Modified time.Time
	Reason   string // why the last change failed, empty when it did not
	Revision int    // of the configuration that serves
	Faults   Faults // of instances and changes to come
	Limit    Quota  // of the instances that the platform adds for inference components; nil: none
	variants []*Variant
	green    []*Variant // of an update under way: they take over from variants together
	blue     []*Variant // of an update that has taken over: they drain
	before   []Variant  // counts and weights before the change under way
	change   int        // its number
	rng      *rand.Rand

	components []*Component
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
	e := &Endpoint{Name: cfg.Name, Status: Creating, Created: now, Modified: now, rng: rng, change: 1}
	var err error
	if e.variants, err = newVariants(cfg.Variants, 0); err != nil {
		return nil, nil, err
	}
	var events []Event
	for i, v := range e.variants {
		stages := v.stages
		if cfg.AtOnce {
			stages.Provision, stages.Settle = 0, 0
		} else {
			e.Faults = cfg.Faults
		}
		for range cfg.Variants[i].Initial {
			events = e.add(events, v, stages, now, e.change, 0)
		}
	}
	e.Faults = cfg.Faults
	return e, e.settle(append(events, e.Advance(now)...), now), nil
}

func newVariants(configs []VariantConfig, revision int) ([]*Variant, error) {
	var out []*Variant
	for _, vc := range configs {
		if slices.ContainsFunc(out, func(v *Variant) bool { return v.Name == vc.Name }) {
			return nil, fmt.Errorf("variant %q is there twice", vc.Name)
		}
		if vc.Initial < 1 && (vc.Hosting == nil || vc.Hosting.Max == 0 || vc.Hosting.Min > 0 || vc.Initial < 0) {
			return nil, &CountError{vc.Name, vc.Initial}
		}
		out = append(out, &Variant{Name: vc.Name, InstanceType: vc.InstanceType, Weight: vc.Weight,
			DesiredWeight: vc.Weight, Desired: vc.Initial, Revision: revision, stages: vc.Stages, hosting: vc.Hosting})
	}
	return out, nil
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

// Counts are how many instances of a variant are wanted, and how many are in service; 0 of one that the endpoint does not have.
func (e *Endpoint) Counts(variant string) (desired, current int) {
	if v := e.variant(variant); v != nil {
		return v.Desired, v.Current()
	}
	return 0, 0
}

// Held is how many instances of the type the endpoint holds or has asked for, as a quota counts them: during an update
// those of both configurations.
func (e *Endpoint) Held(instanceType string) int {
	n := 0
	for _, v := range e.all() {
		if v.InstanceType == instanceType {
			n += max(v.Desired, len(v.Instances))
		}
	}
	return n
}

// all is every variant that holds instances: those that serve, those of an update, those that it has replaced.
func (e *Endpoint) all() []*Variant { return slices.Concat(e.variants, e.green, e.blue) }

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
		if v.hosting != nil {
			return nil, fmt.Errorf("variant %s: %w", c.Variant, errManaged)
		}
		if *c.Desired < 1 {
			return nil, &CountError{c.Variant, *c.Desired}
		}
		asked[v.InstanceType] += *c.Desired - v.Desired
	}
	if err := e.room(asked, quota); err != nil {
		return nil, err
	}
	events := e.begin(now)
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

// room checks what is asked for, by instance type, against the quota.
func (e *Endpoint) room(asked map[string]int, quota Quota) error {
	for _, it := range slices.Sorted(maps.Keys(asked)) { // in order, so that the same refusal is always the same
		delta := asked[it]
		if delta <= 0 {
			continue
		}
		limit, used := math.MaxInt, e.Held(it)
		if quota != nil {
			limit, used = quota(it)
		}
		if e.Faults.draw(e.rng, FailQuota) {
			limit = used
		}
		if used+delta > limit {
			return &LimitError{it, limit, used, delta}
		}
	}
	return nil
}

// begin starts a change: what is now is what a failure goes back to.
func (e *Endpoint) begin(now time.Time) []Event {
	e.Modified, e.Reason, e.before = now, "", e.Variants()
	e.change++
	return e.status(nil, Updating, now)
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
	for _, v := range e.all() {
		if i := v.find(id); i != nil {
			return v, i
		}
	}
	return nil, nil
}

func (v *Variant) find(id string) *Instance {
	// Those that are asked for one after the other stand beside each other, as a rule: looking every one up from the start
	// would take the square of a large fleet.
	for n := v.found + 1; n >= v.found-1; n-- {
		if n >= 0 && n < len(v.Instances) && v.Instances[n].ID == id {
			v.found = n
			return &v.Instances[n]
		}
	}
	for n := range v.Instances {
		if v.Instances[n].ID == id {
			v.found = n
			return &v.Instances[n]
		}
	}
	return nil
}

func (e *Endpoint) remove(v *Variant, id string) {
	if v.find(id) != nil {
		v.Instances = slices.Delete(v.Instances, v.found, v.found+1)
	}
}

// Package autoscale is Application Auto Scaling, with the CloudWatch alarms that drive it, as one state machine: scalable
// targets, target tracking, step scaling, scheduled actions, cooldowns and activities.
//
// It decides when a capacity changes, to what, and what is written about it. It leaves to its caller what a metric was
// (alarm.Data), what a capacity is and how it is set (Fleet), and when time passes: nothing here waits or reads a clock.
//
//	s := autoscale.New(autoscale.Config{Data: metrics, Fleet: endpoints, Rand: rng})
//	s.Register(now, autoscale.Registration{Resource: "endpoint/tts/variant/primary", Min: &one, Max: &nine})
//	s.PutPolicy(now, autoscale.Policy{…})     // makes the pair of alarms
//	for due, ok := s.Next(); ok; due, ok = s.Next() {
//		s.Advance(due)                        // alarms, schedules, decisions
//	}
//
// What AWS does not publish is a named switch (Unknowns). The rows that the code follows, with their sources, are in
// doc/autoscaling.md; the tests cite them.
package autoscale

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"loadline/internal/alarm"
)

// Capacity of a resource as its service reports it.
type Capacity struct {
	Desired int
	Current int    // in service: what the metrics were divided over
	Busy    bool   // a change is in progress, and another one would be refused
	Reason  string // why the last change was not fulfilled, empty when it was
}

// Fleet is the services whose capacity is scaled. Its errors' texts go into activities, in the service's own words.
type Fleet interface {
	// Capacity of a resource; an error when there is no such resource.
	Capacity(resource string) (Capacity, error)
	// SetCapacity asks for a capacity; that it is accepted does not mean that it is there. Settled reports the end.
	SetCapacity(resource string, now time.Time, desired int) error
}

// Config of a Scaler.
type Config struct {
	Region, Account string // of the ARNs; "": us-east-1, 000000000000
	Unknowns        Unknowns
	Data            alarm.Data
	Fleet           Fleet
	Rand            *rand.Rand // of ids
}

// What an account may have.
const (
	MostTargets   = 500 // of one resource type
	MostPolicies  = 50  // of one target
	MostScheduled = 200 // of one target
)

// A code says in AWS's words what is wrong with a request.
const (
	Validation    = "ValidationException"
	NotFound      = "ObjectNotFoundException"
	LimitExceeded = "LimitExceededException"
)

// Error is a request that is refused. Nothing of it is done.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func refuse(code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Scaler is the machine. It is not safe for concurrent use.
type Scaler struct {
	cfg     Config
	targets []*target      // by resource
	alarms  []*alarm.Watch // by name
	arns    map[string]*policy
}

// New is a scaler without targets.
func New(cfg Config) *Scaler {
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	if cfg.Account == "" {
		cfg.Account = "000000000000"
	}
	return &Scaler{cfg: cfg, arns: map[string]*policy{}}
}

// Unknowns are the settings that it works under.
func (s *Scaler) Unknowns() Unknowns { return s.cfg.Unknowns }

// Next is when Advance has something to do next; false when there are no alarms and no schedules.
func (s *Scaler) Next() (time.Time, bool) {
	var next int64
	for _, a := range s.alarms {
		if next == 0 || a.Due() < next {
			next = a.Due()
		}
	}
	at := time.Unix(next, 0)
	for _, t := range s.targets {
		for _, a := range t.scheduled {
			if !a.next.IsZero() && (next == 0 || a.next.Before(at)) {
				next, at = 1, a.next
			}
		}
	}
	return at, next != 0
}

// Advance does what is due by now: scheduled actions first, then alarms, then what they ask of each target. What is long
// overdue is done once, with what is known now.
func (s *Scaler) Advance(now time.Time) {
	for _, t := range s.targets {
		s.runScheduled(now, t)
	}
	sec := now.Unix()
	var fired []*alarm.Watch
	for _, a := range s.alarms {
		if a.Due() <= sec && a.Evaluate(now, s.cfg.Data) {
			fired = append(fired, a)
		}
	}
	s.fire(now, fired)
}

// fire hands alarms to the policies that they name, target by target.
func (s *Scaler) fire(now time.Time, fired []*alarm.Watch) {
	if len(fired) == 0 {
		return
	}
	var calls map[*target][]call
	for _, a := range fired {
		if !a.ActionsEnabled {
			continue
		}
		for _, arn := range a.AlarmActions {
			if p := s.arns[arn]; p != nil {
				if calls == nil {
					calls = map[*target][]call{}
				}
				calls[p.target] = append(calls[p.target], call{p, a})
			}
		}
	}
	for _, t := range s.targets {
		if c := calls[t]; c != nil {
			s.decide(now, t, c)
		}
	}
}

// Settled reports that a change of a resource has ended, well or not.
func (s *Scaler) Settled(now time.Time, resource string) {
	t := s.target(resource)
	if t == nil {
		return
	}
	c, err := s.cfg.Fleet.Capacity(resource)
	if err != nil || c.Busy {
		return
	}
	s.finish(now, t, c)
	if t.queued != nil {
		q := t.queued
		t.queued = nil
		s.apply(now, t, c, *q)
		return
	}
	if c.Reason == "" { // what has just failed is not asked for again by itself
		s.enforce(now, t)
	}
}

// Resource is what a scalable target's id names: a variant of an endpoint, or an inference component.
type Resource struct{ Endpoint, Variant, Component string }

// The scalable dimensions.
const (
	InstanceCount = "sagemaker:variant:DesiredInstanceCount"
	CopyCount     = "sagemaker:inference-component:DesiredCopyCount"
)

// Dimension that is scaled.
func (r Resource) Dimension() string {
	if r.Component != "" {
		return CopyCount
	}
	return InstanceCount
}

// ID is the resource id.
func (r Resource) ID() string {
	if r.Component != "" {
		return "inference-component/" + r.Component
	}
	return "endpoint/" + r.Endpoint + "/variant/" + r.Variant
}

// unit is what is counted, in the words of activities.
func (r Resource) unit() string {
	if r.Component != "" {
		return "desired copy count"
	}
	return "desired instance count"
}

// ParseResource reads a resource id: endpoint/NAME/variant/NAME or inference-component/NAME.
func ParseResource(id string) (Resource, error) {
	parts := strings.Split(id, "/")
	var r Resource
	switch {
	case len(parts) == 4 && parts[0] == "endpoint" && parts[2] == "variant":
		r = Resource{Endpoint: parts[1], Variant: parts[3]}
	case len(parts) == 2 && parts[0] == "inference-component":
		r = Resource{Component: parts[1]}
	default:
		return r, refuse(Validation, "Unsupported resource ID %q: it must be endpoint/NAME/variant/NAME or inference-component/NAME.", id)
	}
	for _, n := range parts {
		if !named(n) {
			return Resource{}, refuse(Validation, "Unsupported resource ID %q: %q is not a name: letters, digits and single hyphens between them, at most 63.", id, n)
		}
	}
	return r, nil
}

func named(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.IndexFunc(s, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) < 0
}

// uuid is an id in the form that AWS's have.
func (s *Scaler) uuid() string {
	a, b := s.cfg.Rand.Uint64(), s.cfg.Rand.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}

func (s *Scaler) arn(service, rest string) string {
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, s.cfg.Region, s.cfg.Account, rest)
}

func (s *Scaler) target(resource string) *target {
	i, found := slices.BinarySearchFunc(s.targets, resource, func(t *target, id string) int { return strings.Compare(t.Resource, id) })
	if !found {
		return nil
	}
	return s.targets[i]
}

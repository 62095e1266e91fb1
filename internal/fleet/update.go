package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Update is a new configuration for an endpoint.
type Update struct {
	Variants []VariantConfig
	// RetainCounts and RetainWeights keep what a variant of the same name has now. Without them it has what the new
	// configuration starts with, however far it had been scaled out.
	RetainCounts, RetainWeights bool
	Scalable                    func(variant string) bool // whether it is registered as a scalable target; nil: none is
	Quota                       Quota
}

// A PinnedError names variants that an update would remove, or give another instance type, while they are registered as
// scalable targets.
type PinnedError struct{ Variants []string }

func (e *PinnedError) Error() string {
	return fmt.Sprintf("the variants %s must be deregistered as scalable targets before they can be removed or have their instance type updated", strings.Join(e.Variants, ", "))
}

// Update brings up instances of a new configuration beside those that serve, and lets them take over together once all
// are ready; then the old ones drain. If one of the new ones fails, all of them go and nothing has changed. It refuses
// with ErrInProgress, a *PinnedError, a *CountError or a *LimitError.
func (e *Endpoint) Update(now time.Time, u Update) ([]Event, error) {
	if e.Status != InService {
		return nil, fmt.Errorf("endpoint %s is %s: %w", e.Name, e.Status, ErrInProgress)
	}
	if len(u.Variants) == 0 {
		return nil, errors.New("an endpoint needs at least one variant")
	}
	if len(e.components) > 0 {
		return nil, e.hasComponents()
	}
	green, err := newVariants(u.Variants, e.Revision+1)
	if err != nil {
		return nil, err
	}
	var pinned []string
	for _, old := range e.variants {
		i := slices.IndexFunc(green, func(v *Variant) bool { return v.Name == old.Name })
		if u.Scalable != nil && u.Scalable(old.Name) && (i < 0 || green[i].InstanceType != old.InstanceType) {
			pinned = append(pinned, old.Name)
		}
		if i >= 0 && u.RetainCounts {
			green[i].Desired = old.Desired
		}
		if i >= 0 && u.RetainWeights {
			green[i].Weight, green[i].DesiredWeight = old.Weight, old.DesiredWeight
		}
	}
	if pinned != nil {
		return nil, &PinnedError{pinned}
	}
	asked := map[string]int{}
	for _, v := range green {
		asked[v.InstanceType] += v.Desired
	}
	if err := e.room(asked, u.Quota); err != nil {
		return nil, err
	}
	events := e.begin(now)
	e.green = green
	for _, v := range green {
		for range v.Desired {
			events = e.add(events, v, v.stages, now, e.change, 0)
		}
	}
	return append(events, e.Advance(now)...), nil
}

// takeOver moves the traffic to the instances of an update once all of them wait for it.
func (e *Endpoint) takeOver(events []Event, at time.Time) []Event {
	for _, v := range e.green {
		if len(v.Instances) < v.Desired || slices.ContainsFunc(v.Instances, func(i Instance) bool { return i.Phase != Waiting }) {
			return events
		}
	}
	for _, v := range e.green {
		for n := range v.Instances {
			i := &v.Instances[n]
			i.enter(Serving, at, time.Time{})
			events = append(events, event(at, Route, v, i, ""))
		}
	}
	e.blue, e.variants, e.green = e.variants, e.green, nil
	e.Revision = e.variants[0].Revision
	for _, v := range e.blue {
		v.Desired = 0
		events = e.clear(events, v, at)
	}
	return events
}

// clear drains what serves of a variant and drops what does not.
func (e *Endpoint) clear(events []Event, v *Variant, at time.Time) []Event {
	for _, was := range slices.Clone(v.Instances) {
		switch i := v.find(was.ID); {
		case v.hosting == nil && (i.Phase == Serving || i.Phase == Draining):
			events = drain(events, v, i, at)
		default:
			events = e.drop(events, v, i.ID, at, "it is not wanted any more")
		}
	}
	return events
}

func (e *Endpoint) hasComponents() error {
	return fmt.Errorf("endpoint %s has inference components, %s among them: delete them first", e.Name, e.components[0].Name)
}

// Delete drains every instance; when the last is gone the endpoint is Deleted. It refuses with ErrInProgress while
// anything else is under way.
func (e *Endpoint) Delete(now time.Time) ([]Event, error) {
	if e.Status != InService && e.Status != Failed {
		return nil, fmt.Errorf("endpoint %s is %s: %w", e.Name, e.Status, ErrInProgress)
	}
	if len(e.components) > 0 {
		return nil, e.hasComponents()
	}
	events := e.status(nil, Deleting, now)
	for _, v := range e.all() {
		v.Desired = 0
		events = e.clear(events, v, now)
	}
	return e.settle(events, now), nil
}

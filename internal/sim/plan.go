package sim

import (
	"errors"

	"loadline/internal/capacity"
)

// Planned is the scaling of a plan's policies and alarms, for a target between min and max instances. An alarm without a
// policy tells people and is left out.
func Planned(policies []capacity.Policy, alarms []capacity.Alarm, min, max int) (Scaling, error) {
	return Scaling{}, errNotYet
}

// Requests plays every request by itself.
func Requests(c Config) (Result, error) { return Result{}, errNotYet }

// Fluid plays the mean of the requests.
func Fluid(c Config) (Result, error) { return Result{}, errNotYet }

// Scenario is a named simulation with what is known to happen in it.
type Scenario struct {
	Name  string
	About string // one line
	// Config makes the simulation; the seed and the unknowns may be changed.
	Config func() (Config, error)
}

// Scenarios are the named scenarios, in the order in which they are told.
func Scenarios() []Scenario { return nil }

var errNotYet = errors.New("the simulator does not play this yet")

package sim

// Scenario is a named simulation, and what is known to happen in it.
type Scenario struct {
	Name   string
	About  string // what happens and why, in a sentence or two
	Config func() (Config, error)
	Expect []Expect
}

// Expect is a figure of a scenario's result and the bounds that it keeps to.
type Expect struct {
	What      string
	Low, High float64
	Of        func(*Result) float64
}

// Holds says whether a figure keeps to its bounds.
func (e *Expect) Holds(r *Result) bool {
	v := e.Of(r)
	return v >= e.Low && v <= e.High
}

// Scenarios are the named scenarios, in the order in which they are told.
func Scenarios() []Scenario { return nil }

package main

import (
	"context"
	"errors"

	"loadline/internal/exit"
	"loadline/internal/plan"
	"loadline/internal/sim"
)

// interruptible is the simulator that plan chooses policies by: one play takes a moment, and none begins once ctx is done.
func interruptible(ctx context.Context) plan.Simulator {
	return func(c sim.Config) (sim.Result, error) {
		if ctx.Err() != nil {
			return sim.Result{}, exit.CannotTell(errors.New("interrupted"))
		}
		return sim.Fluid(c)
	}
}

package main

import (
	"fmt"

	"loadline/infra/stack"
	"loadline/internal/artifact"
	"loadline/internal/chart"
)

// dollars is the hourly cost of so many instances; an unknown price is said to be one.
func dollars(p *artifact.Price, instances int) string {
	if p == nil {
		return "unknown"
	}
	return chart.Money(p.PerHour*float64(instances), 2)
}

// bounds is between how many instances a model runs once it is deployed.
func bounds(m stack.Model) (low, high int) {
	low = max(m.MinInstances, 1)
	if m.Gate.Open {
		return low, m.MaxInstances
	}
	return low, low
}

// cost is what a fleet costs an hour at its smallest and at its largest.
func cost(p *artifact.Price, low, high int) string {
	switch {
	case p == nil:
		return "at an unknown price (price_per_hour in models.yaml)"
	case low == high:
		return dollars(p, low) + " an hour"
	}
	return dollars(p, low) + " to " + dollars(p, high) + " an hour"
}

// fleet is a number of instances for people.
func fleet(low, high int) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

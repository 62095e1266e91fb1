package fleet

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Fault is a way in which a change fails.
type Fault string

// The faults.
const (
	FailPlacement Fault = "placement" // no machine is found for an instance: it is given up after Stages.Placement
	FailQuota     Fault = "quota"     // the account's limit refuses the change
	FailHealth    Fault = "health"    // an instance's container never becomes healthy
	FailStuck     Fault = "stuck"     // an instance never comes, and nothing says so
)

// Faults are how often each fault happens: the share of the instances, of the changes for quota.
type Faults map[Fault]float64

const noMachine = "Unable to provision requested ML compute capacity: InsufficientInstanceCapacity"

// ParseFault reads KIND or KIND:RATE, the rate above 0 and at most 1.
func ParseFault(s string) (Fault, float64, error) {
	kind, rate, rated := strings.Cut(s, ":")
	f, r := Fault(kind), 1.0
	switch f {
	case FailPlacement, FailQuota, FailHealth, FailStuck:
	default:
		return "", 0, fmt.Errorf("there is no fault %q: there are %s, %s, %s and %s", kind, FailPlacement, FailQuota, FailHealth, FailStuck)
	}
	if rated {
		var err error
		if r, err = strconv.ParseFloat(rate, 64); err != nil || !(r > 0 && r <= 1) {
			return "", 0, fmt.Errorf("the rate %q of fault %s is not above 0 and at most 1", rate, kind)
		}
	}
	return f, r, nil
}

// draw says whether a fault happens. Where it cannot, nothing is drawn.
func (f Faults) draw(rng *rand.Rand, kind Fault) bool {
	rate := f[kind]
	return rate > 0 && rng.Float64() < rate
}

// instance draws the fault of a new instance, "" for none.
func (f Faults) instance(rng *rand.Rand) Fault {
	for _, kind := range []Fault{FailPlacement, FailStuck, FailHealth} {
		if f.draw(rng, kind) {
			return kind
		}
	}
	return ""
}

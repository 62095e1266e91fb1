package access

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// Fault is a way in which a call fails that nothing is wrong with.
type Fault string

// The faults of calls.
const (
	FailThrottle Fault = "throttle" // Rate exceeded
	FailTimeout  Fault = "timeout"  // it is not answered
	Fail5XX      Fault = "5xx"      // the service is broken
)

// Faults are how often each fault happens: the share of the calls, above 0 and at most 1.
type Faults map[Fault]float64

// ParseFault reads KIND or KIND:RATE; ours is false where there is no such kind.
func ParseFault(s string) (f Fault, rate float64, ours bool, err error) {
	kind, digits, rated := strings.Cut(s, ":")
	f, rate = Fault(kind), 1
	if f != FailThrottle && f != FailTimeout && f != Fail5XX {
		return "", 0, false, nil
	}
	if rated {
		if rate, err = strconv.ParseFloat(digits, 64); err != nil || !(rate > 0 && rate <= 1) {
			return "", 0, true, fmt.Errorf("the rate %q of fault %s is not above 0 and at most 1", digits, kind)
		}
	}
	return f, rate, true, nil
}

// longestHold is how long a call that is not answered is held, where its caller waits.
const longestHold = 2 * time.Minute

// breaker draws the faults of calls. It is safe for concurrent use.
type breaker struct {
	mu  sync.Mutex
	rng *rand.Rand
}

// spoilt draws the fault of a call, nil for none. A call that times out is held here.
func (a *Access) spoilt(r *http.Request, action string) error {
	for _, kind := range []Fault{FailTimeout, FailThrottle, Fail5XX} {
		rate := a.cfg.Faults[kind]
		if rate == 0 {
			continue
		}
		a.breaker.mu.Lock()
		hit := a.breaker.rng.Float64() < rate
		a.breaker.mu.Unlock()
		switch {
		case !hit:
		case kind == FailTimeout:
			select {
			case <-r.Context().Done():
			case <-a.cfg.Ended():
			case <-time.After(longestHold):
			}
			return wire.Refuse(wire.Unavailable, "The request was not answered in time.")
		case kind == FailThrottle && action == readsAlarms:
			// The service reads the alarms for its caller, and says of their throttling only this.
			return wire.Refuse(wire.FailedAccess, "Unable to retrieve alarms for scaling policy due to reason: Rate exceeded (Service: AmazonCloudWatch; Status Code: 400; Error Code: Throttling; Request ID: %s)", service.RequestID())
		case kind == FailThrottle:
			return wire.Refuse(wire.Throttling, "Rate exceeded")
		default:
			return wire.Refuse(wire.InternalFailure, "The request processing has failed because of an unknown error, exception or failure.")
		}
	}
	return nil
}

// readsAlarms is what reads alarms with its caller's permissions.
const readsAlarms = "application-autoscaling:DescribeScalingPolicies"

package local

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

// CallFault is a way in which a call fails that nothing is wrong with.
type CallFault string

// The faults of calls.
const (
	FailThrottle CallFault = "throttle" // Rate exceeded
	FailTimeout  CallFault = "timeout"  // it is not answered
	Fail5XX      CallFault = "5xx"      // the service is broken
)

// CallFaults are how often each fault happens: the share of the calls, above 0 and at most 1.
type CallFaults map[CallFault]float64

// ParseCallFault reads KIND or KIND:RATE; ours is false where there is no such kind.
func ParseCallFault(s string) (f CallFault, rate float64, ours bool, err error) {
	kind, digits, rated := strings.Cut(s, ":")
	f, rate = CallFault(kind), 1
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
func (l *Local) spoilt(r *http.Request, action string) error {
	for _, kind := range []CallFault{FailTimeout, FailThrottle, Fail5XX} {
		rate := l.cfg.CallFaults[kind]
		if rate == 0 {
			continue
		}
		l.breaker.mu.Lock()
		hit := l.breaker.rng.Float64() < rate
		l.breaker.mu.Unlock()
		switch {
		case !hit:
		case kind == FailTimeout:
			select {
			case <-r.Context().Done():
			case <-l.run.Done():
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

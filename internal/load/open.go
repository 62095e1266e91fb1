package load

import (
	"context"
	"time"

	"loadline/internal/sample"
)

// Sent is what an open loop did.
type Sent struct {
	Client  sample.Client
	Planned int             // arrivals of the schedule that came due
	Started int             // requests sent
	Dropped int             // arrivals not sent because MaxStreams were in flight: any makes the run invalid
	Peak    int             // most in flight at once
	Starts  []time.Duration // when the requests were really started, from the first instant of the schedule
	Invalid string          // why the run says nothing of the server; empty: it is valid
}

// Open sends one request at each time of the schedule, however the ones before fare, hands every completed one to observe
// (one call at a time) and returns when all have ended. Times are offsets from the call. Never is an arrival sent later
// because the client is busy: at MaxStreams in flight it is dropped and the run is invalid.
func Open(ctx context.Context, cfg Config, rung int, schedule []time.Duration, observe func(sample.Request)) (Sent, error) {
	return Sent{}, nil
}

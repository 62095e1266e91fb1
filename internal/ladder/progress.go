package ladder

import "time"

// Progress is a rung while it is measured, closed loop or open: what can be said of it so far, for whoever watches. It
// decides nothing.
type Progress struct {
	Title   string  // what is measured: "kokoro-82m, p95 of first audio within 300 ms"
	Rung    string  // "rung 9", "rate 2 of 6"
	Purpose Purpose // "" where there is none
	Load    string  // what is asked for: "36 in flight"
	Held    float64 // requests in flight on average, by the times of those that ended; 0: not known yet

	Percentile float64
	SLO, At    float64 // seconds: the objective, and the percentile so far; +Inf where it falls among failures
	Done, Late int

	Proof string // the certificate so far, or what stands in place of one
	Edge  string // what has met and missed the objective so far

	// The client: how late it sent (99th percentile, seconds) and what it waited for connections, against what is allowed.
	Sent, SentLimit float64
	Conn, ConnLimit float64

	Elapsed, Hold, Left time.Duration // of the rung; what it is held, 0: until it is decided; of the whole, 0: not known
	Spent, Total, Limit float64       // money: so far, in all, where it stops; 0: not known, or none
}

// Met says whether the percentile so far is within the objective; false, too, while nothing has ended.
func (p Progress) Met() bool { return p.Done > 0 && p.At <= p.SLO }

// Fit says whether the client has kept up so far.
func (p Progress) Fit() bool { return p.Sent <= p.SentLimit && p.Conn <= p.ConnLimit }

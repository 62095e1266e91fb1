// Package ladder decides which concurrency to hold next, when a rung is decided, and when Q_max is certified. It never
// sends a request: whoever drives an endpoint asks a Searcher what to hold, hands it every completed request, and closes
// the rung with what it knows of its own client and of the endpoint.
//
//	s, err := ladder.NewSearch(ladder.Config{SLO: 3 * time.Second})
//	for {
//		p, more := s.Next()
//		if !more {
//			break
//		}
//		// hold p.N requests in flight; for each that completes:
//		//	if s.Add(r) { stop }
//		// and stop at p.MaxHold whatever Add says
//		rung := s.Close(ladder.Evidence{Client: client, Counts: counts})
//	}
//	s.Result() // Q_max, its certificate and bracket
//
// Every request that did not end well is late. Statistics come from package stat; files, clocks and endpoints are others'.
package ladder

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"loadline/internal/sample"
)

// Config is what a search is asked to find. Zero fields take the value of Defaults.
type Config struct {
	SLO         time.Duration // the objective: the percentile of the mark stays at or below it
	Percentile  float64       // percent of requests that must meet the SLO, 50 to 99.9; default 95
	Mark        sample.Mark   // the moment the SLO is set on; default first audio
	Confidence  float64       // of the certificate, 0.8 to 0.999; default 0.95
	Min, Max    int           // concurrency searched; default 1 to 1,024. Rung 1 is always measured
	Resolution  float64       // stop narrowing at this share of Q_max, or at 1; default 0.05
	CertifyHold time.Duration // a passing certify rung is held at least this long, so that whole server periods fit in it
	Run         int           // pass of the ladder, from 0, stamped on each rung
}

// Defaults are the values of a Config's zero fields; the SLO has none.
var Defaults = Config{Percentile: 95, Mark: sample.OnFirstAudio, Confidence: 0.95, Min: 1, Max: 1024, Resolution: 0.05}

func (c Config) defaults() Config {
	if c.Percentile == 0 {
		c.Percentile = Defaults.Percentile
	}
	if c.Mark == "" {
		c.Mark = Defaults.Mark
	}
	if c.Confidence == 0 {
		c.Confidence = Defaults.Confidence
	}
	if c.Min == 0 {
		c.Min = Defaults.Min
	}
	if c.Max == 0 {
		c.Max = Defaults.Max
	}
	if c.Resolution == 0 {
		c.Resolution = Defaults.Resolution
	}
	return c
}

// filled is c with its defaults, and every broken rule.
func (c Config) filled() (Config, error) {
	c = c.defaults()
	var broken []string
	rule := func(ok bool, format string, a ...any) {
		if !ok {
			broken = append(broken, fmt.Sprintf(format, a...))
		}
	}
	rule(c.SLO > 0, "the SLO is %v: it must be above 0", c.SLO)
	rule(c.Percentile >= 50 && c.Percentile <= 99.9, "percentile %g: it must lie in 50 to 99.9", c.Percentile)
	rule(c.Confidence >= 0.8 && c.Confidence <= 0.999, "confidence %g: it must lie in 0.8 to 0.999", c.Confidence)
	rule(c.Min >= 1 && c.Max >= c.Min, "concurrency %d to %d: it must be 1 or more and ascending", c.Min, c.Max)
	rule(c.Resolution > 0 && c.Resolution <= 0.5, "resolution %g: it must lie in 0 to 0.5", c.Resolution)
	rule(c.CertifyHold >= 0, "certify hold %v: it must not be negative", c.CertifyHold)
	switch c.Mark {
	case sample.OnFirstAudio, sample.OnFirstAudible, sample.OnTotal:
	default:
		rule(false, "mark %q: it must be first-audio, first-audible or total", c.Mark)
	}
	if broken != nil {
		return c, errors.New(strings.Join(broken, "; "))
	}
	return c, nil
}

// Searcher decides the rungs of one pass: Search adapts, Schedule follows a list. It is used by one goroutine at a time.
type Searcher interface {
	// Next is what to hold next; false: finished. It depends on closed rungs alone, so asking twice gives the same probe.
	Next() (Probe, bool)
	// Add takes one completed request of the current probe, one that started under it, in completion order, warm-up
	// included. Worker names the stream that sent it, 0 to N−1, or is −1 where there are none: streams are followed from
	// request to request. True: the probe is decided and may be closed; requests added after that are ignored.
	Add(r sample.Request) (done bool)
	// Close ends the current probe and judges it.
	Close(e Evidence) Rung
	// Replay takes a rung closed by an earlier, interrupted run in place of Next, Add and Close. The rung must be the
	// one that Next asks for.
	Replay(r Rung) error
	// Result is what is known so far; final once Next says false.
	Result() Result
}

// Probe is one concurrency to hold.
type Probe struct {
	Index      int
	N          int
	Purpose    Purpose
	Idle       time.Duration // hold nothing for this long first
	Hold       time.Duration // fixed schedule: hold exactly this long; 0: until Add says done
	Window     time.Duration // fixed schedule: the trailing part that is measured
	MaxSamples int           // at most this many requests are judged; for cost and progress
	MaxHold    time.Duration // close the probe after this long even when Add never said done
}

// Evidence is what is known of a rung besides its requests.
type Evidence struct {
	Client sample.Client
	Counts []int        // instance counts read before, during and after; empty: not read
	Queue  []float64    // the server's own queue gauge, evenly sampled over the measured part; empty: unknown
	Began  sample.Nanos // when the probe's load began, on the run's clock (Schedule's windows start from it)
	Ended  sample.Nanos // when the client stopped starting requests
}

// Outcome of a whole search.
type Outcome string

// The outcomes. A fixed schedule that found a highest rung within the SLO says whether a valid rung above it missed.
const (
	Certified   Outcome = "certified"
	Bracketed   Outcome = "published schedule: bracketed"
	Unbracketed Outcome = "published schedule: not bracketed"
	None        Outcome = "none"        // no concurrency meets the objective
	CannotTell  Outcome = "cannot tell" // the samples or the client could not decide
)

// Result of a search, in the terms of the qmax artifact.
type Result struct {
	QMax        *int // nil: no answer
	Certificate *Certificate
	Bracket     Bracket
	Cliff       bool // from pass to fail the latency jumps instead of growing
	Verdict     Outcome
	Reason      string // why there is no answer
	PerRun      []*int // filled by Combine; nil for a run without an answer

	Rungs         []Rung
	Mu            Interval // most completions per second, with its interval
	SMean, SP95   *float64 // seconds, whole reply at N = 1
	FirstAudioAt1 *float64 // ms, the objective's percentile of the mark at N = 1
	ProbePair     []int    // [p, p/2], both measured; nil when they were not reached
	CharsPerS     float64  // at Q_max
	Warnings      []string
}

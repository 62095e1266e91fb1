package artifact

import (
	"loadline/internal/ladder"
	"loadline/internal/openloop"
)

// SchemaRates is that of the record of an open-loop ladder.
const SchemaRates = "loadline/rates/1"

const kindRates = "rates"

// Rates is the record of one open-loop ladder: rates of Poisson arrivals at fractions of μ, each drawn ahead from the seed.
type Rates struct {
	Header

	SLOMS      float64 `json:"slo_ms"`
	Percentile float64 `json:"percentile"`
	SLOOn      string  `json:"slo_on"`

	Mu       ladder.Interval `json:"mu_rps"` // that shares are of
	QMaxFile string          `json:"qmax_file"`
	QMaxRun  string          `json:"qmax_run_id"`
	PlanFile string          `json:"plan_file,omitempty"`
	PlanRun  string          `json:"plan_run_id,omitempty"`

	Seed   int64           `json:"seed"` // of the arrivals
	Rungs  []openloop.Rung `json:"rungs"`
	Corpus Corpus          `json:"corpus"`

	Frozen         bool     `json:"frozen"`
	InstanceCounts []int    `json:"instance_counts"`
	Price          *Price   `json:"price"`
	RequestLog     string   `json:"request_log,omitempty"`
	Complete       bool     `json:"complete"`
	Warnings       []string `json:"warnings,omitempty"`
}

// Name is the file name of the open-loop ladder: rates-<model>-<transport>-<slug>.json.
func (r *Rates) Name() string {
	return file(kindRates, r.Target.Model, r.Target.Transport, Slug(r.Target, r.Fingerprint))
}

// ReadRates reads the record of an open-loop ladder.
func ReadRates(data []byte) (*Rates, error) {
	doc, err := open(data, kindRates)
	if err != nil {
		return nil, err
	}
	return parse(data, doc, (*Rates).Check)
}

// Check finds what cannot be true of the record; nil when it holds together.
func (r *Rates) Check() error {
	var p problems
	p.header(&r.Header)
	p.when(!(r.SLOMS > 0), "slo_ms is %g: it must be above 0", r.SLOMS)
	p.when(!(r.Percentile > 0 && r.Percentile < 100), "percentile is %g: it must lie between 0 and 100", r.Percentile)
	p.when(!(r.Mu.Value > 0), "mu_rps is %g: it must be above 0", r.Mu.Value)
	for i, g := range r.Rungs {
		p.when(!(g.Rate > 0), "rungs[%d]: rate_rps is %g", i, g.Rate)
		p.when(g.Samples < 0 || g.OK > g.Samples || g.Late > g.Samples, "rungs[%d]: %d ok and %d late of %d", i, g.OK, g.Late, g.Samples)
		p.when(g.Mean < 0 || g.EndedNS < g.StartedNS, "rungs[%d]: ends before it starts, or holds less than nothing", i)
	}
	return p.err()
}

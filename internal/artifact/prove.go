package artifact

import (
	"loadline/internal/capacity"
	"loadline/internal/openloop"
	"loadline/internal/proof"
)

// SchemaProof is that of the record of a proof.
const SchemaProof = "loadline/prove/1"

const kindProof = "prove"

// Proof is the record of one proof: each promise of a deployed plan, held against what load has shown.
type Proof struct {
	Header

	PlanFile   string  `json:"plan_file"`
	PlanRun    string  `json:"plan_run_id"`
	Rule       string  `json:"rule"` // of the plan
	SLOMS      float64 `json:"slo_ms"`
	Percentile float64 `json:"percentile"`
	SLOOn      string  `json:"slo_on"`

	Rate       float64 `json:"rate_rps"` // that the plan gives one instance
	SurgeRatio float64 `json:"surge_ratio"`
	SurgeFrom  int     `json:"surge_instances"` // that it begins with
	T          float64 `json:"t_s"`             // how long the surge lasts
	QueueBound int     `json:"queue_bound"`

	Verdict capacity.Verdict `json:"verdict"` // ok, stop, or not_checked where a check could not be made
	Checks  []proof.Check    `json:"checks"`
	Rung    *openloop.Rung   `json:"rung"` // at the rate; null: not measured

	Seed   int64  `json:"seed"`
	Corpus Corpus `json:"corpus"`

	Frozen         bool     `json:"frozen"`
	InstanceCounts []int    `json:"instance_counts"`
	Price          *Price   `json:"price"`
	RequestLog     string   `json:"request_log,omitempty"`
	Complete       bool     `json:"complete"`
	Warnings       []string `json:"warnings,omitempty"`
}

// Name is the file name of the proof: prove-<model>-<slug>.json.
func (p *Proof) Name() string { return file(kindProof, p.Target.Model, Slug(p.Target, p.Fingerprint)) }

// ReadProof reads the record of a proof.
func ReadProof(data []byte) (*Proof, error) {
	doc, err := open(data, kindProof)
	if err != nil {
		return nil, err
	}
	return parse(data, doc, (*Proof).Check)
}

// Check finds what cannot be true of the record; nil when it holds together.
func (p *Proof) Check() error {
	var bad problems
	bad.header(&p.Header)
	bad.when(!(p.SLOMS > 0), "slo_ms is %g: it must be above 0", p.SLOMS)
	bad.when(!(p.Percentile > 0 && p.Percentile < 100), "percentile is %g: it must lie between 0 and 100", p.Percentile)
	for i, c := range p.Checks {
		bad.when(c.Name == "", "checks[%d] has no name", i)
		bad.when(c.OK < 0 || c.OK > c.Samples || c.Late > c.OK, "checks[%d]: %d ok, %d of them late, of %d", i, c.OK, c.Late, c.Samples)
	}
	if v := proof.Together(p.Checks); p.Complete && v != p.Verdict {
		bad.add("verdict is %q, and the checks come to %q", p.Verdict, v)
	}
	return bad.err()
}

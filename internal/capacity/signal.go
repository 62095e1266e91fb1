package capacity

import (
	"fmt"
	"math"
)

// What the flow rule scales on. Concurrency beside a rate is a second, faster policy that scales out only.
const (
	SignalRate        = "rate"
	SignalConcurrency = "concurrency"
)

const (
	rateLeast  = 10   // invocations a minute and instance: fewer are too few to count in a minute
	quietShare = 0.05 // of 10 s periods at λ*, in which some instance may hold more than the threshold
)

// Invocations is what InvocationsPerInstance reads of an instance that holds some requests, by Little's law: concurrency
// over the mean response at that concurrency, never over the response of a request alone.
type Invocations struct {
	At          string  `json:"at"`
	Concurrency float64 `json:"concurrency"`
	Response    float64 `json:"mean_response_s"` // at that concurrency
	PerMinute   float64 `json:"per_minute"`
	PerSecond   float64 `json:"per_second"`
}

// InvocationsAt is that reading: 4 held at 2 s each are 120 a minute.
func InvocationsAt(at string, concurrency, response float64) Invocations {
	return Invocations{At: at, Concurrency: concurrency, Response: response,
		PerMinute: 60 * concurrency / response, PerSecond: concurrency / response}
}

// blind says whether a count of invocations in a minute cannot show the load of an instance at the rate lambda: because
// there are too few, or because one takes longer than the minute that counts its start.
func (f flow) blind(lambda, response float64) string {
	switch {
	case 60*lambda < rateLeast:
		return fmt.Sprintf("%.3g invocations a minute and instance are too few to count", 60*lambda)
	case response > SlowPeriod:
		return fmt.Sprintf("a request is counted once, in the minute of its start, and held for %.0f s", response)
	}
	return ""
}

// signals decides what the fleet scales on, and at which readings.
func (f flow) signals(r *Rule, blind string) error {
	steady, err := f.chain.Steady(*r.LambdaStar, f.depth)
	if err != nil {
		return fmt.Errorf("what is held at λ*: %w", err)
	}
	held := steady.Mean()
	r.Held = &held
	at := InvocationsAt("λ*", held, held/(*r.LambdaStar*(1-steady.Refused())))
	r.Invocations = []Invocations{at, InvocationsAt("Q_max", float64(f.m.QMax), f.m.QSMean)}
	r.Signal = SignalRate
	if blind == "" {
		blind = f.blind(*r.LambdaStar, at.Response)
	}
	if blind != "" {
		r.Signal, r.SignalWhy = SignalConcurrency, blind
		target := rounded(held)
		if o := f.m.measured(*r.LambdaStar); o != nil && o.Mean > 0 {
			target, r.ThresholdMeasured = rounded(o.Mean), true
			r.ThresholdSource = fmt.Sprintf("held on average at %.2f a second (%s)", o.Rate, o.By)
		}
		r.ScalingTarget = &target
		return nil
	}
	target := rounded(60 * *r.LambdaStar)
	r.ScalingTarget = &target
	if r.Threshold, err = f.threshold(*r.LambdaStar, r.Peak); err != nil || r.Threshold == nil {
		return err
	}
	return f.corrected(r)
}

// Open is one rate of Poisson arrivals at one instance: what it held, as CloudWatch reads it where By says so, else as the
// client does.
type Open struct {
	Rate   float64 `json:"rate_rps"`
	Mean   float64 `json:"in_flight_mean"`
	TenMax float64 `json:"in_flight_max_10s"` // mean of the maxima of 10 s periods
	By     string  `json:"by"`                // CloudWatch or the client
}

// nearby is how far a measured rate may lie from λ* to stand for it.
const nearby = 0.1

// measured is the open-loop rate nearest to lambda; nil where none is near.
func (m Measured) measured(lambda float64) *Open {
	var best *Open
	for i, o := range m.Open {
		if d := math.Abs(o.Rate - lambda); d <= nearby*lambda && (best == nil || d < math.Abs(best.Rate-lambda)) {
			best = &m.Open[i]
		}
	}
	return best
}

// corrected moves the threshold by what one instance was seen to hold at λ*, over what the chain says of it: the chain
// alone says how a fleet's busiest instance stands above one.
func (f flow) corrected(r *Rule) error {
	o := f.m.measured(*r.LambdaStar)
	if o == nil || !(o.TenMax > 0) {
		return nil
	}
	steady, err := f.chain.Steady(o.Rate, f.depth)
	if err != nil {
		return fmt.Errorf("concurrency at a measured rate: %w", err)
	}
	predicted := 0.0 // the mean of a maximum is the sum of the chances to exceed 0, 1, 2, …
	for n := range f.depth {
		p, err := f.chain.Passage(o.Rate, n+1, FastPeriod, steady.P)
		if err != nil {
			return fmt.Errorf("concurrency at a measured rate: %w", err)
		}
		if predicted += p; p < 1e-4 {
			break
		}
	}
	v := math.Ceil(*r.Threshold * o.TenMax / predicted)
	r.ThresholdMeasured = true
	r.ThresholdSource = fmt.Sprintf("%.0f by the chain, times %.2f held at most in 10 s at %.2f a second (%s) over the chain's %.2f",
		*r.Threshold, o.TenMax, o.Rate, o.By, predicted)
	r.Threshold = &v
	if v >= float64(f.depth) {
		r.Threshold = nil
	}
	return nil
}

// rounded is x as it is deployed, down to four digits: what is deployed and what is planned are compared as decimals.
func rounded(x float64) float64 {
	scale := math.Pow10(3 - int(math.Floor(math.Log10(x))))
	return math.Floor(x*scale*(1+1e-9)) / scale
}

// threshold is the least concurrency that the busiest of n instances, each at lambda, exceeds in few 10 s periods: what
// the Maximum of the metric reads at λ*, from the chain. Nil where that is the bound itself: there is no room to see a
// surge in.
func (f flow) threshold(lambda float64, n int) (*float64, error) {
	steady, err := f.chain.Steady(lambda, f.depth)
	if err != nil {
		return nil, fmt.Errorf("concurrency at λ*: %w", err)
	}
	lo, hi := 0, f.depth // exceeds at lo, does not at hi
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		p, err := f.chain.Passage(lambda, mid+1, FastPeriod, steady.P)
		if err != nil {
			return nil, fmt.Errorf("concurrency at λ*: %w", err)
		}
		if -math.Expm1(float64(max(1, n))*math.Log1p(-math.Min(p, 1-1e-12))) > quietShare {
			lo = mid
		} else {
			hi = mid
		}
	}
	if hi >= f.depth {
		return nil, nil
	}
	v := float64(hi)
	return &v, nil
}

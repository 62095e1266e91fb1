package capacity

import "math"

// load is what a fleet is asked for: requests a second, or requests in flight; streams, where stated, win.
type load struct{ rps, streams float64 }

func (s Scenario) peak() load   { return load{s.PeakRPS, s.PeakStreams} }
func (s Scenario) trough() load { return load{s.TroughRPS, s.TroughStreams} }

func (l load) stated() bool { return l.rps > 0 || l.streams > 0 }

// perSecond is the arrival rate: streams in flight over the time that one takes when nothing waits (Little 1961).
func (l load) perSecond(sMean float64) float64 {
	if l.streams > 0 {
		return l.streams / sMean
	}
	return l.rps
}

// slotsFleet is the published fleet: as many instances as hold the load at c requests each.
func (l load) slotsFleet(sMean, c float64) int {
	switch {
	case l.streams > 0:
		return max(1, int(math.Ceil(l.streams/c)))
	case l.rps > 0:
		return max(1, int(math.Ceil(l.rps*sMean/c)))
	}
	return 0
}

// money fills in what the fleet costs an hour, and a million characters at the stated peak; unknown stays null. c is
// the concurrency that one instance is taken to hold.
func (r *Rule) money(m Measured, peak, trough load, c float64) {
	if m.PricePerHour == nil {
		return
	}
	cost := func(n int) *float64 { v := float64(n) * *m.PricePerHour; return &v }
	r.Cost.Min, r.Cost.Peak = cost(r.Min), cost(r.Peak)
	if trough.stated() && r.Trough != nil {
		r.Cost.Trough = cost(max(r.Min, *r.Trough))
	}
	rps := peak.rps
	if peak.streams > 0 {
		rps = float64(r.Peak) * c / m.SMean
	}
	if m.CharsPerRequest != nil && *m.CharsPerRequest > 0 && rps > 0 {
		v := *r.Cost.Peak / (rps * *m.CharsPerRequest * 3600) * 1e6
		r.CostPerMChars = &v
	}
}

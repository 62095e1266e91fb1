package plan

import (
	"cmp"

	"loadline/internal/capacity"
	"loadline/internal/sample"
)

// spoken adds what the ladder's request log says: how times follow the length of a text, and how long replies take. Only
// requests that waited for nothing tell: those of N = 1.
func spoken(m *capacity.Measured, in Input) {
	if in.Requests == nil {
		m.LengthWhy = cmp.Or(in.RequestsBy, "the ladder's request log was not read")
		return
	}
	rungs := map[int]bool{}
	for i, r := range in.QMax.Rungs {
		if r.Valid && r.N == 1 {
			rungs[i] = true
		}
	}
	var rs []capacity.Spoken
	var services []float64
	for _, r := range in.Requests {
		if r.Outcome != sample.OK || !rungs[r.Rung] {
			continue
		}
		s := capacity.Spoken{Chars: float64(r.Chars), Service: r.Service(), First: r.Latency(sample.Mark(in.QMax.SLOOn), sample.FromStarted)}
		services = append(services, s.Service)
		if r.Chars > 0 {
			rs = append(rs, s)
		}
	}
	m.Streams = capacity.NewStreams(services)
	length, err := capacity.NewLength(rs)
	if err != nil {
		m.LengthWhy = err.Error()
		return
	}
	m.Length = length
}

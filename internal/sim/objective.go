package sim

import "time"

// SLO is the objective on first audio that completions are judged by.
func (s *Server) SLO() time.Duration { return time.Duration(s.slo * float64(time.Second)) }

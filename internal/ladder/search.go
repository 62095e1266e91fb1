package ladder

import "loadline/internal/sample"

// Search is the adaptive, certified search.
type Search struct{ c Config }

// NewSearch is a search for the largest concurrency that meets c.
func NewSearch(c Config) (*Search, error) {
	c, err := c.filled()
	return &Search{c: c}, err
}

// Next implements Searcher.
func (s *Search) Next() (Probe, bool) { return Probe{}, false }

// Add implements Searcher.
func (s *Search) Add(r sample.Request) bool { return true }

// Close implements Searcher.
func (s *Search) Close(e Evidence) Rung { return Rung{} }

// Replay implements Searcher.
func (s *Search) Replay(r Rung) error { return nil }

// Result implements Searcher.
func (s *Search) Result() Result { return Result{Verdict: None} }

// Combine joins the passes of --runs: the answer is the smallest, and a pass without an answer leaves none.
func Combine(rs []Result) Result { return rs[0] }

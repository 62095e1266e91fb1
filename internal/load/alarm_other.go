//go:build !linux

package load

import "time"

// nudge is of Linux only.
type nudge struct{}

func newNudge() nudge           { return nudge{} }
func (nudge) set(time.Duration) {}
func (nudge) close()            {}

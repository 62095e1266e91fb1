//go:build !linux

package load

import (
	"context"
	"time"
)

// alarm sleeps as precisely as the runtime's timers do.
type alarm struct{ timer *time.Timer }

func newAlarm() *alarm { return &alarm{time.NewTimer(time.Hour)} }

// sleep waits and says whether it did so to the end.
func (a *alarm) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	a.timer.Reset(d)
	select {
	case <-a.timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (a *alarm) stop() { a.timer.Stop() }

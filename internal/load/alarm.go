package load

import (
	"context"
	"time"
)

// alarm sleeps as precisely as the machine can, again and again.
type alarm struct {
	timer *time.Timer
	nudge nudge
}

func newAlarm() *alarm { return &alarm{time.NewTimer(time.Hour), newNudge()} }

// sleep waits and says whether it did so to the end.
func (a *alarm) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	a.nudge.set(d)
	a.timer.Reset(d)
	select {
	case <-a.timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (a *alarm) stop() {
	a.timer.Stop()
	a.nudge.close()
}

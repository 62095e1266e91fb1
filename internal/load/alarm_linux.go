package load

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm sleeps to well under a millisecond. A timer of the runtime rings up to a millisecond late in a process that is
// otherwise idle, because the runtime then waits in epoll, whose timeout counts in milliseconds. A kernel timer set to
// the same instant ends that wait in time; nobody reads it, and without one the timer still rings.
type alarm struct {
	timer *time.Timer
	file  *os.File // a timerfd in the runtime's poller, or nil
	fd    int
}

func newAlarm() *alarm {
	a := &alarm{timer: time.NewTimer(time.Hour)}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err == nil {
		a.fd, a.file = fd, os.NewFile(uintptr(fd), "timerfd") // non-blocking, so that the poller takes it
	}
	return a
}

// sleep waits and says whether it did so to the end.
func (a *alarm) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	if a.file != nil {
		unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	}
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
	if a.file != nil {
		a.file.Close()
	}
}

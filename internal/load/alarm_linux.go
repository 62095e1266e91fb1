package load

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// nudge makes a timer ring in time. A timer of the runtime rings up to a millisecond late in a process that is otherwise
// idle, because the runtime then waits in epoll, whose timeout counts in milliseconds. A kernel timer in the runtime's
// poller, set to the same instant, ends that wait. Nobody reads it, and without it the timer still rings.
type nudge struct {
	fd   int
	file *os.File // nil where the kernel gives none
}

func newNudge() nudge {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nudge{}
	}
	return nudge{fd, os.NewFile(uintptr(fd), "timerfd")} // non-blocking, so that the poller takes it
}

func (n nudge) set(d time.Duration) {
	if n.file != nil {
		unix.TimerfdSettime(n.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	}
}

func (n nudge) close() {
	if n.file != nil {
		n.file.Close()
	}
}

//go:build unix

package transport

import (
	"net"
	"syscall"
)

// prober looks at a connection without waiting.
type prober struct {
	raw   syscall.RawConn
	look  func(fd uintptr) bool
	alive *bool
}

func newProber(conn net.Conn) prober {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // under TLS
		conn = t.NetConn()
	}
	s, ok := conn.(syscall.Conn)
	if !ok {
		return prober{}
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return prober{}
	}
	alive := new(bool)
	return prober{raw, func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		*alive = err == syscall.EAGAIN || err == syscall.EINTR
		return true
	}, alive}
}

// quiet says whether the peer has neither closed the connection nor sent anything.
func (p prober) quiet() bool {
	if p.raw == nil {
		return true
	}
	*p.alive = false
	return p.raw.Read(p.look) == nil && *p.alive
}

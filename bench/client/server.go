//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"golang.org/x/sys/unix"
)

// What the server speaks: 24 kHz, one channel, 16 bits.
const (
	chunkEvery = 100 * time.Millisecond
	chunkBytes = 4800 // 100 ms of sound
	smallBytes = 480
	streamFor  = 30 * time.Second
)

// server answers requests on one thread with canned bytes and does no more than it must, so that it is not what limits
// the client. A request for "small" gets a short reply at once; one for "stream" gets a chunk every 100 ms. Requests to
// an endpoint get the same as an event stream.
type server struct {
	ep, ln int
	conns  map[int]*conn
	slots  [int(chunkEvery / time.Millisecond)][]*conn // by millisecond of the period

	small, smallEvents []byte
	open, openEvents   []byte // head of a stream
	chunk, chunkEvents []byte
}

type conn struct {
	fd     int
	in     []byte
	events bool
	left   int // chunks to send; 0: not streaming
}

func header(bytes uint32) []byte {
	var b []byte
	le := binary.LittleEndian
	b = append(b, "RIFF"...)
	b = le.AppendUint32(b, max(bytes, bytes+36))
	b = append(b, "WAVEfmt "...)
	b = le.AppendUint32(b, 16)
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, 1)
	b = le.AppendUint32(b, 24000)
	b = le.AppendUint32(b, 48000)
	b = le.AppendUint16(b, 2)
	b = le.AppendUint16(b, 16)
	b = append(b, "data"...)
	return le.AppendUint32(b, bytes)
}

func sound(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 37)
	}
	return b
}

func part(b []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b) }

func event(payload []byte) []byte {
	var b bytes.Buffer
	err := eventstream.NewEncoder().Encode(&b, eventstream.Message{Payload: payload, Headers: eventstream.Headers{
		{Name: ":message-type", Value: eventstream.StringValue("event")},
		{Name: ":event-type", Value: eventstream.StringValue("PayloadPart")},
		{Name: ":content-type", Value: eventstream.StringValue("application/octet-stream")},
	}})
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

const (
	plainHead  = "HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\nTransfer-Encoding: chunked\r\n\r\n"
	eventsHead = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\nX-Amzn-SageMaker-Content-Type: audio/wav\r\nTransfer-Encoding: chunked\r\n\r\n"
	lastPart   = "0\r\n\r\n"
)

// serve prints its port and runs until its standard input ends, as it does when the bench is gone.
func serve() error {
	s := &server{conns: map[int]*conn{}}
	short := append(header(smallBytes), sound(smallBytes)...)
	s.small = []byte(plainHead + string(part(short)) + lastPart)
	s.smallEvents = []byte(eventsHead + string(part(event(short))) + lastPart)
	s.open = []byte(plainHead + string(part(append(header(1<<32-1), sound(chunkBytes)...))))
	s.openEvents = []byte(eventsHead + string(part(event(append(header(1<<32-1), sound(chunkBytes)...)))))
	s.chunk = part(sound(chunkBytes))
	s.chunkEvents = part(event(sound(chunkBytes)))

	go func() {
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	var err error
	if s.ln, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	if err := unix.Bind(s.ln, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(s.ln, 4096); err != nil {
		return err
	}
	if s.ep, err = unix.EpollCreate1(0); err != nil {
		return err
	}
	if err := s.watch(s.ln); err != nil {
		return err
	}
	name, err := unix.Getsockname(s.ln)
	if err != nil {
		return err
	}
	fmt.Println(name.(*unix.SockaddrInet4).Port)
	return s.loop()
}

func (s *server) watch(fd int) error {
	return unix.EpollCtl(s.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (s *server) loop() error {
	events := make([]unix.EpollEvent, 512)
	buf := make([]byte, 64<<10)
	start, done := time.Now(), 0
	for {
		n, err := unix.EpollWait(s.ep, events, 1)
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == s.ln {
				s.accept()
			} else if c := s.conns[int(e.Fd)]; c != nil {
				s.read(c, buf)
			}
		}
		for ms := int(time.Since(start) / time.Millisecond); done < ms; done++ {
			s.tick(&s.slots[done%len(s.slots)])
		}
	}
}

func (s *server) accept() {
	for {
		fd, _, err := unix.Accept4(s.ln, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		s.conns[fd] = &conn{fd: fd}
		s.watch(fd)
	}
}

func (s *server) drop(c *conn) {
	c.left = -1 // its slot forgets it
	delete(s.conns, c.fd)
	unix.Close(c.fd)
}

func (s *server) write(c *conn, b []byte) {
	if n, err := unix.Write(c.fd, b); err != nil || n < len(b) {
		s.drop(c)
	}
}

func (s *server) read(c *conn, buf []byte) {
	n, err := unix.Read(c.fd, buf)
	if err == unix.EAGAIN {
		return
	}
	if n <= 0 {
		s.drop(c)
		return
	}
	in := buf[:n]
	if len(c.in) > 0 {
		c.in = append(c.in, in...)
		in = c.in
	}
	head, rest, whole := bytes.Cut(in, []byte("\r\n\r\n"))
	if !whole || len(rest) < length(head) {
		if len(c.in) == 0 {
			c.in = append(c.in, in...)
		}
		return
	}
	c.in = c.in[:0]
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	c.events = bytes.Contains(line, []byte("/endpoints/"))
	if bytes.Contains(line, []byte("/stream")) {
		s.write(c, pick(c, s.open, s.openEvents))
		if c.left == 0 {
			c.left = int(streamFor / chunkEvery)
			slot := &s.slots[c.fd%len(s.slots)]
			*slot = append(*slot, c)
		}
		return
	}
	s.write(c, pick(c, s.small, s.smallEvents))
}

func length(head []byte) int {
	_, after, ok := bytes.Cut(head, []byte("\r\nContent-Length: "))
	if !ok {
		return 0
	}
	line, _, _ := bytes.Cut(after, []byte("\r\n"))
	n, _ := strconv.Atoi(strings.TrimSpace(string(line)))
	return n
}

func pick(c *conn, plain, events []byte) []byte {
	if c.events {
		return events
	}
	return plain
}

// tick sends each stream of a slot its next chunk.
func (s *server) tick(slot *[]*conn) {
	keep := (*slot)[:0]
	for _, c := range *slot {
		if c.left > 0 {
			if c.left--; c.left == 0 {
				s.write(c, []byte(lastPart))
				continue
			}
			s.write(c, pick(c, s.chunk, s.chunkEvents))
		}
		if c.left > 0 {
			keep = append(keep, c)
		}
	}
	*slot = keep
}

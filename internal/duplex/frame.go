package duplex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Op is a frame's opcode.
type Op byte

// The opcodes of RFC 6455, 5.2.
const (
	Continuation Op = 0
	Text         Op = 1
	Binary       Op = 2
	Close        Op = 8
	Ping         Op = 9
	Pong         Op = 10
)

var opNames = map[Op]string{Continuation: "continuation", Text: "text", Binary: "binary", Close: "close", Ping: "ping", Pong: "pong"}

func (o Op) String() string {
	if n, ok := opNames[o]; ok {
		return n
	}
	return fmt.Sprintf("opcode %d", byte(o))
}

func (o Op) control() bool { return o >= Close }

// Frame is one WebSocket frame, unmasked.
type Frame struct {
	Fin     bool
	Op      Op
	Payload []byte

	flaw string // that its head has
}

const (
	maxControl = 125      // bytes of a control frame's payload
	maxFrame   = 25 << 20 // bytes of any payload here: what the platform takes of a whole invocation
	firstRead  = 4 << 10  // a frame of 80 ms at 24 kHz and 16 bits comes in one read
)

// wrong says what is wrong with a frame from a server; open: a fragmented message is under way.
func (f Frame) wrong(open bool) string {
	switch _, known := opNames[f.Op]; {
	case f.flaw != "":
		return f.flaw
	case !known:
		return "a frame of unknown " + f.Op.String()
	case f.Op.control() && (!f.Fin || len(f.Payload) > maxControl):
		return "a " + f.Op.String() + " that is fragmented or too long"
	case f.Op == Close && len(f.Payload) == 1, f.Op == Close && len(f.Payload) > 2 && !utf8.Valid(f.Payload[2:]):
		return "a close that cannot be read"
	case f.Op == Continuation && !open:
		return "a continuation of nothing"
	case (f.Op == Text || f.Op == Binary) && open:
		return "a new message inside another"
	}
	return ""
}

// Status is the status and reason of a Close frame, 1005 where it states none.
func (f Frame) Status() (code int, reason string) {
	if len(f.Payload) < 2 {
		return 1005, ""
	}
	return int(binary.BigEndian.Uint16(f.Payload)), string(f.Payload[2:])
}

// Append encodes the frame as a client sends it, masked.
func (f Frame) Append(b []byte, mask [4]byte) []byte {
	first := byte(f.Op)
	if f.Fin {
		first |= 0x80
	}
	switch n := len(f.Payload); {
	case n <= 125:
		b = append(b, first, 0x80|byte(n))
	case n <= 0xFFFF:
		b = binary.BigEndian.AppendUint16(append(b, first, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, first, 0x80|127), uint64(n))
	}
	b = append(b, mask[:]...)
	from := len(b)
	b = append(b, f.Payload...)
	for i := range b[from:] {
		b[from+i] ^= mask[i&3]
	}
	return b
}

// ErrFrame marks bytes that are no frames.
var ErrFrame = errors.New("not a WebSocket")

// Reader reads the frames of a server.
type Reader struct {
	from       io.Reader
	buf        []byte
	start, end int
}

// NewReader reads from r; first is what was read of it already.
func NewReader(r io.Reader, first []byte) *Reader {
	d := &Reader{from: r, buf: make([]byte, max(firstRead, len(first)))}
	d.end = copy(d.buf, first)
	return d
}

// Next is the next frame, whose payload is good until the one after it is asked for; io.EOF between frames,
// io.ErrUnexpectedEOF inside one, ErrFrame where one is too long.
func (r *Reader) Next() (Frame, error) {
	if r.start == r.end {
		r.start, r.end = 0, 0
		if len(r.buf) > 16*firstRead { // a large frame was an exception
			r.buf = make([]byte, firstRead)
		}
	}
	if err := r.fill(2); err != nil {
		return Frame{}, err
	}
	head := r.buf[r.start:]
	f := Frame{Fin: head[0]&0x80 != 0, Op: Op(head[0] & 0x0F)}
	masked, size, length := head[1]&0x80 != 0, uint64(head[1]&0x7F), 2
	switch {
	case head[0]&0x70 != 0:
		f.flaw = "a frame with reserved bits"
	case masked:
		f.flaw = "a masked frame of a server"
	}
	switch size {
	case 126:
		length = 4
	case 127:
		length = 10
	}
	if err := r.fill(length); err != nil {
		return Frame{}, inside(err)
	}
	switch head = r.buf[r.start:]; length {
	case 4:
		size = uint64(binary.BigEndian.Uint16(head[2:]))
	case 10:
		size = binary.BigEndian.Uint64(head[2:])
	}
	if f.flaw != "" {
		return f, nil // its payload cannot be trusted
	}
	if size > maxFrame {
		return Frame{}, fmt.Errorf("%w: a frame of %d bytes", ErrFrame, size)
	}
	if err := r.fill(length + int(size)); err != nil {
		return Frame{}, inside(err)
	}
	f.Payload = r.buf[r.start+length : r.start+length+int(size)]
	r.start += length + int(size)
	return f, nil
}

// fill makes at least n unused bytes stand in the buffer.
func (r *Reader) fill(n int) error {
	if r.start+n > len(r.buf) {
		to := r.buf
		if n > len(to) {
			to = make([]byte, n)
		}
		r.start, r.end, r.buf = 0, copy(to, r.buf[r.start:r.end]), to
	}
	for r.end-r.start < n {
		k, err := r.from.Read(r.buf[r.end:])
		if r.end += k; k == 0 && err != nil {
			if r.end > r.start {
				err = inside(err)
			}
			return err
		}
	}
	return nil
}

func inside(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

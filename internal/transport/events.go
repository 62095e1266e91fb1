package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"loadline/internal/sample"
)

// errFrame marks bytes that are not an event stream.
var errFrame = errors.New("damaged event stream")

// Layout of a message (application/vnd.amazon.eventstream): a prelude of total length, header length and their checksum;
// headers; payload; a checksum over all. Numbers are big-endian, checksums CRC-32.
const (
	preludeLen = 12
	frameMin   = preludeLen + 4
	frameMax   = 24 << 20
)

// message is one event, exception or error. Its slices hold until the next one is read.
type message struct {
	kind    []byte // event, exception, error
	name    []byte // of the event or exception, or the code of the error
	text    []byte // of the error
	payload []byte
	at      sample.Nanos // of the raw read that completed it

	utf8, partial bool // DataType and CompletionState, where they are stated
}

// messages reads an event stream off a raw body and notes when each piece of it came, before it is looked at. The SDK's
// own decoder costs 38 allocations a message, most of a client's work on many slow streams.
type messages struct {
	body  io.Reader
	clock func() sample.Nanos
	buf   []byte // bytes read, of which start:end are not used yet
	start int
	end   int
	long  []byte // a message that buf cannot hold
	at    sample.Nanos
	err   error // that ended the body
}

// next is the next message; io.EOF after the last, io.ErrUnexpectedEOF where the body ends inside one.
func (s *messages) next() (m message, err error) {
	if err := s.fill(preludeLen); err != nil {
		return m, err
	}
	prelude := s.buf[s.start : s.start+preludeLen]
	be := binary.BigEndian
	total, headers := int64(be.Uint32(prelude)), int64(be.Uint32(prelude[4:]))
	switch {
	case crc32.ChecksumIEEE(prelude[:8]) != be.Uint32(prelude[8:]):
		return m, fmt.Errorf("%w: prelude checksum mismatch", errFrame)
	case total < frameMin || total > frameMax || headers > total-frameMin:
		return m, fmt.Errorf("%w: a message of %d bytes with %d of headers", errFrame, total, headers)
	}
	frame, err := s.take(int(total))
	if err != nil {
		return m, err
	}
	body, sum := frame[:total-4], frame[total-4:]
	if crc32.ChecksumIEEE(body) != be.Uint32(sum) {
		return m, fmt.Errorf("%w: message checksum mismatch", errFrame)
	}
	m.payload, m.at = body[preludeLen+headers:], s.at
	if !m.read(body[preludeLen : preludeLen+headers]) {
		return m, fmt.Errorf("%w: headers that cannot be read", errFrame)
	}
	return m, nil
}

// take gives the next n bytes, n at least what fill was last asked for.
func (s *messages) take(n int) ([]byte, error) {
	if n <= len(s.buf) {
		if err := s.fill(n); err != nil {
			return nil, err
		}
		s.start += n
		return s.buf[s.start-n : s.start], nil
	}
	s.long = slices.Grow(s.long[:0], n)[:n]
	have := copy(s.long, s.buf[s.start:s.end])
	s.start, s.end = 0, 0
	for have < n {
		k, err := s.read(s.long[have:])
		if have += k; k == 0 && err != nil {
			return nil, unexpected(err)
		}
	}
	return s.long, nil
}

// fill makes buf hold at least n unused bytes, n at most its length.
func (s *messages) fill(n int) error {
	if s.start+n > len(s.buf) {
		s.start, s.end = 0, copy(s.buf, s.buf[s.start:s.end])
	}
	for s.end-s.start < n {
		k, err := s.read(s.buf[s.end:])
		if s.end += k; k == 0 && err != nil {
			if s.end > s.start {
				err = unexpected(err)
			}
			return err
		}
	}
	return nil
}

// read is one raw read. An error that comes with bytes is given at the next.
func (s *messages) read(b []byte) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	if n, s.err = s.body.Read(b); n > 0 {
		s.at = s.clock()
	}
	return n, s.err
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// read takes what is needed out of the headers, and says whether they are well formed.
func (m *message) read(b []byte) bool {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+1 {
			return false
		}
		name, kind := b[1:1+n], b[1+n]
		b = b[2+n:]
		size := 0
		switch kind {
		case 0, 1: // true, false
		case 2:
			size = 1
		case 3:
			size = 2
		case 4:
			size = 4
		case 5, 8: // integer, time
			size = 8
		case 9: // UUID
			size = 16
		case 6, 7: // bytes, string
			if len(b) < 2 {
				return false
			}
			size = int(binary.BigEndian.Uint16(b))
			b = b[2:]
		default:
			return false
		}
		if len(b) < size {
			return false
		}
		value := b[:size]
		b = b[size:]
		switch string(name) {
		case ":message-type":
			m.kind = value
		case ":event-type", ":exception-type", ":error-code":
			m.name = value
		case ":error-message":
			m.text = value
		case "DataType":
			m.utf8 = string(value) == "UTF8"
		case "CompletionState":
			m.partial = string(value) == "PARTIAL"
		}
	}
	return true
}

package audio

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"loadline/internal/sample"
)

// Heard is what became of a body.
type Heard struct {
	FirstByte    sample.Nanos
	FirstAudio   sample.Nanos // the first whole frame arrived
	FirstAudible sample.Nanos // the first loud one could be heard: the later of its arrival and FirstAudio plus its place in the sound
	Bytes        int64
	Frames       int64
	Seconds      float64 // of sound; 0 where the format is not walked to the sample
	Stall        float64 // seconds that a listener at 1x, from FirstAudio on, waited for more
	Format       Format

	// Outcome is OK, Empty, Truncated, ProtocolError, or ModelError for an error told in JSON where sound was due; Cause
	// says why it is not OK. Without OK the marks of sound that never was are None.
	Outcome sample.Outcome
	Cause   string
	Error   []byte // the JSON body behind ModelError
}

// Meter walks one body. The zero Meter must be given to Start; it may be started again for the next body.
type Meter struct {
	// Samples, if not nil, gets the sound itself, whole frames at a time, as it comes.
	Samples func([]byte)

	payload Payload
	kind    kind
	state   state
	first   sample.Nanos // FirstByte
	last    sample.Nanos // arrival of the latest byte
	audio   sample.Nanos // FirstAudio
	audible sample.Nanos
	bytes   int64
	mime    string

	declared struct { // by the content type, kept from body to body
		kind   kind
		format Format
	}

	acc   [accLen]byte // bytes of a header or of a frame that are not all here yet
	have  int
	skip  int64 // bytes of a chunk, tag or page to pass over, and what comes then
	after state

	format Format
	left   int64 // data bytes still due by the header; endless for one that does not know
	due    int64 // what it stated
	frames int64
	base   sample.Nanos // the listener heard frame basis at this time, and has not waited since
	basis  int64
	stall  sample.Nanos

	tail   [riffLen - 1]byte // last bytes walked, to find a header that is cut
	tailN  int
	inside int64  // where in the body a second header began, 0 for nowhere
	text   []byte // the body so far, while it looks like JSON and is short
	wrong  string // what is wrong with the container
}

type state uint8

const (
	atStart   state = iota // sniffing
	atRIFF                 // 12 bytes
	atChunk                // 8 bytes
	atFormat               // chunk "fmt "
	inSkip                 // over skip bytes
	inData                 // sound
	inTrailer              // after the sound
	atID3                  // 10 bytes
	atSync                 // looking for a frame of MP3
	atPage                 // 27 bytes of an Ogg page
	atLacing               // its segment table
	inSound                // sound that is only counted
	inText                 // not sound
)

const (
	accLen   = 255
	riffLen  = 12
	endless  = int64(1) << 62
	maxText  = 4096
	maxBlock = 64
)

// Start makes the meter ready for a body of the given payload and content type.
func (m *Meter) Start(p Payload, contentType string) {
	declared := m.declared
	if contentType != m.mime || declared.kind == kindNone {
		declared.kind, declared.format = kindOf(contentType)
	}
	*m = Meter{Samples: m.Samples, payload: p, mime: contentType, declared: declared, kind: declared.kind, format: declared.format,
		first: sample.None, last: sample.None, audio: sample.None, audible: sample.None, left: endless}
	if m.kind == kindText {
		m.state = inText
	}
}

// Write walks the next bytes of the body, which arrived at the given time.
func (m *Meter) Write(at sample.Nanos, b []byte) {
	if len(b) == 0 {
		return
	}
	if m.bytes == 0 {
		m.first = at
	}
	m.last = at
	if m.payload == Sound {
		m.keepText(b)
		m.walk(at, b)
	} else {
		m.audio = m.first
	}
	m.bytes += int64(len(b))
}

// Frames is how many whole frames of sound have come so far.
func (m *Meter) Frames() int64 { return m.frames }

// Format is how the sound is laid out, zero until that is known.
func (m *Meter) Format() Format { return m.format }

// keepText copies a body that began like JSON, as long as it is short: an error told where sound was due.
func (m *Meter) keepText(b []byte) {
	switch {
	case m.bytes == 0 && (b[0] == '{' || b[0] == '['), len(m.text) > 0 && int64(len(m.text)) == m.bytes:
		if len(m.text)+len(b) <= maxText {
			m.text = append(m.text, b...)
		}
	}
}

func (m *Meter) walk(at sample.Nanos, b []byte) {
	pos := m.bytes // of b[0] in the body
	for len(b) > 0 {
		before := len(b)
		switch m.state {
		case atStart:
			m.acc[m.have] = b[0]
			m.have++
			b = b[1:]
			if k, known := sniff(m.acc[:m.have], m.kind); known {
				m.begin(at, k)
			}
		case atRIFF:
			if b = m.take(b, riffLen); m.have == riffLen {
				if string(m.acc[8:12]) != "WAVE" {
					m.refuse(noHeader)
				} else {
					m.next(atChunk)
				}
			}
		case atChunk:
			if b = m.take(b, 8); m.have == 8 {
				m.chunk()
			}
		case atFormat:
			want := int(min(m.skip, 40))
			if b = m.take(b, want); m.have == want {
				m.readFormat()
			}
		case inSkip:
			n := min(m.skip, int64(len(b)))
			m.skip -= n
			b = b[n:]
			if m.skip == 0 {
				m.next(m.after)
			}
		case inData:
			n := int(min(m.left, int64(len(b))))
			m.find(pos, b[:n])
			m.sound(at, b[:n])
			b = b[n:]
			if m.left != endless {
				if m.left -= int64(n); m.left == 0 {
					m.state = inTrailer
				}
			}
		case inTrailer:
			m.find(pos, b)
			b = nil
		case atID3:
			if b = m.take(b, 10); m.have == 10 {
				m.readID3()
			}
		case atSync:
			m.acc[0], m.acc[1] = m.acc[1], b[0]
			b = b[1:]
			if isFrameSync(m.acc[0], m.acc[1]) {
				m.audio = at
				m.next(inSound)
			}
		case atPage:
			if b = m.take(b, 27); m.have == 27 {
				m.readPage()
			}
		case atLacing:
			want := int(m.skip)
			if b = m.take(b, want); m.have == want {
				m.readLacing()
			}
		case inSound:
			if !m.audio.Known() {
				m.audio = at
			}
			b = nil
		default:
			b = nil
		}
		pos += int64(before - len(b))
	}
}

// begin settles how the body is walked and walks the bytes that were held back until it was settled.
func (m *Meter) begin(at sample.Nanos, k kind) {
	held := [4]byte(m.acc[:4]) // sniffing never needs more
	n := m.have
	m.kind = k
	m.next(inSound)
	switch k {
	case kindWAV:
		m.next(atRIFF)
		if n > 0 && held[0] != 'R' {
			m.refuse(noHeader)
		}
	case kindPCM, kindUnknown:
		m.kind = kindPCM
		m.next(inData)
	case kindMP3:
		m.next(atSync)
		if held[0] == 'I' {
			m.next(atID3)
		}
	case kindOgg:
		m.next(atPage)
	}
	already := m.bytes
	m.bytes = 0 // positions are from the start of the body
	m.walk(at, held[:n])
	m.bytes = already
}

// take moves bytes of b into the accumulator until it holds want of them, and gives what is left.
func (m *Meter) take(b []byte, want int) []byte {
	n := copy(m.acc[m.have:want], b)
	m.have += n
	return b[n:]
}

func (m *Meter) next(s state) { m.state, m.have, m.acc[0], m.acc[1] = s, 0, 0, 0 }

// pass skips n bytes and goes on with s.
func (m *Meter) pass(n int64, s state) {
	m.next(s)
	if m.skip, m.after = n, s; n > 0 {
		m.state = inSkip
	}
}

const noHeader = "no RIFF/WAVE header"

// refuse gives up on the container: nothing more of the body is sound.
func (m *Meter) refuse(why string) {
	m.wrong = why
	m.state = inText
}

func (m *Meter) chunk() {
	id, size := string(m.acc[:4]), int64(binary.LittleEndian.Uint32(m.acc[4:]))
	switch {
	case id == "fmt " && (size < 16 || size > 1024):
		m.refuse(fmt.Sprintf("a format chunk of %d bytes", size))
	case id == "fmt ":
		m.next(atFormat)
		m.skip = size + size%2
	case id == "data" && m.format.Block == 0:
		m.refuse("sound before its format")
	case id == "data":
		m.next(inData)
		if m.due = size; !placeholder(size) {
			m.left = size
		}
	default:
		m.pass(size+size%2, atChunk)
	}
}

// placeholder says whether a data size is what servers write when they do not know it: the largest values of a signed or
// unsigned word, less a header or a page, two thousand million, or nothing.
func placeholder(size int64) bool {
	const slack = 1 << 16
	return size == 0 || size == 2_000_000_000 ||
		size > 0xFFFFFFFF-slack || size > 0x7FFFFFFF-slack && size <= 0x7FFFFFFF
}

func (m *Meter) readFormat() {
	le := binary.LittleEndian
	f := Format{Encoding: Encoding(le.Uint16(m.acc[0:])), Channels: int(le.Uint16(m.acc[2:])), Rate: int(le.Uint32(m.acc[4:])), Block: int(le.Uint16(m.acc[12:]))}
	if f.Encoding == 0xFFFE && m.have >= 26 { // extensible: the tag opens the GUID
		f.Encoding = Encoding(le.Uint16(m.acc[24:]))
	}
	rest := m.skip - int64(m.have)
	switch {
	case f.Rate <= 0 || f.Rate > 768000 || f.Channels <= 0 || f.Block <= 0 || f.Block > maxBlock:
		m.refuse(fmt.Sprintf("a format of %d Hz, %d channels and %d bytes a frame", f.Rate, f.Channels, f.Block))
	case f.Block%f.Channels != 0:
		m.refuse(fmt.Sprintf("frames of %d bytes for %d channels", f.Block, f.Channels))
	default:
		m.format = f
		m.pass(rest, atChunk)
	}
}

// sound walks bytes of samples.
func (m *Meter) sound(at sample.Nanos, b []byte) {
	block := m.format.Block
	if m.have > 0 {
		if b = m.take(b, block); m.have < block {
			return
		}
		m.emit(at, m.acc[:block])
		m.have = 0
	}
	whole := len(b) - len(b)%block
	if whole > 0 {
		m.emit(at, b[:whole])
	}
	m.have = copy(m.acc[:], b[whole:])
}

func (m *Meter) emit(at sample.Nanos, b []byte) {
	if m.Samples != nil {
		m.Samples(b)
	}
	n := int64(len(b) / m.format.Block)
	if m.frames == 0 {
		m.audio, m.base = at, at
	} else if ran := m.base + m.span(m.frames-m.basis); at > ran {
		m.stall += at - ran
		m.base, m.basis = at, m.frames
	}
	if !m.audible.Known() {
		if i := m.format.loud(b); i >= 0 {
			m.audible = max(at, m.audio+m.span(m.frames+int64(i)))
		}
	}
	m.frames += n
}

// span is how long n frames last.
func (m *Meter) span(n int64) sample.Nanos {
	rate := int64(m.format.Rate)
	return sample.Nanos(n/rate*1e9 + n%rate*1e9/rate)
}

// find looks for a second header in bytes that begin at pos.
func (m *Meter) find(pos int64, b []byte) {
	if m.inside != 0 || len(b) == 0 {
		return
	}
	var seam [2 * (riffLen - 1)]byte
	k := copy(seam[:], m.tail[:m.tailN])
	k += copy(seam[k:], b[:min(len(b), riffLen-1)])
	if i := riff(seam[:k]); i >= 0 {
		m.inside = pos - int64(m.tailN) + int64(i)
		return
	}
	if i := riff(b); i >= 0 {
		m.inside = pos + int64(i)
		return
	}
	if len(b) < riffLen-1 {
		b = seam[:k]
	}
	m.tailN = copy(m.tail[:], b[max(0, len(b)-(riffLen-1)):])
}

// riff finds a whole RIFF/WAVE header start in b.
func riff(b []byte) int {
	for from := 0; ; {
		i := bytes.Index(b[from:], []byte("RIFF"))
		if i < 0 || from+i+riffLen > len(b) {
			return -1
		}
		if i += from; string(b[i+8:i+12]) == "WAVE" {
			return i
		}
		from = i + 1
	}
}

func (m *Meter) readID3() {
	a := m.acc
	m.pass(int64(a[6]&0x7F)<<21|int64(a[7]&0x7F)<<14|int64(a[8]&0x7F)<<7|int64(a[9]&0x7F), atSync)
}

// readPage reads the fixed part of an Ogg page. A page whose granule position is 0 carries headers, and one without a
// position only part of a packet: of a long header, as a rule.
func (m *Meter) readPage() {
	if string(m.acc[:4]) != "OggS" {
		m.refuse("an Ogg page without its mark")
		return
	}
	granule := int64(binary.LittleEndian.Uint64(m.acc[6:]))
	segments := int64(m.acc[26])
	switch {
	case granule != 0 && granule != -1:
		m.next(inSound)
	case segments == 0:
		m.next(atPage)
	default:
		m.next(atLacing)
		m.skip = segments
	}
}

func (m *Meter) readLacing() {
	var size int64
	for _, n := range m.acc[:m.have] {
		size += int64(n)
	}
	m.pass(size, atPage)
}

// Package audio walks the body of a speech reply as it arrives, cut anywhere, and says when its first byte, its first
// sample and its first audible sample came, how many seconds of sound there were, how long a listener would have waited
// for more, and whether the body was whole. It writes WAV files with true sizes.
//
// It does not read sockets or clocks: whoever reads the body says when each piece came.
//
//	var m audio.Meter
//	m.Start(audio.Sound, "audio/wav")
//	m.Write(ms(20), header)  // 44 bytes
//	m.Write(ms(400), zeros)  // 100 ms of silence
//	m.Write(ms(900), speech)
//	h := m.End()             // FirstByte 20 ms, FirstAudio 400 ms, FirstAudible 900 ms
//
// WAV and raw PCM are walked to the sample. MP3 and Ogg are walked to the first frame after their headers, other audio
// counts from its first byte: of these neither length nor loudness is known. Formats are those of RIFF/WAVE (Microsoft
// and IBM, Multimedia Programming Interface 1.0; WAVEFORMATEXTENSIBLE), ID3v2.4 and RFC 3533.
package audio

import (
	"encoding/binary"
	"fmt"
	"math"
	"mime"
	"strconv"
	"strings"
)

// Payload is what the body of a reply is supposed to be.
type Payload string

// The payloads. Of JSON and Bytes the mark is the first byte of the body; of Sound it is the first audio sample.
const (
	Sound Payload = "audio"
	JSON  Payload = "json"
	Bytes Payload = "bytes"
)

// ParsePayload reads a payload's name.
func ParsePayload(s string) (Payload, error) {
	switch p := Payload(s); p {
	case Sound, JSON, Bytes:
		return p, nil
	}
	return "", fmt.Errorf("payload %q: want audio, json or bytes", s)
}

// Encoding is how a sample is written.
type Encoding uint16

// The encodings whose level is understood; their values are the format tags of WAV. Samples of another encoding are
// counted by the block size that the header states.
const (
	PCM   Encoding = 1 // little-endian integers; 8 bits are unsigned
	Float Encoding = 3 // IEEE 754, little-endian
)

// Format is how sound is laid out. The zero Format is one that is not known.
type Format struct {
	Encoding Encoding
	Rate     int // frames a second
	Channels int
	Block    int // bytes of one frame: a sample of every channel
}

// Raw is what a body of raw PCM is taken for when its content type says no more: 24 kHz, one channel, 16 bits.
var Raw = Format{Encoding: PCM, Rate: 24000, Channels: 1, Block: 2}

// Audible is the level from which a sample can be heard: -40 dB of full scale, on the scale of 16-bit samples.
const Audible = 328

// loud finds the first frame of b with a sample at or above Audible, -1 for none. b is whole frames.
func (f Format) loud(b []byte) int {
	width := f.Block / max(f.Channels, 1)
	hit := -1
	switch {
	case f.Encoding == PCM && width == 1:
		for i, v := range b {
			if d := int(v) - 128; d >= Audible>>8+1 || -d >= Audible>>8+1 {
				hit = i
				break
			}
		}
	case f.Encoding == PCM && width >= 2 && width <= 4:
		for i := width - 2; i+1 < len(b); i += width {
			if v := int(int16(uint16(b[i]) | uint16(b[i+1])<<8)); v >= Audible || -v >= Audible {
				hit = i - (width - 2)
				break
			}
		}
	case f.Encoding == Float && width == 4:
		for i := 0; i+3 < len(b); i += 4 {
			if v := math.Float32frombits(binary.LittleEndian.Uint32(b[i:])); v >= Audible/32768. || -v >= Audible/32768. {
				hit = i
				break
			}
		}
	}
	if hit < 0 {
		return -1
	}
	return hit / f.Block
}

// kind is how a body is walked.
type kind uint8

const (
	kindNone    kind = iota
	kindUnknown      // nothing said: looked at
	kindWAV
	kindPCM
	kindMP3
	kindOgg
	kindOther // audio that is only counted
	kindText  // not audio at all
)

// kindOf reads a content type. For raw PCM it gives the format that the type's parameters (rate, channels) state.
// audio/L16 is taken as little-endian, as the speech services that use it send it, against RFC 2586.
func kindOf(contentType string) (kind, Format) {
	name, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		name, _, _ = strings.Cut(contentType, ";")
		name = strings.ToLower(strings.TrimSpace(name))
	}
	switch name {
	case "", "application/octet-stream", "binary/octet-stream":
		return kindUnknown, Raw
	case "audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave":
		return kindWAV, Format{}
	case "audio/pcm", "audio/x-pcm", "audio/raw", "audio/l16", "audio/x-raw":
		f := Raw
		for _, key := range []string{"rate", "sample_rate", "samplerate"} {
			if n, err := strconv.Atoi(params[key]); err == nil && n > 0 && n <= 768000 {
				f.Rate = n
				break
			}
		}
		if n, err := strconv.Atoi(params["channels"]); err == nil && n > 0 && n <= 16 {
			f.Channels, f.Block = n, 2*n
		}
		return kindPCM, f
	case "audio/mpeg", "audio/mp3", "audio/mpeg3", "audio/x-mpeg":
		return kindMP3, Format{}
	case "audio/ogg", "application/ogg", "audio/opus", "audio/vorbis":
		return kindOgg, Format{}
	}
	if strings.HasPrefix(name, "text/") || strings.HasSuffix(name, "json") || strings.HasSuffix(name, "xml") {
		return kindText, Format{}
	}
	return kindOther, Format{}
}

// sniff looks at the first bytes of a body that was declared as k. It answers false while it needs more of them; four are
// always enough.
func sniff(b []byte, k kind) (kind, bool) {
	for _, c := range magics {
		if c.unasked && k != kindUnknown {
			continue
		}
		n := min(len(b), len(c.start))
		if string(b[:n]) != c.start[:n] {
			continue
		}
		return c.kind, n == len(c.start)
	}
	if k != kindUnknown {
		return k, true
	}
	if b[0] == 0xFF && len(b) == 1 {
		return k, false
	}
	if len(b) > 1 && isFrameSync(b[0], b[1]) {
		return kindMP3, true
	}
	return kindPCM, true
}

// magics open the containers that a body may be in. A RIFF header is believed against any content type, the others only
// where nothing is said.
var magics = []struct {
	start   string
	kind    kind
	unasked bool
}{{"RIFF", kindWAV, false}, {"RF64", kindWAV, false}, {"OggS", kindOgg, true}, {"ID3", kindMP3, true}, {"fLaC", kindOther, true}}

// isFrameSync says whether two bytes open a layer III frame of MPEG 1, 2 or 2.5.
func isFrameSync(a, b byte) bool { return a == 0xFF && b&0xE6 == 0xE2 && b&0x18 != 0x08 }

// WAVHeader is the header of a WAV file of size bytes of sound. It refuses what does not fit the format's 32 bits.
func WAVHeader(f Format, size int) ([]byte, error) {
	if f.Rate <= 0 || f.Channels <= 0 || f.Block <= 0 || f.Block%f.Channels != 0 {
		return nil, fmt.Errorf("write WAV: sample format not known: only WAV and raw PCM replies can be saved as WAV")
	}
	if size < 0 || int64(size) > math.MaxUint32-44 {
		return nil, fmt.Errorf("write WAV: %d bytes of sound: a WAV file holds at most 4 GiB", size)
	}
	h := make([]byte, 0, 44)
	le := binary.LittleEndian
	h = append(h, "RIFF"...)
	h = le.AppendUint32(h, uint32(36+size+size%2))
	h = append(h, "WAVEfmt "...)
	h = le.AppendUint32(h, 16)
	h = le.AppendUint16(h, uint16(f.Encoding))
	h = le.AppendUint16(h, uint16(f.Channels))
	h = le.AppendUint32(h, uint32(f.Rate))
	h = le.AppendUint32(h, uint32(f.Rate*f.Block))
	h = le.AppendUint16(h, uint16(f.Block))
	h = le.AppendUint16(h, uint16(8*f.Block/f.Channels))
	h = append(h, "data"...)
	return le.AppendUint32(h, uint32(size)), nil
}

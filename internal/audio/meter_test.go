package audio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/sample"
)

func ms(n float64) sample.Nanos { return sample.Since(time.Duration(n * float64(time.Millisecond))) }

// arrival is bytes that came together.
type arrival struct {
	at   float64 // ms
	body []byte
}

func hear(p Payload, contentType string, in ...arrival) Heard {
	var m Meter
	m.Start(p, contentType)
	for _, a := range in {
		m.Write(ms(a.at), a.body)
	}
	return m.End()
}

// wav is a header of 24 kHz mono 16-bit sound with the given data size field.
func wav(size uint32) []byte {
	h, err := WAVHeader(Raw, 0)
	if err != nil {
		panic(err)
	}
	binary.LittleEndian.PutUint32(h[4:], 36+size)
	binary.LittleEndian.PutUint32(h[40:], size)
	return h
}

func silence(bytes int) []byte { return make([]byte, bytes) }

func speech(bytes int) []byte {
	b := make([]byte, bytes)
	for i := 0; i+1 < bytes; i += 2 {
		binary.LittleEndian.PutUint16(b[i:], uint16(int16(8000*math.Sin(float64(i)/17)+9000)))
	}
	return b
}

func join(b ...[]byte) []byte { return bytes.Join(b, nil) }

// Case B5: the first byte is not the first audio.
func TestFirstAudio(t *testing.T) {
	head := wav(0xFFFFFFFF)
	for _, tc := range []struct {
		name                 string
		contentType          string
		in                   []arrival
		byte, audio, audible float64
		stall                float64
	}{
		{"header, silence, speech", "audio/wav", []arrival{{20, head}, {400, silence(4800)}, {900, speech(4800)}}, 20, 400, 900, 0.4},
		{"all at once", "audio/wav", []arrival{{900, join(head, speech(4800))}}, 900, 900, 900, 0},
		{"header split", "audio/wav", []arrival{{20, head[:20]}, {25, head[20:]}, {400, silence(4800)}, {900, speech(4800)}}, 20, 400, 900, 0.4},
		{"silence and speech at once", "audio/wav", []arrival{{20, head}, {400, join(silence(24000), speech(4800))}}, 20, 400, 900, 0},
		{"half a sample with the header", "audio/wav", []arrival{{20, join(head, silence(1))}, {400, silence(4799)}, {900, speech(4800)}}, 20, 400, 900, 0.4},
		{"raw", "audio/pcm", []arrival{{300, silence(4800)}, {350, speech(4800)}}, 300, 300, 400, 0},
		{"raw, a byte at first", "audio/pcm", []arrival{{20, silence(1)}, {300, silence(4799)}, {350, speech(4800)}}, 20, 300, 400, 0},
		{"nothing said, RIFF", "", []arrival{{20, head[:3]}, {30, head[3:]}, {400, speech(2)}}, 20, 400, 400, 0},
		{"nothing said, raw", "application/octet-stream", []arrival{{20, speech(480)}}, 20, 20, 20, 0},
		{"raw said, RIFF sent", "audio/pcm; rate=8000", []arrival{{20, head}, {400, speech(480)}}, 20, 400, 400, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := hear(Sound, tc.contentType, tc.in...)
			if h.FirstByte != ms(tc.byte) || h.FirstAudio != ms(tc.audio) || h.FirstAudible != ms(tc.audible) {
				t.Errorf("byte %v, audio %v, audible %v; want %v, %v, %v ms", h.FirstByte.Duration(), h.FirstAudio.Duration(), h.FirstAudible.Duration(), tc.byte, tc.audio, tc.audible)
			}
			if math.Abs(h.Stall-tc.stall) > 1e-9 || h.Outcome != sample.OK {
				t.Errorf("stall %v s, outcome %s (%s); want %v s, ok", h.Stall, h.Outcome, h.Cause, tc.stall)
			}
		})
	}
}

// Case C4: headers of streams lie about their length.
func TestDeclaredSize(t *testing.T) {
	second := speech(48000)
	for _, tc := range []struct {
		name    string
		body    []byte
		seconds float64
		outcome sample.Outcome
		cause   string
	}{
		{"all ones", join(wav(0xFFFFFFFF), second), 1, sample.OK, ""},
		{"largest signed", join(wav(0x7FFFFFFF), second), 1, sample.OK, ""},
		{"two thousand million", join(wav(2_000_000_000), second), 1, sample.OK, ""},
		{"nothing", join(wav(0), second), 1, sample.OK, ""},
		{"all ones less the header", join(wav(0xFFFFFFFF-36), second), 1, sample.OK, ""},
		{"true", join(wav(48000), second), 1, sample.OK, ""},
		{"smaller is honoured", join(wav(24000), second), 0.5, sample.OK, ""},
		{"larger", join(wav(48002), second), 1, sample.Truncated, "truncated: 2 of the 48002 audio bytes that its header states are missing"},
		{"second header", join(wav(0xFFFFFFFF), speech(9600), wav(9600), speech(9600)), (9600 + 44 + 9600) / 48000., sample.ProtocolError, "header inside the stream: a second RIFF at byte 9644"},
		{"second header after a true size", join(wav(9600), speech(9600), wav(9600), speech(9600)), 0.2, sample.ProtocolError, "header inside the stream: a second RIFF at byte 9644"},
		{"RIFF as sound", join(wav(0), []byte("RIFFxxxxDATA"), speech(48000-12)), 1, sample.OK, ""},
		{"trailing chunk", join(wav(48000), second, []byte("LIST\x04\x00\x00\x00abcd")), 1, sample.OK, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := hear(Sound, "audio/wav", arrival{10, tc.body})
			if h.Outcome != tc.outcome || h.Cause != tc.cause || math.Abs(h.Seconds-tc.seconds) > 1e-9 {
				t.Errorf("%s (%s), %v s; want %s (%s), %v s", h.Outcome, h.Cause, h.Seconds, tc.outcome, tc.cause, tc.seconds)
			}
		})
	}
}

// Case C2: pieces cut inside a sample.
func TestOddPieces(t *testing.T) {
	whole := speech(5760)
	for _, tc := range []struct {
		name    string
		pieces  []int
		extra   int // bytes past the last whole sample
		outcome sample.Outcome
		cause   string
	}{
		{"two odd pieces", []int{4063, 1697}, 0, sample.OK, ""},
		{"a third of one byte", []int{4063, 1697, 1}, 1, sample.Truncated, "truncated: 1 byte left"},
		{"an empty one between", []int{4063, 0, 1697}, 0, sample.OK, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out []byte
			var m Meter
			m.Samples = func(b []byte) {
				if len(b)%2 != 0 {
					t.Errorf("a piece of %d bytes", len(b))
				}
				out = append(out, b...)
			}
			m.Start(Sound, "audio/pcm;rate=24000")
			body := join(whole, silence(tc.extra))
			for i, n := range tc.pieces {
				m.Write(ms(float64(10*i)), body[:n])
				body = body[n:]
			}
			h := m.End()
			if !bytes.Equal(out, whole) || h.Frames != 2880 || h.Seconds != 0.12 {
				t.Errorf("%d bytes out, %d samples, %v s; want the 5760 in, 2880, 0.12 s", len(out), h.Frames, h.Seconds)
			}
			if h.Outcome != tc.outcome || h.Cause != tc.cause {
				t.Errorf("%s (%s), want %s (%s)", h.Outcome, h.Cause, tc.outcome, tc.cause)
			}
		})
	}
}

// Case B3: replies that carry nothing, or an error.
func TestNothing(t *testing.T) {
	page := func(granule uint64, body ...byte) []byte {
		p := append([]byte("OggS\x00\x02"), binary.LittleEndian.AppendUint64(nil, granule)...)
		p = append(p, make([]byte, 12)...)
		return append(append(p, 1, byte(len(body))), body...)
	}
	for _, tc := range []struct {
		name        string
		payload     Payload
		contentType string
		in          []arrival
		outcome     sample.Outcome
		cause       string
		byte, audio float64 // ms, -1 for never
	}{
		{"no bytes", Sound, "audio/wav", nil, sample.Empty, "no bytes in the body", -1, -1},
		{"header only", Sound, "audio/wav", []arrival{{3, wav(0xFFFFFFFF)}}, sample.Empty, "no audio: 44 bytes of header only", 3, -1},
		{"half a header", Sound, "audio/wav", []arrival{{3, wav(0)[:30]}}, sample.Truncated, "truncated: the body ended inside the WAV header, after 30 bytes", 3, -1},
		{"half a magic", Sound, "", []arrival{{3, []byte("RI")}}, sample.OK, "", 3, 3},
		{"half a sample", Sound, "audio/pcm", []arrival{{3, []byte{1}}}, sample.Truncated, "truncated: 1 byte left", 3, -1},
		{"JSON error as WAV", Sound, "audio/wav", []arrival{{3, []byte(`{"error":`)}, {4, []byte(`"boom"}`)}}, sample.ModelError, "a JSON body where audio was due", 3, -1},
		{"JSON error as PCM", Sound, "audio/pcm", []arrival{{3, []byte(`{"error":"boom!"}`)}}, sample.ModelError, "a JSON body where audio was due", 3, -1},
		{"JSON as such", Sound, "application/json", []arrival{{3, []byte(`{"error":"boom"}`)}}, sample.ModelError, "a JSON body where audio was due", 3, -1},
		{"web page", Sound, "text/html; charset=utf-8", []arrival{{3, []byte("<html>")}}, sample.ProtocolError, "not audio: content type text/html; charset=utf-8", 3, -1},
		{"text as WAV", Sound, "audio/wav", []arrival{{3, []byte("oh no")}}, sample.ProtocolError, "not readable as WAV: no RIFF/WAVE header", 3, -1},
		{"AVI", Sound, "audio/wav", []arrival{{3, []byte("RIFF\x00\x00\x00\x00AVI LIST")}}, sample.ProtocolError, "not readable as WAV: no RIFF/WAVE header", 3, -1},
		{"PCM that begins like JSON", Sound, "audio/pcm", []arrival{{3, join([]byte("{x"), speech(10))}}, sample.OK, "", 3, 3},
		{"MP3", Sound, "audio/mpeg", []arrival{{3, []byte("ID3\x04\x00\x00\x00\x00\x00\x05")}, {4, []byte("\xff\xfbabc\xff")}, {9, []byte("\xfb\x90")}}, sample.OK, "", 3, 9},
		{"MP3, tag only", Sound, "audio/mpeg", []arrival{{3, []byte("ID3\x04\x00\x00\x00\x00\x00\x02ab")}}, sample.Empty, "no audio: 12 bytes of header only", 3, -1},
		{"Ogg", Sound, "audio/ogg", []arrival{{3, join(page(0, 1, 2, 3), page(0), page(math.MaxUint64, 9))}, {7, page(960, 4)}}, sample.OK, "", 3, 7},
		{"Ogg, headers only", Sound, "audio/ogg", []arrival{{3, page(0, 1, 2, 3)}}, sample.Empty, "no audio: 31 bytes of header only", 3, -1},
		{"FLAC", Sound, "audio/flac", []arrival{{3, []byte("fLaC")}}, sample.OK, "", 3, 3},
		{"JSON payload", JSON, "application/json", []arrival{{3, []byte("[1,")}, {4, []byte("2]")}}, sample.OK, "", 3, 3},
		{"bytes payload", Bytes, "", []arrival{{3, []byte("x")}}, sample.OK, "", 3, 3},
		{"bytes payload, none", Bytes, "", nil, sample.Empty, "no bytes in the body", -1, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := hear(tc.payload, tc.contentType, tc.in...)
			if h.Outcome != tc.outcome || h.Cause != tc.cause {
				t.Errorf("%s (%s), want %s (%s)", h.Outcome, h.Cause, tc.outcome, tc.cause)
			}
			want := func(v float64) sample.Nanos {
				if v < 0 {
					return sample.None
				}
				return ms(v)
			}
			if h.FirstByte != want(tc.byte) || h.FirstAudio != want(tc.audio) {
				t.Errorf("byte %v, audio %v; want %v, %v ms", h.FirstByte.Duration(), h.FirstAudio.Duration(), tc.byte, tc.audio)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	header := func(tag, channels, width int, extra ...byte) []byte {
		le := binary.LittleEndian
		b := []byte("RIFF\xff\xff\xff\xffWAVELIST\x03\x00\x00\x00abc\x00fmt ")
		b = le.AppendUint32(b, uint32(16+len(extra)))
		b = le.AppendUint16(b, uint16(tag))
		b = le.AppendUint16(b, uint16(channels))
		b = le.AppendUint32(b, 16000)
		b = le.AppendUint32(b, uint32(16000*channels*width))
		b = le.AppendUint16(b, uint16(channels*width))
		b = le.AppendUint16(b, uint16(8*width))
		b = append(b, extra...)
		return append(b, "data\xff\xff\xff\xff"...)
	}
	float := func(v ...float32) (b []byte) {
		for _, f := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		}
		return b
	}
	guid := append([]byte{22, 0, 16, 0, 4, 0, 0, 0, 1, 0}, make([]byte, 14)...)
	for _, tc := range []struct {
		name    string
		head    []byte
		body    []byte
		frames  int64
		audible float64 // ms after the first sample at 16 kHz; -1 never
	}{
		{"8 bits", header(1, 1, 1), []byte{128, 129, 127, 126}, 4, 3 / 16.},
		{"stereo", header(1, 2, 2), []byte{0, 0, 0, 0, 71, 1, 0, 0, 0, 0, 0xB8, 0xFE}, 3, 2 / 16.},
		{"24 bits", header(1, 1, 3), []byte{255, 71, 1, 0, 72, 1}, 2, 1 / 16.},
		{"32 bits", header(1, 1, 4), []byte{255, 255, 71, 1, 0, 0, 0, 128}, 2, 1 / 16.},
		{"float", header(3, 1, 4), float(0, 0.009, float32(math.NaN()), -0.02), 4, 3 / 16.},
		{"extensible", header(0xFFFE, 1, 2, guid...), []byte{0, 0, 0, 0, 0, 64}, 3, 2 / 16.},
		{"a law that is not read", header(6, 1, 1), []byte{1, 2, 3}, 3, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := hear(Sound, "audio/x-wav", arrival{5, tc.head}, arrival{10, tc.body})
			want := sample.None
			if tc.audible >= 0 {
				want = ms(10 + tc.audible)
			}
			if h.Outcome != sample.OK || h.Frames != tc.frames || h.FirstAudio != ms(10) || h.FirstAudible != want {
				t.Errorf("%s (%s), %d frames, audio %v, audible %v; want %d, 10ms, %v", h.Outcome, h.Cause, h.Frames, h.FirstAudio.Duration(), h.FirstAudible.Duration(), tc.frames, want.Duration())
			}
		})
	}
	for _, bad := range [][]byte{header(1, 0, 2), header(1, 40, 2), []byte("RIFF....WAVEfmt \x02\x00\x00\x00ab"), []byte("RIFF....WAVEdata\x02\x00\x00\x00ab")} {
		if h := hear(Sound, "audio/wav", arrival{5, bad}); h.Outcome != sample.ProtocolError {
			t.Errorf("%q: %s (%s), want protocol_error", bad, h.Outcome, h.Cause)
		}
	}
}

func TestContentType(t *testing.T) {
	for _, tc := range []struct {
		in   string
		kind kind
		rate int
	}{
		{"audio/L16; rate=16000", kindPCM, 16000},
		{"Audio/PCM;rate=\"8000\";channels=2", kindPCM, 8000},
		{"audio/pcm; rate=none", kindPCM, 24000},
		{"audio/wav", kindWAV, 0},
		{"audio/mpeg", kindMP3, 0},
		{"audio/aac", kindOther, 0},
		{"application/problem+json", kindText, 0},
		{"text/event-stream", kindText, 0},
		{"", kindUnknown, 24000},
		{"audio/wav; codecs", kindWAV, 0}, // not well formed, still clear
	} {
		if k, f := kindOf(tc.in); k != tc.kind || f.Rate != tc.rate {
			t.Errorf("%q: kind %d at %d Hz, want %d at %d Hz", tc.in, k, f.Rate, tc.kind, tc.rate)
		}
	}
}

// A listener who starts at the first sample waits whenever the next one is late, and a wait moves all that follows.
func TestStall(t *testing.T) {
	h := hear(Sound, "audio/pcm",
		arrival{100, speech(4800)}, // plays until 200
		arrival{150, speech(4800)}, // until 300
		arrival{350, speech(4800)}, // 50 ms late; until 450
		arrival{440, speech(4800)}, // until 550
		arrival{560, speech(4800)}, // 10 ms late
		arrival{900, nil})
	if math.Abs(h.Stall-0.06) > 1e-9 || h.Seconds != 0.5 {
		t.Errorf("stall %v s of %v s, want 0.06 of 0.5", h.Stall, h.Seconds)
	}
}

// bodies that the fuzzer starts from, and the types they are sent as.
func seeds() (out [][]byte) {
	return [][]byte{
		join(wav(0xFFFFFFFF), silence(100), speech(301)),
		join(wav(200), speech(400)),
		join(wav(0), speech(60), wav(60), speech(60)),
		[]byte(`{"error":"x"}`),
		[]byte("ID3\x04\x00\x00\x00\x00\x00\x02ab\xff\xfb\x90"),
		[]byte("OggS\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00aaaabbbbcccc\x02\x01\x02abc"),
		speech(77),
		[]byte("RIFF....WAVEfmt \x12\x00\x00\x00\x01\x00\x02\x00\x80\x3e\x00\x00\x00\xfa\x00\x00\x04\x00\x10\x00\x00\x00data\x00\x00\x00\x00abcdefgh"),
	}
}

var types = []string{"audio/wav", "audio/pcm", "", "audio/mpeg", "audio/ogg", "application/json", "audio/pcm;channels=3", "audio/aac"}

// The result must not depend on how the body was cut, only on when each byte came.
func FuzzCuts(f *testing.F) {
	for i, s := range seeds() {
		f.Add(s, uint8(i%3), uint64(i))
	}
	f.Fuzz(func(t *testing.T, body []byte, typ uint8, seed uint64) {
		contentType := types[int(typ)%len(types)]
		r := rand.New(rand.NewPCG(seed, 1))
		when := make([]sample.Nanos, len(body)) // a later byte never comes earlier
		at := sample.Nanos(0)
		for i := range when {
			if r.IntN(20) == 0 {
				at += sample.Nanos(r.IntN(5_000_000))
			}
			when[i] = at
		}
		var plain, cut Meter
		var plainOut, cutOut []byte
		plain.Samples = func(b []byte) { plainOut = append(plainOut, b...) }
		cut.Samples = func(b []byte) { cutOut = append(cutOut, b...) }
		plain.Start(Sound, contentType)
		cut.Start(Sound, contentType)
		for i := 0; i < len(body); { // as few pieces as the times allow
			j := i + 1
			for j < len(body) && when[j] == when[i] {
				j++
			}
			plain.Write(when[i], body[i:j])
			for k := i; k < j; {
				n := min(1+r.IntN(3)*r.IntN(40), j-k)
				cut.Write(when[i], body[k:k+n])
				k += n
			}
			i = j
		}
		a, b := plain.End(), cut.End()
		if d := cmp.Diff(a, b); d != "" || !bytes.Equal(plainOut, cutOut) {
			t.Fatalf("%q as %q: cuts change the result:\n%s", body, contentType, d)
		}
		if a.Outcome == sample.OK && !a.FirstAudio.Known() {
			t.Fatalf("%q as %q: ok without audio", body, contentType)
		}
		if a.FirstAudio.Known() && a.FirstAudio < a.FirstByte || a.FirstAudible.Known() && a.FirstAudible < a.FirstAudio {
			t.Fatalf("%q as %q: marks out of order: %+v", body, contentType, a)
		}
	})
}

// Every single cut of one body.
func TestEveryCut(t *testing.T) {
	for i, body := range seeds() {
		for _, contentType := range types {
			want := hear(Sound, contentType, arrival{7, body})
			for cut := range len(body) + 1 {
				if d := cmp.Diff(want, hear(Sound, contentType, arrival{7, body[:cut]}, arrival{7, body[cut:]})); d != "" {
					t.Fatalf("body %d as %q cut at %d:\n%s", i, contentType, cut, d)
				}
			}
		}
	}
}

func TestRecorder(t *testing.T) {
	var r Recorder
	r.ContentType("audio/wav")
	r.Write(wav(0xFFFFFFFF)[:21])
	r.Write(wav(0xFFFFFFFF)[21:])
	r.Write(speech(48000))
	file, h, err := r.WAV()
	if err != nil {
		t.Fatal(err)
	}
	if want := join(wav(48000), speech(48000)); !bytes.Equal(file, want) || h.Seconds != 1 {
		t.Errorf("a file of %d bytes, %v s; want true sizes over the same sound", len(file), h.Seconds)
	}

	r.ContentType("audio/pcm;rate=8000")
	r.Write(speech(7))
	if file, _, err = r.WAV(); err != nil || len(file) != 44+6 || binary.LittleEndian.Uint32(file[24:]) != 8000 {
		t.Errorf("%d bytes, %v; want 50 bytes at 8 kHz", len(file), err)
	}

	for _, bad := range []struct{ contentType, body, err string }{
		{"audio/mpeg", "\xff\xfb\x90", "not WAV or raw PCM"},
		{"audio/wav", "", "no bytes"},
		{"application/json", `{"error":"x"}`, "JSON"},
	} {
		r.ContentType(bad.contentType)
		r.Write([]byte(bad.body))
		if _, _, err := r.WAV(); err == nil || !strings.Contains(err.Error(), bad.err) {
			t.Errorf("%s: error %v, want one with %q", bad.contentType, err, bad.err)
		}
	}
}

func ExampleMeter() {
	var m Meter
	m.Start(Sound, "audio/wav")
	header, _ := WAVHeader(Raw, 9600)
	m.Write(ms(20), header)
	m.Write(ms(400), silence(4800))
	m.Write(ms(900), speech(4800))
	h := m.End()
	fmt.Println(h.FirstByte.Duration(), h.FirstAudio.Duration(), h.FirstAudible.Duration(), h.Seconds)
	// Output: 20ms 400ms 900ms 0.2
}

func BenchmarkMeter(b *testing.B) {
	head, quiet, chunk := wav(0xFFFFFFFF), silence(4800), speech(4800)
	var m Meter
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)) * 20)
	for b.Loop() {
		m.Start(Sound, "audio/wav")
		m.Write(1, head)
		m.Write(1, quiet)
		for i := range 19 {
			m.Write(sample.Nanos(i), chunk)
		}
		m.End()
	}
}

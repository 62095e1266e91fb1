package audio

import (
	"encoding/json"
	"fmt"

	"loadline/internal/sample"
)

// End closes the body and says what it was.
func (m *Meter) End() Heard {
	if m.state == atStart && m.have > 0 { // too short to be settled by its bytes
		m.begin(m.last, m.kind)
	}
	h := Heard{FirstByte: m.first, FirstAudio: m.audio, FirstAudible: m.audible, Bytes: m.bytes, Outcome: sample.OK}
	if m.payload == Sound {
		h.Frames, h.Format = m.frames, m.format
		if m.format.Rate > 0 {
			h.Seconds = float64(m.frames) / float64(m.format.Rate)
		}
		h.Stall = m.stall.Duration().Seconds()
	}
	h.Outcome, h.Cause, h.Error = m.judge()
	switch h.Outcome {
	case sample.ModelError, sample.Empty:
		h.FirstAudio, h.FirstAudible, h.Frames, h.Seconds, h.Stall = sample.None, sample.None, 0, 0, 0
	}
	return h
}

func (m *Meter) judge() (sample.Outcome, string, []byte) {
	if m.bytes == 0 {
		return sample.Empty, "no bytes in the body", nil
	}
	if m.payload != Sound {
		return sample.OK, "", nil
	}
	if int64(len(m.text)) == m.bytes && json.Valid(m.text) {
		return sample.ModelError, "a JSON body where audio was due", m.text
	}
	switch {
	case m.kind == kindText:
		return sample.ProtocolError, fmt.Sprintf("not audio: content type %s", m.mime), nil
	case m.wrong != "":
		return sample.ProtocolError, fmt.Sprintf("not readable as %s: %s", m.what(), m.wrong), nil
	case m.inside != 0:
		return sample.ProtocolError, fmt.Sprintf("header inside the stream: a second RIFF at byte %d", m.inside), nil
	case m.state == atRIFF, m.state == atFormat, m.state == atChunk && m.have > 0, m.state == inSkip && m.after == atChunk:
		return sample.Truncated, fmt.Sprintf("truncated: the body ended inside the WAV header, after %d bytes", m.bytes), nil
	case !m.audio.Known() && m.have > 0 && m.state == inData:
		return sample.Truncated, left(m.have), nil
	case !m.audio.Known():
		return sample.Empty, fmt.Sprintf("no audio: %d bytes of header only", m.bytes), nil
	case m.have > 0 && (m.state == inData || m.state == inTrailer):
		return sample.Truncated, left(m.have), nil
	case m.state == inData && m.left != endless:
		return sample.Truncated, fmt.Sprintf("truncated: %d of the %d audio bytes that its header states are missing", m.left, m.due), nil
	}
	return sample.OK, "", nil
}

func left(n int) string {
	if n == 1 {
		return "truncated: 1 byte left"
	}
	return fmt.Sprintf("truncated: %d bytes left", n)
}

func (m *Meter) what() string {
	switch m.kind {
	case kindWAV:
		return "WAV"
	case kindOgg:
		return "Ogg"
	}
	return "audio"
}

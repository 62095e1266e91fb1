package audio

import (
	"fmt"

	"loadline/internal/sample"
)

// Recorder keeps the sound of one reply, to be saved. It is the Sink of a call: a transport tells it the content type
// before the first byte.
type Recorder struct {
	meter   Meter
	started bool
	sound   []byte
}

// ContentType says what the body will be.
func (r *Recorder) ContentType(s string) {
	r.sound = nil
	r.meter.Samples = func(b []byte) { r.sound = append(r.sound, b...) }
	r.meter.Start(Sound, s)
	r.started = true
}

// Write takes the next bytes of the body. It never fails.
func (r *Recorder) Write(b []byte) (int, error) {
	if !r.started {
		r.ContentType("")
	}
	r.meter.Write(0, b)
	return len(b), nil
}

// WAV is what was recorded as a WAV file whose sizes are true, however the reply stated them, and what the body was. It
// refuses a body without samples that it understands; a truncated one is given as far as it came.
func (r *Recorder) WAV() ([]byte, Heard, error) {
	h := r.meter.End()
	switch {
	case h.Outcome == sample.OK && len(r.sound) == 0:
		return nil, h, fmt.Errorf("write WAV: the reply is not WAV or raw PCM: ask the server for one of these, or save the body as it came")
	case h.Outcome != sample.OK && h.Outcome != sample.Truncated:
		return nil, h, fmt.Errorf("write WAV: %s", h.Cause)
	}
	header, err := WAVHeader(h.Format, len(r.sound))
	if err != nil {
		return nil, h, err
	}
	file := append(header, r.sound...)
	if len(r.sound)%2 == 1 {
		file = append(file, 0) // chunks are padded to even sizes
	}
	return file, h, nil
}

package serve

import (
	"context"
	"encoding/binary"
	"math"
	"net/http"
	"strconv"
	"time"

	"loadline/internal/audio"
)

// wavHeader is the size of a RIFF header with one fmt and one data chunk.
const wavHeader = 44

// header is a WAV header for int16 mono at rate samples a second. A size below 0 is a stream's, whose length nobody knows
// yet: both size fields are 0xFFFFFFFF.
func header(rate int, size int64) ([]byte, error) {
	f := audio.Raw
	f.Rate = rate
	b, err := audio.WAVHeader(f, int(max(0, size)))
	if err == nil && size < 0 {
		binary.LittleEndian.PutUint32(b[4:], math.MaxUint32)
		binary.LittleEndian.PutUint32(b[40:], math.MaxUint32)
	}
	return b, err
}

// seconds is the time that size bytes of int16 mono last.
func seconds(size int64, rate int) float64 { return float64(size) / 2 / float64(rate) }

// reply writes one answer; a reader who does not take it in time fails the write.
type reply struct {
	ctx     context.Context // when it ends, so does the writing
	w       http.ResponseWriter
	out     *http.ResponseController
	wait    time.Duration
	rate    int
	started bool // a byte may have gone out: an error can no longer be told
}

// head sends status and header; size below 0 streams.
func (r *reply) head(wav bool, size int64) error {
	h := r.w.Header()
	h.Set("Content-Type", "audio/pcm;rate="+strconv.Itoa(r.rate))
	var first []byte
	if wav {
		h.Set("Content-Type", "audio/wav")
		var err error
		if first, err = header(r.rate, size); err != nil {
			return err
		}
	}
	if size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(size+int64(len(first)), 10))
	}
	r.started = true
	r.w.WriteHeader(http.StatusOK)
	_, err := r.w.Write(first) // not flushed: the header travels with the first sound
	return err
}

// block sends one block and flushes it.
func (r *reply) block(b []byte) error {
	const slice = 64 << 10
	for len(b) > 0 {
		n := min(len(b), slice)
		_ = r.out.SetWriteDeadline(time.Now().Add(r.wait)) // an in-memory writer has none
		if r.ctx.Err() != nil {                            // asked after: whoever ends ctx shortens the deadline next
			return context.Cause(r.ctx)
		}
		if _, err := r.w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return r.out.Flush()
}

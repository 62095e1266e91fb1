package serve

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
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

// Trailers that tell how a stream ended to a client that asked for them (TE: trailers).
const (
	trailerSentences = "X-Sentences" // spoken whole
	trailerSamples   = "X-Samples"
	trailerOmitted   = "X-Omitted"   // words and symbols of the text that were not said
	trailerRemoved   = "X-Removed"   // tags and directives of the text, which do nothing here; 20 at most
	trailerResume    = "X-Resume-At" // only where the server stopped: send the text again with this resume_at
)

// seconds is the time that size bytes of int16 mono last.
func seconds(size int64, rate int) float64 { return float64(size) / 2 / float64(rate) }

// slice is how much sound is changed in rate and written at a time, bytes: 100 ms at 24 kHz.
const slice = 4800

// reply writes one answer; a reader who does not take it in time fails the write.
type reply struct {
	ctx      context.Context // when it ends, so does the writing
	w        http.ResponseWriter
	out      *http.ResponseController
	wait     time.Duration
	format   string
	codec    Codec // of another format than wav and pcm
	rate     int
	tune     *audio.Resampler
	trailers bool
	started  bool // a byte may have gone out: an error can no longer be told
	buf      []byte
	bytes    int64 // of sound written

	encoder io.WriteCloser // once it is open; it writes the reply, and nobody else until it is closed
	stop    context.CancelFunc
}

// head sends status and header; size below 0 streams.
func (r *reply) head(size int64) error {
	h := r.w.Header()
	var first []byte
	switch r.format {
	case formatPCM:
		h.Set("Content-Type", "audio/pcm;rate="+strconv.Itoa(r.rate))
	default:
		h.Set("Content-Type", r.codec.ContentType)
	case formatWAV:
		h.Set("Content-Type", "audio/wav")
		var err error
		if first, err = header(r.rate, size); err != nil {
			return err
		}
	}
	if size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(size+int64(len(first)), 10))
	} else if r.trailers {
		h.Set("Trailer", trailerSentences+", "+trailerSamples+", "+trailerOmitted+", "+trailerRemoved+", "+trailerResume)
	}
	r.started = true
	r.w.WriteHeader(http.StatusOK)
	_, err := r.w.Write(first) // not flushed: the header travels with the first sound
	return err
}

// stream sends sound as it was made, and flushes it; before the first it sends the head.
func (r *reply) stream(sound [][]byte) error {
	for _, b := range sound {
		for len(b) > 0 {
			n := len(b)
			if r.tune != nil {
				n = min(n, slice)
				r.buf = r.tune.Write(r.buf[:0], b[:n])
			} else {
				r.buf = b
			}
			b = b[n:]
			if err := r.put(r.buf); err != nil {
				return err
			}
		}
	}
	if r.encoder != nil || !r.started {
		return nil
	}
	return r.out.Flush()
}

// finish sends what a change of rate and an encoder held back.
func (r *reply) finish() error {
	if r.tune != nil {
		if err := r.put(r.tune.Flush(r.buf[:0])); err != nil {
			return err
		}
	}
	if r.encoder != nil {
		return r.encoder.Close()
	}
	return nil
}

// encoded says whether the sound is written by an encoder.
func (r *reply) encoded() bool { return r.format != formatWAV && r.format != formatPCM }

// encode opens the encoder. What it makes goes to out.
func (r *reply) encode(out io.Writer) error {
	ctx, cancel := context.WithCancel(r.ctx)
	e, err := r.codec.Open(ctx, r.rate, out)
	if err != nil {
		cancel()
		return err
	}
	r.encoder, r.stop = e, cancel
	return nil
}

// end ends an encoder that is still at work. After it nothing is written any more.
func (r *reply) end() {
	if r.encoder != nil {
		r.stop()
		_ = r.encoder.Close() // why it ended is known
	}
}

// put sends sound in the reply's rate, by way of its encoder.
func (r *reply) put(b []byte) error {
	if !r.encoded() {
		return r.write(b)
	}
	if r.encoder == nil && len(b) > 0 {
		if err := r.encode(flushing{r}); err != nil {
			return err
		}
	}
	return r.feed(b)
}

// feed gives sound to the encoder.
func (r *reply) feed(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := r.encoder.Write(b); err != nil {
		if why := r.encoder.Close(); why != nil {
			return why
		}
		return err
	}
	r.bytes += int64(len(b))
	return nil
}

// flushing writes a reply that is encoded as it is made.
type flushing struct{ r *reply }

func (f flushing) Write(b []byte) (int, error) {
	if err := f.r.write(b); err != nil {
		return 0, err
	}
	return len(b), f.r.out.Flush()
}

// write sends bytes in their final form.
func (r *reply) write(b []byte) error {
	const most = 64 << 10
	if len(b) > 0 && !r.started {
		if err := r.head(-1); err != nil {
			return err
		}
	}
	for len(b) > 0 {
		n := min(len(b), most)
		_ = r.out.SetWriteDeadline(time.Now().Add(r.wait)) // an in-memory writer has none
		if r.ctx.Err() != nil {                            // asked after: whoever ends ctx shortens the deadline next
			return context.Cause(r.ctx)
		}
		if _, err := r.w.Write(b[:n]); err != nil {
			return err
		}
		if !r.encoded() {
			r.bytes += int64(n)
		}
		b = b[n:]
	}
	return nil
}

// Listener is l for a server of speech: its connections buffer little of what their readers do not take, about a second of
// sound, so that one who has stopped reading is found out soon.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(64 << 10) // the system's own size will do as well
	}
	return c, err
}

package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// flipped is what the codec of the tests makes of sound.
func flipped(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0xff
	}
	return out
}

// flipping encodes in a goroutine of its own, as real ones do.
type flipping struct {
	in   *io.PipeWriter
	done chan error
}

func reversing(ctx context.Context, _ int, out io.Writer) (io.WriteCloser, error) {
	r, w := io.Pipe()
	f := &flipping{w, make(chan error, 1)}
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		b := make([]byte, 1000)
		for {
			n, err := r.Read(b)
			if n > 0 {
				if _, failed := out.Write(flipped(b[:n])); failed != nil {
					r.CloseWithError(failed)
					f.done <- failed
					break
				}
			}
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				f.done <- err
				break
			}
		}
		stop()
	}()
	return f, nil
}

func (f *flipping) Write(b []byte) (int, error) { return f.in.Write(b) }

func (f *flipping) Close() error {
	_ = f.in.Close()
	err := <-f.done
	f.done <- err
	return err
}

// The route of OpenAI's clients speaks, in the format and to the rules that they expect, whichever way it is called.
func TestOpenAISpeech(t *testing.T) {
	engine := &fake{sentences: true, say: func(r Request) *fakeUtterance { return blocks(3) }}
	s := start(t, Config{Engine: engine, Codecs: map[string]Codec{formatMP3: {"audio/mpeg", reversing}}})
	url := open(t, s)
	sound := bytes.Repeat(block100, 3)
	call := func(path, attributes, body string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", url.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if attributes != "" {
			req.Header.Set("X-Amzn-SageMaker-Custom-Attributes", attributes)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, b
	}
	for _, c := range []struct{ path, attributes string }{{pathSpeech, ""}, {"/invocations", "route=/v1/audio/speech"}, {"/invocations", "a=b, route=v1/audio/speech"}} {
		res, b := call(c.path, c.attributes, `{"model": "kokoro", "input": "Hello.", "voice": "somebody", "response_format": "pcm"}`)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "audio/pcm;rate=24000" || !bytes.Equal(b, sound) {
			t.Errorf("%v: %s %s, %d bytes", c, res.Status, res.Header.Get("Content-Type"), len(b))
		}
		res, b = call(c.path, c.attributes, `{"model": "kokoro", "input": "Hello.", "voice": "somebody"}`)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "audio/mpeg" || !bytes.Equal(b, flipped(sound)) {
			t.Errorf("%v by default: %s %s, %d bytes", c, res.Status, res.Header.Get("Content-Type"), len(b))
		}
		for _, bad := range []struct{ body, field string }{
			{`{"text": "Hello."}`, "input"}, {`{"input": "…"}`, "input"}, {`{"input": 5}`, "input"}, {`{"input": "a", "voice": "nobody"}`, "voice"},
			{`{"input": "a", "response_format": "flac"}`, "response_format"}, {`{"input": "a", "response_format": "opus"}`, "response_format"},
			{`{"input": "a", "speed": 4}`, "speed"}, {`{"input": "a", "stream_format": "sse"}`, "stream_format"}, {`[]`, "body"},
		} {
			res, b := call(c.path, c.attributes, bad.body)
			if res.StatusCode != 400 || !strings.Contains(string(b), `"field":"`+bad.field+`"`) {
				t.Errorf("%v %s: %s %s, want field %s", c, bad.body, res.Status, b, bad.field)
			}
		}
	}
	if res, _ := call("/invocations", "route=/v1/other", `{"text": "Hello."}`); res.StatusCode != 200 {
		t.Errorf("an attribute for somebody else: %s", res.Status)
	}
}

// An encoder of its own works on streams and on whole replies, is bounded like they are, and its failure breaks off.
func TestEncodedReplies(t *testing.T) {
	failing := func(_ context.Context, _ int, out io.Writer) (io.WriteCloser, error) {
		return nil, errors.New("no such program")
	}
	engine := &fake{sentences: true, say: func(r Request) *fakeUtterance { return blocks(5) }}
	s := start(t, Config{Engine: engine, MaxReply: 60_000, Codecs: map[string]Codec{formatMP3: {"audio/mpeg", reversing}, formatOpus: {"audio/ogg", failing}}})
	url := open(t, s)
	post := func(body string) (*http.Response, []byte) {
		t.Helper()
		res, err := http.Post(url.URL+"/invocations", "", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, b
	}
	want := flipped(bytes.Repeat(block100, 10))
	if res, b := post(`{"text": "One. Two.", "format": "mp3"}`); res.StatusCode != 200 || !bytes.Equal(b, want) {
		t.Errorf("stream: %s, %d bytes of %d", res.Status, len(b), len(want))
	}
	res, b := post(`{"text": "One. Two.", "format": "mp3", "stream": false}`)
	if res.StatusCode != 200 || !bytes.Equal(b, want) || res.Header.Get("X-Audio-Duration") != "1.000" || res.ContentLength != int64(len(want)) {
		t.Errorf("whole: %s, %d bytes of %d, %s s", res.Status, len(b), len(want), res.Header.Get("X-Audio-Duration"))
	}
	if res, b := post(`{"text": "One. Two.", "format": "mp3", "stream": false, "sample_rate": 8000}`); res.StatusCode != 200 || len(b) < len(want)/4 || len(b) > len(want)/2 {
		t.Errorf("at another rate: %s, %d bytes", res.Status, len(b))
	}
	if res, b := post(`{"text": "One. Two. Three.", "format": "mp3", "stream": false}`); res.StatusCode != 413 {
		t.Errorf("too long: %s %s", res.Status, b)
	}
	for _, stream := range []string{"true", "false"} {
		if res, b := post(`{"text": "One.", "format": "opus", "stream": ` + stream + `}`); res.StatusCode != 500 || !strings.Contains(string(b), CodeSynthesis) {
			t.Errorf("an encoder that does not start: %s %s", res.Status, b)
		}
	}
	if n := s.InFlight(); n != 0 {
		t.Errorf("%d requests are still inside", n)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"loadline/internal/audio"
	"loadline/internal/sample"
)

// hummer is the server with the engine kokoro on a stand-in model folder.
func hummer(t *testing.T, args ...string) *process {
	t.Helper()
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skip("espeak-ng is not installed: make setup gets it")
	}
	library, err := filepath.Abs("../../.onnxruntime/libonnxruntime.so.1")
	if named := os.Getenv("LOADLINE_ONNXRUNTIME"); named != "" {
		library = named
	}
	if err == nil {
		_, err = os.Stat(library)
	}
	if err != nil {
		t.Skip("ONNX Runtime is not here: make setup gets it, LOADLINE_ONNXRUNTIME names another")
	}
	dir := filepath.Join(t.TempDir(), "model")
	var said bytes.Buffer
	if code := run(t.Context(), []string{"stand-in", dir}, nil, &said, &said); code != 0 {
		t.Fatalf("stand-in: exit %d: %s", code, said.String())
	}
	return serving(t, nil, append([]string{"--addr", "127.0.0.1:0", "--engine", "kokoro", "--device", "cpu", "--model-dir", dir, "--onnxruntime", library}, args...)...)
}

// post sends a body and returns the answer.
func (p *process) post(path string, body any) (*http.Response, []byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	res, err := http.Post(p.url+path, "application/json", bytes.NewReader(b))
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err = io.ReadAll(res.Body)
	return res, b, err
}

type fields map[string]any

// What people send to speech servers, and what broke others of them: every text is spoken or refused with its field named.
func TestKokoroTexts(t *testing.T) {
	p := hummer(t)
	for _, c := range []struct {
		body  fields
		field string // of the refusal; "" is spoken
	}{
		// Nothing to speak, and silence inside a text.
		{fields{"text": ""}, "text"}, {fields{"text": "  "}, "text"}, {fields{"text": "..."}, "text"}, {fields{"text": "\u200b"}, "text"},
		{fields{"text": "only 🎉"}, ""}, {fields{"text": "🎉"}, "text"}, {fields{"text": "[pause:1s] Hello"}, ""}, {fields{"text": "Hello\n\n\n\nworld"}, ""},
		{fields{"text": "One. Two. Three. … Four."}, ""},
		// Voices.
		{fields{"voice": "af_heart(2.2)+af_sky(2.8)+af_bella(1.5)"}, ""}, {fields{"voice": "af_bella+af_sky"}, ""}, {fields{"voice": "af_bella(0)+af_sky(1)"}, ""},
		{fields{"voice": "af_bella(-1)+af_sky(2)"}, "voice"}, {fields{"voice": "af_bella(0)"}, "voice"}, {fields{"voice": "af_bella(2"}, "voice"},
		{fields{"voice": "+af_sky"}, "voice"}, {fields{"voice": "ballad"}, "voice"}, {fields{"voice": "../../etc/passwd"}, "voice"}, {fields{"voice": "AF_BELLA"}, "voice"},
		{fields{"voice": "af_bella+ff_siwis"}, "language"}, {fields{"voice": strings.Repeat("af_sky+", 39) + "af_sky"}, "voice"},
		// Numbers, markup, odd characters.
		{fields{"text": "82 million for 3,497 cows in 1999, $7667.47, v1.2.3 at 10:05 pm"}, ""}, {fields{"text": "a < b and **bold** # head https://ex.org/p?q=1 me@ex.org"}, ""},
		{fields{"text": "small group)—and then"}, ""}, {fields{"text": "a\u00a0b\tc"}, ""},
		// Languages.
		{fields{"voice": "jf_alpha"}, "voice"}, {fields{"language": "ja"}, "language"}, {fields{"text": "Здравствуйте"}, "text"},
		{fields{"text": "Hello Здравствуйте."}, ""}, {fields{"text": "Hello there.", "pronunciations": map[string]string{"there": "/ðˈɛː/"}}, ""}, {fields{"voice": "bf_emma", "language": "en-gb"}, ""},
		{fields{"text": "Bonjour the world", "voice": "ff_siwis"}, ""},
	} {
		body := fields{"text": "Hello there.", "format": "pcm"}
		for k, v := range c.body {
			body[k] = v
		}
		res, b, err := p.post("/invocations", body)
		if err != nil {
			t.Fatal(err)
		}
		var refusal struct{ Error, Field string }
		switch {
		case c.field == "" && (res.StatusCode != 200 || len(b) < 4800):
			t.Errorf("%v: %s, %d bytes %.200s", c.body, res.Status, len(b), b)
		case c.field != "":
			if err := json.Unmarshal(b, &refusal); err != nil || res.StatusCode != 400 || refusal.Field != c.field {
				t.Errorf("%v: %s %.300s, want field %s", c.body, res.Status, b, c.field)
			}
		}
	}
	// Streamed and whole are the same samples.
	long := strings.Repeat("alpha bravo charlie ", 4) + ". Ten words are in this sentence, more or less, roughly." // less than a listener may be ahead
	_, streamed, err := p.post("/invocations", fields{"text": long, "format": "pcm"})
	if err != nil {
		t.Fatal(err)
	}
	if _, whole, err := p.post("/invocations", fields{"text": long, "format": "pcm", "stream": false}); err != nil || !bytes.Equal(streamed, whole) {
		t.Errorf("%d bytes streamed, %d whole: %v", len(streamed), len(whole), err)
	}
	// A pause adds its own length.
	said := func(text string) int {
		res, b, err := p.post("/invocations", fields{"text": text, "format": "pcm", "stream": false})
		if err != nil || res.StatusCode != 200 {
			t.Errorf("%s: %v %.200s", text, err, b)
		}
		return len(b) / 2
	}
	alone := said("Hello there.") + said("Good day.")
	if got := said(`<break time="300ms"/> Hello there. [pause:1s] Good day. <break strength="x-weak"/>`) - alone; got != 24*1400 {
		t.Errorf("three pauses add %d samples, want %d", got, 24*1400)
	}
	// Formats, by both routes.
	for _, format := range []string{"mp3", "opus", "wav", "pcm"} {
		for path, body := range map[string]fields{"/invocations": {"text": "Hello there.", "format": format}, "/v1/audio/speech": {"input": "Hello there.", "response_format": format}} {
			res, b, err := p.post(path, body)
			if err != nil {
				t.Fatal(err)
			}
			if program := map[string]string{"mp3": "lame", "opus": "opusenc"}[format]; program != "" {
				if _, err := exec.LookPath(program); err != nil {
					t.Logf("%s is not installed: make setup gets it", program)
					continue
				}
			}
			var m audio.Meter
			m.Start(audio.Sound, res.Header.Get("Content-Type"))
			m.Write(1, b)
			if h := m.End(); res.StatusCode != 200 || h.Outcome != sample.OK {
				t.Errorf("%s as %s: %s %s %v %s", path, format, res.Status, res.Header.Get("Content-Type"), h.Outcome, h.Cause)
			}
		}
	}
	p.signal(syscall.SIGTERM)
	if out := p.ended(); !strings.Contains(out, "kokoro: loadline/stand-in@hub-8-1") || !strings.Contains(out, "(checked)") {
		t.Errorf("the log does not say what was loaded:\n%s", out)
	}
}

// Parallel requests hear what each would have heard alone, sample for sample.
func TestKokoroParallel(t *testing.T) {
	p := hummer(t, "--sessions", "2")
	texts := []string{"Hello there.", "Please hold the line, and somebody will be with you soon.", "One, two, three, four, five.", "It costs twenty dollars. That is all."}
	voices := []string{"af_heart", "am_adam", "bf_emma", "af_bella(2)+af_sky(1)"}
	say := func(text, voice string) ([]byte, error) {
		res, b, err := p.post("/invocations", fields{"text": text, "voice": voice, "format": "pcm"})
		if err == nil && res.StatusCode != 200 {
			err = fmt.Errorf("%s %.200s", res.Status, b)
		}
		return b, err
	}
	want := map[string][]byte{}
	for _, text := range texts {
		for _, v := range voices {
			b, err := say(text, v)
			if err != nil {
				t.Fatal(err)
			}
			want[text+v] = b
		}
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 10 {
				text, v := texts[(n+i)%4], voices[(n*3+i/2)%4]
				if b, err := say(text, v); err != nil || !bytes.Equal(b, want[text+v]) {
					t.Errorf("%q by %s: %d bytes, alone %d: %v", text, v, len(b), len(want[text+v]), err)
				}
			}
		})
	}
	wg.Wait()
	p.signal(syscall.SIGTERM)
	p.ended()
}

// What is wrong with the settings is said with the flag's name, before anything is served.
func TestKokoroSettings(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--model-dir", "/nowhere"}, "--model-dir"}, {[]string{"--model-dir", "kokoro_test.go"}, "is a file"}, {[]string{"--device", "tpu"}, "--device"},
		{[]string{"--sessions", "0"}, "--sessions"}, {[]string{"--max-tokens", "511"}, "--max-tokens"},
	} {
		var said bytes.Buffer
		code := run(t.Context(), append([]string{"serve", "--engine", "kokoro", "--addr", "127.0.0.1:0"}, c.args...), nil, &said, &said)
		if code != 2 || !strings.Contains(said.String(), c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, said.String())
		}
	}
	var said bytes.Buffer
	for _, args := range [][]string{{}, {"a", "b"}, {"dir", "--export", "x"}, {"dir", "--channels", "0"}} {
		if code := run(t.Context(), append([]string{"stand-in"}, args...), nil, &said, &said); code != 2 {
			t.Errorf("stand-in %v: exit %d", args, code)
		}
	}
	if _, err := os.Stat("dir"); err == nil {
		t.Error("a refused stand-in was written")
	}
}

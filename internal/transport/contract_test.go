package transport

import (
	"strings"
	"testing"
	"time"

	"loadline/internal/audio"
	"loadline/internal/sample"
)

func header(t testing.TB) []byte {
	h, err := audio.WAVHeader(audio.Raw, 0) // size 0: the server does not know it
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func silence(n int) []byte { return make([]byte, n) }

func speech(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0x40
	}
	return b
}

// The contract that every implementation of load.Transport keeps. Times are milliseconds, -1 for never.
func TestContract(t *testing.T) {
	head := header(t)
	normal := []step{{20, head}, {400, silence(4800)}, {900, speech(4800)}}
	const never = -1
	type want struct {
		outcome                   sample.Outcome
		cause                     string // begins with it
		byte, audio, audible, end int
	}
	for _, tc := range []struct {
		name   string
		script script
		want   want
	}{
		{"header, silence, speech", script{steps: normal}, want{sample.OK, "", 20, 400, 900, 900}},
		{"header split", script{steps: []step{{20, head[:20]}, {25, head[20:]}, {400, silence(4800)}, {900, speech(4800)}}}, want{sample.OK, "", 20, 400, 900, 900}},
		{"all at once", script{steps: []step{{900, append(header(t), speech(4800)...)}}}, want{sample.OK, "", 900, 900, 900, 900}},
		{"odd pieces", script{mime: "audio/pcm", steps: []step{{30, speech(4063)}, {60, speech(1697)}}}, want{sample.OK, "", 30, 30, 30, 60}},
		{"a byte left", script{mime: "audio/pcm", steps: []step{{30, speech(4063)}, {60, speech(1697)}, {70, speech(1)}}}, want{sample.Truncated, "truncated: 1 byte left", 30, 30, 30, 70}},
		{"no body", script{}, want{sample.Empty, "no bytes in the body", never, never, never, 1}},
		{"header only", script{steps: []step{{3, head}}}, want{sample.Empty, "no audio: 44 bytes of header only", 3, never, never, 3}},
		{"JSON under an audio type", script{steps: []step{{3, []byte(`{"error":{"code":"boom","message":"the model fell over"}}`)}}}, want{sample.ModelError, "a JSON body where audio was due: boom: the model fell over", 3, never, never, 3}},
		{"cut in the middle", script{steps: normal[:2], end: cut}, want{sample.Truncated, "truncated: the reply ended without its end, in the middle of the reply", 20, 400, never, 400}},
		{"cut before audio", script{steps: normal[:1], end: cut}, want{sample.Truncated, "truncated: the reply ended without its end, before the first audio", 20, never, never, 20}},
		{"reset in the middle", script{steps: normal[:2], end: reset}, want{sample.ServerError, "connection reset by the server in the middle of the reply", 20, 400, never, 400}},
		{"stall in the middle", script{steps: normal[:2], end: stall}, want{sample.Timeout, "the deadline passed in the middle of the reply", 20, 400, never, 400}},
		{"stall before audio", script{end: stall}, want{sample.Timeout, "the deadline passed before the first audio", never, never, never, 1}},
		{"no headers", script{end: mute}, want{sample.Timeout, "the deadline passed before the reply began", never, never, never, 1}},
		{"saturated", script{status: 503, error: `{"error":"queue_saturated","message":"50 of 50","queue_depth":50,"retryable":true}`}, want{sample.Rejected, "queue_saturated", never, never, never, 1}},
		{"stale", script{status: 408, error: `{"error":"request_stale","message":"too old"}`}, want{sample.Stale, "408 request timeout: request_stale: too old", never, never, never, 1}},
		{"too many", script{status: 429, error: ``}, want{sample.Throttled, "429 too many requests", never, never, never, 1}},
		{"not found", script{status: 404, error: "no such route"}, want{sample.ClientError, "404 not found: no such route", never, never, never, 1}},
		{"invalid", script{status: 400, error: `{"detail":"text is empty"}`}, want{sample.ClientError, "400 bad request: text is empty", never, never, never, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, f := range doors(t) {
				t.Run(f.name, func(t *testing.T) {
					f.srv.t = t
					got, w := f.srv.ask(f.t, tc.script), tc.want
					switch { // what a version of HTTP cannot tell
					case f.http2() && (tc.script.end == cut || tc.script.end == reset):
						w.outcome, w.cause = sample.ServerError, ""
					case tc.script.end == reset && got.Outcome == sample.Truncated: // the reset may overtake the data, or not
						w.outcome, w.cause = sample.Truncated, ""
					}
					if got.Outcome != w.outcome || !strings.HasPrefix(got.Cause, w.cause) {
						t.Errorf("%s (%s), want %s (%s)", got.Outcome, got.Cause, w.outcome, w.cause)
					}
					at := func(ms int) sample.Nanos {
						if ms == never {
							return sample.None
						}
						return sample.Since(time.Duration(ms) * time.Millisecond)
					}
					if got.FirstByte != at(w.byte) || got.FirstAudio != at(w.audio) || got.FirstAudible != at(w.audible) || got.End != at(w.end) {
						t.Errorf("byte %d, audio %d, audible %d, end %d; want %d, %d, %d, %d ms", got.FirstByte/1e6, got.FirstAudio/1e6, got.FirstAudible/1e6, got.End/1e6, w.byte, w.audio, w.audible, w.end)
					}
					if early := tc.script.end != mute; got.Headers.Known() != early || !got.Conn.Known() {
						t.Errorf("connection at %d, headers at %d", got.Conn, got.Headers)
					}
					if got.Headers.Known() && got.Headers != at(1) {
						t.Errorf("headers at %d ms, want 1: sent before any of the body", got.Headers/1e6)
					}
					if err := got.Check(); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// What a good reply leaves in the record, and what the request looked like.
func TestRecord(t *testing.T) {
	for _, f := range forms(t) {
		t.Run(f.name, func(t *testing.T) {
			f.srv.t = t
			for range 2 {
				got := f.srv.ask(f.t, script{steps: []step{{20, header(t)}, {400, speech(2000)}, {500, speech(2800)}}})
				if got.Status != 200 || got.Bytes != 4844 || got.Audio != 0.1 || got.Outcome != sample.OK {
					t.Fatalf("%+v", got)
				}
				if got.Stall < 0.0583 || got.Stall > 0.0584 { // 2,000 bytes play for 41.7 ms of the 100
					t.Errorf("stall %v s, want 0.0583", got.Stall)
				}
				sum := 0
				for _, c := range got.Chunks {
					sum += c.Bytes
				}
				if len(got.Chunks) < 3 || sum != 4844 || got.Chunks[0] != (sample.Chunk{At: got.FirstByte, Bytes: 44}) {
					t.Errorf("chunks %v", got.Chunks)
				}
				r, body := f.srv.last()
				if body != `{"text":"Say \"hi\"."}` || r.Header.Get("Content-Type") != "application/json" || r.Method != "POST" {
					t.Errorf("%s with %s %q", r.Method, r.Header.Get("Content-Type"), body)
				}
				if r.Header.Get("Accept-Encoding") == "gzip" {
					t.Error("asks for compression")
				}
				if !f.platform() {
					continue
				}
				for k, v := range map[string]string{"X-Amzn-Sagemaker-Custom-Attributes": "route=/x", "X-Amzn-Sagemaker-Inference-Id": "id-7", "X-Amzn-Sagemaker-Target-Variant": "primary"} {
					if r.Header.Get(k) != v {
						t.Errorf("%s: %q, want %q", k, r.Header.Get(k), v)
					}
				}
				if !strings.HasPrefix(r.URL.Path, "/endpoints/speech-kokoro/invocations") || !strings.Contains(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256") {
					t.Errorf("%s, authorization %q", r.URL.Path, r.Header.Get("Authorization"))
				}
			}
			again := f.srv.ask(f.t, script{steps: []step{{5, header(t)}, {6, speech(2)}}})
			if !again.Reused || f.srv.conns.Load() != 1 {
				t.Errorf("reused %v, %d connections; want one connection for three requests", again.Reused, f.srv.conns.Load())
			}
			f.srv.ask(f.t, script{status: 503, error: "{}"})
			if after := f.srv.ask(f.t, script{steps: []step{{5, header(t)}, {6, speech(2)}}}); !after.Reused {
				t.Error("an error reply cost the connection")
			}
		})
	}
}

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"loadline/internal/artifact"
	"loadline/internal/exit"
)

// doorServer answers on every door with a tenth of a second of sound, and notes what it was sent.
func doorServer(t *testing.T) (*httptest.Server, func() string) {
	sound := bytes.Repeat([]byte{0, 0x40}, 2400)
	seen := make(chan string, 4096)
	note := func(r *http.Request, body []byte) {
		select {
		case seen <- fmt.Sprint(r.URL, r.Header, string(body)):
		default:
		}
	}
	mux := http.NewServeMux()
	chunked := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		note(r, body)
		w.Header().Set("Content-Type", "audio/pcm")
		w.Write(sound)
	}
	mux.HandleFunc("POST /speak", chunked)
	mux.HandleFunc("POST /v1/audio/speech", chunked)
	mux.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		note(r, body)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"audio\":%q}\n\ndata: [DONE]\n\n", base64.StdEncoding.EncodeToString(sound))
	})
	mux.HandleFunc("GET /invocations-bidirectional-stream", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			_, b, err := c.Read(context.Background())
			if err != nil {
				return
			}
			note(r, b)
			c.Write(context.Background(), websocket.MessageText, []byte(`{"type":"synthesis_start","sample_rate":24000}`))
			c.Write(context.Background(), websocket.MessageBinary, sound)
			c.Write(context.Background(), websocket.MessageText, []byte(`{"type":"synthesis_complete","samples":2400}`))
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv, func() string {
		select {
		case s := <-seen:
			return s
		case <-time.After(30 * time.Second):
			t.Fatal("nothing was asked")
			return ""
		}
	}
}

// do runs tts-bench in this process.
func do(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, env, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// say speaks through every door, and what it sends is what the door wants.
func TestSayThroughEveryDoor(t *testing.T) {
	srv, asked := doorServer(t)
	ws := strings.Replace(srv.URL, "http", "ws", 1)
	for _, tc := range []struct{ name, url, transport, want string }{
		{"by the scheme", srv.URL + "/speak", "", `{"text":"Hello."}`},
		{"http", srv.URL + "/speak", "http", `{"text":"Hello."}`},
		{"raw", srv.URL + "/speak", "raw", "Hello."},
		{"openai-speech", srv.URL, "openai-speech", `"input":"Hello."`},
		{"sse", srv.URL + "/events", "sse", `{"text":"Hello."}`},
		{"websocket by the scheme", ws, "", `{"text":"Hello.","request_id":"1"}`},
		{"websocket", srv.URL + "/invocations-bidirectional-stream", "websocket", `{"text":"Hello.","request_id":"1"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "say.wav")
			args := []string{"say", "--url", tc.url, "--out", out, "Hello."}
			if tc.transport != "" {
				args = append(args, "--transport", tc.transport)
			}
			code, stdout, stderr := do(t, nil, args...)
			if code != exit.OK || !strings.Contains(stdout, "first audio") {
				t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
			}
			if wav, err := os.ReadFile(out); err != nil || len(wav) != 44+4800 {
				t.Errorf("%d bytes saved, %v", len(wav), err)
			}
			if got := asked(); !strings.Contains(got, tc.want) {
				t.Errorf("the server got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestDoorsAreChecked(t *testing.T) {
	for _, args := range [][]string{
		{"--url", "ftp://127.0.0.1/"},
		{"--url", "ws://127.0.0.1:1/", "--transport", "sse"},
		{"--url", "http://127.0.0.1:1/", "--transport", "invoke"},
		{"--url", "http://127.0.0.1:1/", "--transport", "carrier-pigeon"},
		{"--url", "http://127.0.0.1:1/", "--body", `{"text":"{{.Text}}","key":"${NOT_SET_HERE}"}`},
		{"--url", "ws://127.0.0.1:1/", "--body", "no place for the text"},
		{"--endpoint", "x", "--end", "close"},
		{"--endpoint", "x", "--transport", "websocket"},
	} {
		if code, _, stderr := do(t, nil, append(append([]string{"say"}, args...), "Hello.")...); code != exit.Misused || stderr == "" {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}

// A measurement by URL names its door, and nothing that was secret is in any file.
func TestNothingSecretIsKept(t *testing.T) {
	env := []string{"SPEECH_KEY=hush-1", "BODY_KEY=hush-2"}
	for _, tc := range []struct{ transport, scheme, path, body string }{
		{"websocket", "ws", "/invocations-bidirectional-stream?token=hush-4", `{"text":"{{.Text}}","request_id":"{{.ID}}","api_key":"${BODY_KEY}"}`},
		{"sse", "http", "/events?token=hush-4", `{"text":"{{.Text}}","api_key":"${BODY_KEY}"}`},
	} {
		t.Run(tc.transport, func(t *testing.T) {
			srv, asked := doorServer(t)
			dir := t.TempDir()
			url := strings.Replace(srv.URL, "http://", tc.scheme+"://me:hush-3@", 1) + tc.path
			code, stdout, stderr := do(t, env, "qmax", "--url", url, "--transport", tc.transport, "--name", "mine", "--body", tc.body, "--header", "X-Api-Key: $SPEECH_KEY",
				"--concurrency", "1", "--hold", "1s", "--measure-window", "500ms", "--idle", "0", "--out", dir)
			got := asked()
			if !strings.Contains(got, "hush-1") || !strings.Contains(got, "hush-2") || !strings.Contains(got, "token=hush-4") {
				t.Errorf("the server got %s", got)
			}
			files := 0
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				files++
				text := readAll(t, path)
				if strings.Contains(text, "hush") {
					t.Errorf("%s holds a secret", filepath.Base(path))
				}
				if strings.HasSuffix(path, ".gz") && !strings.Contains(text, `"outcome":"ok"`) {
					t.Errorf("no request was answered: %s", text)
				}
				if strings.HasSuffix(path, ".json") {
					doc, err := artifact.ReadQMax([]byte(text))
					if err != nil {
						return err
					}
					if doc.Target.Transport != tc.transport || doc.Target.Model != "mine" || len(doc.Rungs) != 1 {
						t.Errorf("%+v, %+v", doc.Target, doc.Rungs)
					}
				}
				return nil
			})
			if err != nil || files < 2 {
				t.Errorf("exit %d, %d files, %v\n%s%s", code, files, err, stdout, stderr)
			}
			for _, said := range []string{stdout, stderr} {
				if strings.Contains(said, "hush") {
					t.Errorf("a secret was printed: %s", said)
				}
			}
		})
	}
}

// readAll is a file as text, unzipped where it is a request log.
func readAll(t *testing.T, path string) string {
	t.Helper()
	if strings.HasSuffix(path, ".gz") {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// speaker starts a small speech server of the kind people host: one voice behind a lock, espeak-ng as the voice, its WAV
// streamed as it is spoken. It sets $SPEAKER.
func speaker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: speaker")
	}
	voice, err := exec.LookPath("espeak-ng")
	ts.Check(err)
	turn := make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ Text string }
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&ask); err != nil || ask.Text == "" {
			http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
			return
		}
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-r.Context().Done():
			return
		}
		if err := sayWith(r.Context(), voice, ask.Text, w); err != nil {
			panic(http.ErrAbortHandler) // audio has begun: only a broken stream can still say so
		}
	}))
	ts.Defer(srv.Close)
	ts.Setenv("SPEAKER", srv.URL)
}

func sayWith(ctx context.Context, voice, text string, w http.ResponseWriter) error {
	cmd := exec.CommandContext(ctx, voice, "--stdout", "-v", "en-us", "--", text)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "audio/wav")
	flush := http.NewResponseController(w)
	buf := make([]byte, 8<<10)
	for {
		n, err := out.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				break
			}
			_ = flush.Flush() // a reader that has gone shows at the next write
		}
		if err != nil {
			break
		}
	}
	return cmd.Wait()
}

// glob sets a variable to the only file that matches a pattern.
func glob(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: glob VARIABLE PATTERN")
	}
	found, err := filepath.Glob(ts.MkAbs(args[1]))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%d files match %s: %v", len(found), args[1], found)
	}
	ts.Setenv(args[0], found[0])
}

// code runs a command and wants an exit code: code N[|N…] COMMAND [ARG…].
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND [ARG…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = "?"
		if exited, ok := err.(*exec.ExitError); ok {
			got = strconv.Itoa(exited.ExitCode())
		}
	}
	if !slices.Contains(strings.Split(args[0], "|"), got) {
		ts.Fatalf("%v exited %s, want %s", args[1:], got, args[0])
	}
}

// wav wants a file that is WAV with true sizes and more than a tenth of a second of sound.
func wav(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: wav FILE")
	}
	b := []byte(ts.ReadFile(args[0]))
	if len(b) < 44 || string(b[:4]) != "RIFF" || string(b[36:40]) != "data" {
		ts.Fatalf("%s is not WAV: %d bytes", args[0], len(b))
	}
	riff, data, rate := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[40:]), binary.LittleEndian.Uint32(b[28:])
	if int(riff) != len(b)-8 || int(data) != len(b)-44 || data < rate/10 {
		ts.Fatalf("%s states %d and %d bytes of %d, at %d a second", args[0], riff, data, len(b), rate)
	}
}

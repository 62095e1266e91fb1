package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"loadline/internal/audio"
	"loadline/internal/sample"
)

var update = flag.Bool("update", false, "rewrite the goldens of the scripts")

// self makes this binary the command when it is set.
const self = "SPEECH_SERVER_SELF"

func TestMain(m *testing.M) {
	if os.Getenv(self) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"speech-server": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			path, err := exec.LookPath("speech-server")
			e.Setenv("SERVER", path)
			return err
		},
	})
}

// process is a running server.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	out  chan string // stdout after its end
	done chan error
}

// serving starts the server and waits until /ping is 200.
func serving(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(me, append([]string{"serve"}, args...)...)
	cmd.Env = append(append(os.Environ(), self+"=1"), env...)
	return started(t, cmd)
}

// started starts the command and waits until /ping is 200.
func started(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, out: make(chan string, 1), done: make(chan error, 1)}
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	r := bufio.NewReader(stdout)
	line, err := r.ReadString('\n')
	url, _, ok := strings.Cut(strings.TrimPrefix(line, "listening "), " ")
	if err != nil || !ok {
		t.Fatalf("started: %q %v", line, err)
	}
	p.url = strings.Replace(url, "[::]", "127.0.0.1", 1)
	go func() {
		rest, _ := io.ReadAll(r)
		p.out <- string(rest)
		p.done <- p.cmd.Wait()
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 4000 {
		if res, err := http.Get(p.url + "/ping"); err == nil {
			res.Body.Close()
			if res.StatusCode == 200 {
				return p
			}
		}
		<-tick.C
	}
	t.Fatal("/ping is not 200 after 20 s")
	return nil
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ended waits for the end, which is exit 0, and returns what was logged.
func (p *process) ended() string {
	p.t.Helper()
	out := <-p.out
	if err := <-p.done; err != nil {
		p.t.Errorf("ended: %v\n%s", err, out)
	}
	return out
}

// The platform stops an instance: /ping fails at once, new work is refused, short streams end, a long one stops at a
// sentence and is told where, a second signal changes nothing, and the exit is 0, in the time given.
func TestStop(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "slow.yaml")
	text := "name: slow\nservice: {base_ms: 1, per_char_ms: 20}\naudio: {per_char_s: 0.02, sentences: true}\n"
	if err := os.WriteFile(profile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := serving(t, nil, "--addr", "127.0.0.1:0", "--profile", profile, "--drain", "3s")
	type end struct {
		err     error
		resume  string
		samples int64
	}
	say := func(text string) chan end {
		c := make(chan end, 1)
		began := make(chan struct{})
		go func() {
			req, _ := http.NewRequest("POST", p.url+"/invocations", strings.NewReader(fmt.Sprintf(`{"text": %q, "format": "pcm"}`, text)))
			req.Header.Set("TE", "trailers")
			res, err := http.DefaultClient.Do(req)
			close(began)
			if err != nil {
				c <- end{err: err}
				return
			}
			defer res.Body.Close()
			n, err := io.Copy(io.Discard, res.Body)
			c <- end{err, res.Trailer.Get("X-Resume-At"), n / 2}
		}()
		<-began
		return c
	}
	short, long := say("Twenty characters c. Another one."), say(strings.Repeat("Twenty characters c. ", 40))
	told := time.Now()
	p.signal(syscall.SIGTERM)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := http.Get(p.url + "/ping")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == 503 {
			break
		}
		if time.Since(told) > 2*time.Second {
			t.Fatal("/ping is still 200")
		}
		<-tick.C
	}
	res, err := http.Post(p.url+"/invocations", "", strings.NewReader(`{"text": "new"}`))
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(res.Body); res.StatusCode != 503 || !strings.Contains(string(b), "shutting_down") {
		t.Errorf("new work: %d %s", res.StatusCode, b)
	}
	res.Body.Close()
	p.signal(syscall.SIGTERM)
	if e := <-short; e.err != nil || e.resume != "" || e.samples == 0 {
		t.Errorf("the short one: %+v", e)
	}
	e := <-long
	if sentence := int64(20 * 480); e.err != nil || e.resume == "" || fmt.Sprint(e.samples/sentence) != e.resume || e.samples%sentence != 0 {
		t.Errorf("the long one: %+v", e)
	}
	out := p.ended()
	if d := time.Since(told); d > 10*time.Second {
		t.Errorf("stopped after %v", d)
	}
	if !strings.Contains(out, "=== STAGE ready ") || !strings.Contains(out, `"Namespace":"Loadline/Speech"`) || !strings.Contains(out, "resume at "+e.resume) {
		t.Errorf("log:\n%s", out)
	}
}

// The environment of a container: the port, the bound, and the names of its metrics.
func TestEnvironment(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	p := serving(t, []string{fmt.Sprintf("SAGEMAKER_BIND_TO_PORT=%d", port), "SPEECH_PROFILE=quick", "SCHED=fifo", "MAX_QUEUE_DEPTH=7", "ENDPOINT_NAME=speech-x", "SLO_MS=250"})
	if !strings.HasSuffix(p.url, fmt.Sprintf(":%d", port)) {
		t.Errorf("listens at %s", p.url)
	}
	p.signal(syscall.SIGINT)
	out := p.ended()
	for _, want := range []string{`"EndpointName":"speech-x"`, `"QueueDepth":0`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing:\n%s", want, out)
		}
	}
}

// Real speech, where the program is installed: sound at the rate asked for, first and whole.
func TestRealSpeech(t *testing.T) {
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skip("espeak-ng is not installed: apt-get install espeak-ng")
	}
	p := serving(t, nil, "--addr", "127.0.0.1:0", "--engine", "espeak", "--workers", "2")
	var lengths []float64
	for _, body := range []string{`{"text": "Hello there. How are you today?"}`, `{"text": "Hello there. How are you today?", "stream": false, "sample_rate": 8000}`,
		`{"text": "Hello there. How are you today?", "format": "pcm", "sample_rate": 16000, "voice": "am_adam"}`} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		req, _ := http.NewRequestWithContext(ctx, "POST", p.url+"/invocations", strings.NewReader(body))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		cancel()
		var m audio.Meter
		m.Start(audio.Sound, res.Header.Get("Content-Type"))
		m.Write(1, b)
		h := m.End()
		if err != nil || h.Outcome != sample.OK || h.FirstAudible == sample.None {
			t.Fatalf("%s: %s %s %v", body, res.Status, h.Cause, err)
		}
		lengths = append(lengths, h.Seconds)
	}
	if lengths[0] < 1.5 || lengths[0] > 4 || lengths[1] < 0.9*lengths[0] || lengths[1] > 1.1*lengths[0] {
		t.Errorf("lengths %v", lengths)
	}
	p.signal(syscall.SIGTERM)
	p.ended()
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  map[string]string
		want int
	}{
		{[]string{"--version"}, nil, 0}, {[]string{"serve", "--help"}, nil, 0}, {[]string{"speak"}, nil, 2}, {[]string{"serve", "now"}, nil, 2},
		{[]string{"serve", "--nothing"}, nil, 2}, {[]string{"serve"}, map[string]string{"MAX_QUEUE_DEPTH": "-1"}, 2},
		{[]string{"serve", "--addr", "256.0.0.1:1"}, nil, 1},
	} {
		if got := run(t.Context(), c.args, c.env, io.Discard, io.Discard); got != c.want {
			t.Errorf("%v with %v: exit %d, want %d", c.args, c.env, got, c.want)
		}
	}
}

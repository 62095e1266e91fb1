package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestContract(t *testing.T) {
	s := start(t, Config{Engine: &fake{}, MaxBody: 1000, Instance: "i-1"})
	long := `{"text": "` + strings.Repeat("a", 1000) + `"}`
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code, field              string
	}{
		{"ping", "GET", "/ping", "", 200, "", ""},
		{"ping by POST", "POST", "/ping", "", 200, "", ""},
		{"ping by DELETE", "DELETE", "/ping", "", 405, CodeBadMethod, ""},
		{"no such route", "GET", "/health", "", 404, CodeNotFound, ""},
		{"invocations by GET", "GET", "/invocations", "", 405, CodeBadMethod, ""},
		{"speak", "POST", "/invocations", `{"text": "Hello."}`, 200, "", ""},
		{"speak, everything said", "POST", "/invocations", `{"text": "Hello.", "voice": "somebody", "speed": 1.5, "stream": true, "format": "wav", "sample_rate": 24000, "request_timestamp": 1}`, 200, "", ""},
		{"speak, nulls are defaults", "POST", "/invocations", `{"text": "Hello.", "voice": null, "speed": null}`, 200, "", ""},
		{"unknown fields are left alone", "POST", "/invocations", `{"text": "Hello.", "mood": 3}`, 200, "", ""},
		{"a digit is speakable", "POST", "/invocations", `{"text": "7"}`, 200, "", ""},
		{"a leading pause", "POST", "/invocations", `{"text": "[pause:1s] Hello"}`, 200, "", ""},
		{"empty body", "POST", "/invocations", ``, 400, CodeInvalid, "body"},
		{"half an object", "POST", "/invocations", `{"text": "Hel`, 400, CodeInvalid, "body"},
		{"two objects", "POST", "/invocations", `{"text": "a"}{"text": "b"}`, 400, CodeInvalid, "body"},
		{"a list", "POST", "/invocations", `["Hello."]`, 400, CodeInvalid, "body"},
		{"a string", "POST", "/invocations", `"Hello."`, 400, CodeInvalid, "body"},
		{"null", "POST", "/invocations", `null`, 400, CodeInvalid, "text"},
		{"not UTF-8", "POST", "/invocations", "{\"text\": \"\xff\xfe\"}", 400, CodeInvalid, "body"},
		{"no text", "POST", "/invocations", `{"voice": "somebody"}`, 400, CodeInvalid, "text"},
		{"text is a number", "POST", "/invocations", `{"text": 5}`, 400, CodeInvalid, "text"},
		{"blank", "POST", "/invocations", `{"text": "  \n\n"}`, 400, CodeInvalid, "text"},
		{"punctuation", "POST", "/invocations", `{"text": "?!…—"}`, 400, CodeInvalid, "text"},
		{"invisible", "POST", "/invocations", `{"text": "\u200b\u00a0"}`, 400, CodeInvalid, "text"},
		{"voice is a list", "POST", "/invocations", `{"text": "a", "voice": ["x"]}`, 400, CodeInvalid, "voice"},
		{"voice of nobody", "POST", "/invocations", `{"text": "a", "voice": "nobody"}`, 400, CodeInvalid, "voice"},
		{"speed out of range", "POST", "/invocations", `{"text": "a", "speed": 9}`, 400, CodeInvalid, "speed"},
		{"speed is a string", "POST", "/invocations", `{"text": "a", "speed": "fast"}`, 400, CodeInvalid, "speed"},
		{"format", "POST", "/invocations", `{"text": "a", "format": "mp3"}`, 400, CodeInvalid, "format"},
		{"rate too low", "POST", "/invocations", `{"text": "a", "sample_rate": 4000}`, 400, CodeInvalid, "sample_rate"},
		{"rate in between", "POST", "/invocations", `{"text": "a", "sample_rate": 16000.5}`, 400, CodeInvalid, "sample_rate"},
		{"another rate", "POST", "/invocations", `{"text": "a", "sample_rate": 16000}`, 200, "", ""},
		{"resume beyond the end", "POST", "/invocations", `{"text": "a", "resume_at": 1}`, 400, CodeInvalid, "resume_at"},
		{"resume is negative", "POST", "/invocations", `{"text": "a", "resume_at": -1}`, 400, CodeInvalid, "resume_at"},
		{"only a tag", "POST", "/invocations", `{"text": "<break time=\"1s\"/> 🎉"}`, 400, CodeInvalid, "text"},
		{"session without upgrade", "GET", "/invocations-bidirectional-stream", ``, 426, CodeInvalid, "Upgrade"},
		{"session by POST", "POST", "/invocations-bidirectional-stream", ``, 405, CodeBadMethod, ""},
		{"rate is a string", "POST", "/invocations", `{"text": "a", "sample_rate": "24000"}`, 400, CodeInvalid, "sample_rate"},
		{"timestamp is a string", "POST", "/invocations", `{"text": "a", "request_timestamp": "now"}`, 400, CodeInvalid, "request_timestamp"},
		{"too long", "POST", "/invocations", long, 413, CodeTooLarge, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := call(s, c.method, c.path, c.body)
			if w.Code != c.status {
				t.Fatalf("status %d, want %d: %s", w.Code, c.status, w.Body)
			}
			if c.code == "" {
				return
			}
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("not JSON: %s", w.Body)
			}
			field, _ := got["field"].(string)
			if got["error"] != c.code || field != c.field {
				t.Errorf("error %v, field %q: want %s, %q", got["error"], field, c.code, c.field)
			}
			if m, _ := got["message"].(string); m == "" {
				t.Error("no message")
			}
			if id, _ := got["request_id"].(string); id == "" || id != w.Header().Get("X-Request-Id") {
				t.Errorf("request_id %q, header %q", id, w.Header().Get("X-Request-Id"))
			}
			if _, ok := got["retryable"].(bool); !ok {
				t.Error("retryable is missing")
			}
		})
	}
	if c := s.Counts(); c.InSystem != 0 {
		t.Fatalf("something leaked: %+v", c)
	}
}

func TestReplies(t *testing.T) {
	s := start(t, Config{Engine: &fake{say: func(Request) *fakeUtterance { return blocks(3) }}, Instance: "i-1", MaxReply: 20000})
	hs := open(t, s)
	pcm := bytes.Repeat(block100, 3)
	for _, c := range []struct {
		name, body, kind string
		length           int64
		sizes            [2]uint32
	}{
		{"stream wav", `{"text": "Hello."}`, "audio/wav", -1, [2]uint32{0xFFFFFFFF, 0xFFFFFFFF}},
		{"stream pcm", `{"text": "Hello.", "format": "pcm"}`, "audio/pcm;rate=24000", -1, [2]uint32{}},
		{"whole wav", `{"text": "Hello.", "stream": false}`, "audio/wav", int64(len(pcm)) + 44, [2]uint32{uint32(len(pcm)) + 36, uint32(len(pcm))}},
		{"whole pcm", `{"text": "Hello.", "stream": false, "format": "pcm"}`, "audio/pcm;rate=24000", int64(len(pcm)), [2]uint32{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequest("POST", hs.URL+"/invocations", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Amzn-SageMaker-Inference-Id", "call-7")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 200 || res.Header.Get("Content-Type") != c.kind || res.ContentLength != c.length {
				t.Fatalf("%s, %s, length %d: %.200s", res.Status, res.Header.Get("Content-Type"), res.ContentLength, got)
			}
			if c.kind == "audio/wav" {
				riff, data := binary.LittleEndian.Uint32(got[4:]), binary.LittleEndian.Uint32(got[40:])
				if string(got[:4]) != "RIFF" || [2]uint32{riff, data} != c.sizes {
					t.Errorf("sizes %x %x, want %x", riff, data, c.sizes)
				}
				got = got[44:]
			}
			if !bytes.Equal(got, pcm) {
				t.Errorf("%d bytes of sound, want %d", len(got), len(pcm))
			}
			if id := res.Header.Get("X-Request-Id"); id != "call-7" {
				t.Errorf("request id %q", id)
			}
			if a := res.Header.Get("X-Amzn-SageMaker-Custom-Attributes"); a != "instance=i-1" {
				t.Errorf("the instance is not named: %q", a)
			}
			if c.length >= 0 && res.Header.Get("X-Audio-Duration") != "0.300" {
				t.Errorf("audio duration %q", res.Header.Get("X-Audio-Duration"))
			}
		})
	}
	s.cfg.MaxReply = 10000
	w := call(s, "POST", "/invocations", `{"text": "Hello.", "stream": false}`)
	if w.Code != 413 || !strings.Contains(w.Body.String(), "ask for a stream") {
		t.Errorf("a whole reply past the limit: %d %s", w.Code, w.Body)
	}
}

func TestNotReadyUntilItSpoke(t *testing.T) {
	s, err := New(Config{Engine: &fake{load: errors.New("no weights in /opt/ml/model")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no weights") {
		t.Fatalf("run: %v", err)
	}
	for _, path := range []string{"/ping", "/invocations"} {
		w := call(s, "POST", path, `{"text": "Hello."}`)
		if w.Code != 503 || !strings.Contains(w.Body.String(), CodeNotReady) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// The 50th is admitted and the 51st refused, at once, while /ping stays 200; and the place of one that ends is the next's.
func TestDepth(t *testing.T) {
	gate := make(chan struct{})
	s := start(t, Config{QueueDepth: 50, Engine: &fake{say: func(Request) *fakeUtterance {
		return &fakeUtterance{1, func(ctx context.Context) ([]byte, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return block100, ctx.Err()
		}}
	}}})
	hs := open(t, s)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	post := func() (*http.Response, []byte, error) {
		res, err := client.Post(hs.URL+"/invocations", "application/json", strings.NewReader(`{"text": "Hello."}`))
		if err != nil {
			return nil, nil, err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return res, b, err
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if res, b, err := post(); err != nil || res.StatusCode != 200 {
				t.Errorf("admitted: %v %.200s", err, b)
			}
		})
	}
	until(t, func() bool { return s.InFlight() == 50 })
	best := time.Hour
	for range 20 {
		began := time.Now()
		res, b, err := post()
		best = min(best, time.Since(began))
		if err != nil || res.StatusCode != 503 {
			t.Fatalf("the 51st: %v %s", err, b)
		}
		var got struct {
			Error      string  `json:"error"`
			Depth      int     `json:"queue_depth"`
			Max        int     `json:"max_queue_depth"`
			RetryAfter float64 `json:"retry_after_s"`
			Retryable  bool    `json:"retryable"`
		}
		if err := json.Unmarshal(b, &got); err != nil || got.Error != CodeSaturated || got.Depth != 50 || got.Max != 50 || got.RetryAfter < 1 || !got.Retryable {
			t.Fatalf("refusal: %v %s", err, b)
		}
	}
	if best > 10*time.Millisecond {
		t.Errorf("the quickest of 20 refusals took %v", best)
	}
	if w := call(s, "GET", "/ping", ""); w.Code != 200 {
		t.Errorf("a full queue fails /ping: %d", w.Code)
	}
	close(gate)
	wg.Wait()
	// In a closed loop of 50 nobody is ever refused: a place is back before the caller can see its reply end.
	for range 50 {
		wg.Go(func() {
			for range 20 {
				if res, b, err := post(); err != nil || res.StatusCode != 200 {
					t.Errorf("closed loop: %v %.200s", err, b)
				}
			}
		})
	}
	wg.Wait()
	if n := s.InFlight(); n != 0 {
		t.Fatalf("%d in flight at the end", n)
	}
}

func TestBrokenStreamIsNotTidy(t *testing.T) {
	for _, c := range []struct {
		name string
		good int // blocks before the failure
		how  func() ([]byte, error)
	}{
		{"error before the first block", 0, func() ([]byte, error) { return nil, errors.New("gpu lost") }},
		{"error after the first block", 1, func() ([]byte, error) { return nil, errors.New("gpu lost") }},
		{"panic before the first block", 0, func() ([]byte, error) { panic("nil tensor") }},
		{"panic after the first block", 1, func() ([]byte, error) { panic("nil tensor") }},
		{"no sound at all", 0, func() ([]byte, error) { return nil, nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := &lines{}
			s := start(t, Config{Log: log, Engine: &fake{say: func(Request) *fakeUtterance {
				n := 0
				return &fakeUtterance{c.good + 1, func(context.Context) ([]byte, error) {
					if n++; n <= c.good {
						return block100, nil
					}
					return c.how()
				}}
			}}})
			hs := open(t, s)
			res, err := http.Post(hs.URL+"/invocations", "application/json", strings.NewReader(`{"text": "Hello."}`))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if c.good == 0 {
				if res.StatusCode != 500 || !strings.Contains(string(b), CodeSynthesis) || strings.Contains(string(b), "gpu") {
					t.Errorf("%s: %.200s", res.Status, b)
				}
			} else if res.StatusCode != 200 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("a broken stream ended with %s, %v", res.Status, err)
			}
			until(t, func() bool { return s.InFlight() == 0 })
			if all := strings.Join(log.all(), "\n"); !strings.Contains(all, CodeSynthesis) {
				t.Errorf("the log does not say why: %s", all)
			}
			if c := s.Counts(); c.Executing != 0 {
				t.Errorf("the place was not freed: %+v", c)
			}
		})
	}
}

func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{Engine: &fake{say: taking(3*time.Second, 1)}, MaxAge: 5 * time.Second})
		var got [3]int
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i] = call(s, "POST", "/invocations", `{"text": "Hello."}`).Code })
			synctest.Wait()
		}
		began := time.Now()
		wg.Wait()
		if got != [3]int{200, 200, 408} {
			t.Errorf("statuses %v: the third waited 6 s for its place, more than 5", got)
		}
		if d := time.Since(began); d != 6*time.Second {
			t.Errorf("took %v: stale work was executed", d)
		}
	})
}

// A caller who goes while waiting is never executed; one who goes while executing frees the place at once.
func TestGoneIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var spoken []string
		engine := &fake{}
		engine.say = func(r Request) *fakeUtterance {
			u := taking(time.Second, 3)(r)
			next := u.next
			u.next = func(ctx context.Context) ([]byte, error) {
				spoken = append(spoken, r.Text)
				return next(ctx)
			}
			return u
		}
		s := start(t, Config{Engine: engine})
		l := inMemory(t, s)
		send := func(text string) io.ReadWriteCloser {
			c := l.dial()
			body := fmt.Sprintf(`{"text": %q}`, text)
			if _, err := fmt.Fprintf(c, "POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			return c
		}
		a := send("a")
		b := send("b")
		c := send("c")
		began := time.Now()
		b.Close()
		synctest.Wait()
		if n := s.InFlight(); n != 2 {
			t.Fatalf("%d in flight after the second of three went", n)
		}
		time.Sleep(500 * time.Millisecond) // on the bubble's clock: a is half way through its first block
		a.Close()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if d := time.Since(began); d != 3500*time.Millisecond {
			t.Errorf("c ended after %v, want 0.5 s of a and 3 s of its own", d)
		}
		if got := strings.Join(spoken, ""); got != "accc" {
			t.Errorf("executed %q: b was abandoned", got)
		}
	})
}

// A reader who takes nothing holds no place, and is cut when its deadline is over.
func TestSlowReaderHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &fake{}
		engine.say = func(r Request) *fakeUtterance {
			if r.Text == "long" {
				return blocks(10 * ahead)
			}
			return blocks(1)
		}
		s := start(t, Config{Engine: engine, WriteWait: 10 * time.Second})
		l := inMemory(t, s)
		c := l.dial()
		defer c.Close()
		body := `{"text": "long"}`
		if _, err := fmt.Fprintf(c, "POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.Counts(); got.InSystem != 1 || got.Executing != 0 {
			t.Fatalf("the stalled reader holds a place: %+v", got)
		}
		if w := call(s, "POST", "/invocations", `{"text": "short"}`); w.Code != 200 {
			t.Fatalf("the next: %d", w.Code)
		}
		for _, step := range []struct {
			wait time.Duration
			left int
		}{{9900 * time.Millisecond, 1}, {200 * time.Millisecond, 0}} {
			time.Sleep(step.wait) // on the bubble's clock
			synctest.Wait()
			if n := s.InFlight(); n != step.left {
				t.Errorf("%d in flight around the deadline of 10 s, want %d", n, step.left)
			}
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{Engine: &fake{places: 2, say: func(r Request) *fakeUtterance {
			if r.Text == "long" {
				return taking(time.Hour, 1)(r)
			}
			return taking(5*time.Second, 1)(r)
		}}})
		var short, long int
		var wg sync.WaitGroup
		wg.Go(func() { short = call(s, "POST", "/invocations", `{"text": "short"}`).Code })
		wg.Go(func() { long = call(s, "POST", "/invocations", `{"text": "long"}`).Code })
		synctest.Wait()
		began := time.Now()
		var drained error
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 28*time.Second)
			defer cancel()
			drained = s.Drain(ctx)
		})
		synctest.Wait()
		for path, code := range map[string]string{"/ping": CodeShutdown, "/invocations": CodeShutdown} {
			w := call(s, "POST", path, `{"text": "late"}`)
			if w.Code != 503 || !strings.Contains(w.Body.String(), code) {
				t.Errorf("%s while draining: %d %s", path, w.Code, w.Body)
			}
		}
		wg.Wait()
		if d := time.Since(began); d != 28*time.Second || short != 200 || long != 503 {
			t.Errorf("drained after %v: the short one ended %d, the long one %d", d, short, long)
		}
		if drained == nil || !strings.Contains(drained.Error(), "requests broken off: 1") {
			t.Errorf("drain: %v", drained)
		}
		if err := s.Drain(context.Background()); err != nil {
			t.Errorf("a second drain: %v", err)
		}
	})
}

// A drain that runs out of time does not wait for a reader who takes nothing.
func TestDrainCutsStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{Engine: &fake{say: func(Request) *fakeUtterance { return blocks(10 * ahead) }}, WriteWait: time.Hour})
		c := inMemory(t, s).dial()
		defer c.Close()
		body := `{"text": "long"}`
		if _, err := fmt.Fprintf(c, "POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Drain(ctx); err == nil || time.Since(began) != time.Second || s.InFlight() != 0 {
			t.Errorf("drain took %v and left %d: %v", time.Since(began), s.InFlight(), err)
		}
	})
}

func TestFromEnv(t *testing.T) {
	var c Config
	if err := c.FromEnv(map[string]string{"MAX_QUEUE_DEPTH": "50", "MAX_REQUEST_AGE_S": "1.5", "ENDPOINT_NAME": "speech-x",
		"VARIANT_NAME": "primary", "WARMUP_TEXT": "Hi.", "CONTAINER_START_EPOCH": "1700000000.25", "MODEL_DIR": "/x"}); err != nil {
		t.Fatal(err)
	}
	if c.QueueDepth != 50 || c.MaxAge != 1500*time.Millisecond || c.Endpoint != "speech-x" || c.Variant != "primary" ||
		c.WarmupText != "Hi." || c.Started.UnixMilli() != 1700000000250 {
		t.Errorf("%+v", c)
	}
	err := c.FromEnv(map[string]string{"MAX_QUEUE_DEPTH": "-1", "MAX_REQUEST_AGE_S": "soon", "WARMUP_TEXT": "..."})
	for _, want := range []string{`MAX_QUEUE_DEPTH="-1"`, `MAX_REQUEST_AGE_S="soon"`, `WARMUP_TEXT="..."`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

// Every caller hears its own text, all of it and nothing else, however many speak at once.
func TestStreamsDoNotMix(t *testing.T) {
	voice := func(text string, n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%s.%d,", text, n)), 500) }
	s := start(t, Config{Engine: &fake{places: 4, say: func(r Request) *fakeUtterance {
		n := 0
		return &fakeUtterance{5, func(context.Context) ([]byte, error) {
			n++
			return voice(r.Text, n), nil
		}}
	}}})
	hs := open(t, s)
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			text := fmt.Sprintf("t%03d", i)
			res, err := http.Post(hs.URL+"/invocations", "application/json", strings.NewReader(fmt.Sprintf(`{"text": %q, "format": "pcm"}`, text)))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			var want []byte
			for n := range 5 {
				want = append(want, voice(text, n+1)...)
			}
			if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes of %d, or another's: %v", text, len(got), len(want), err)
			}
		})
	}
	wg.Wait()
}

// until waits for a state that real goroutines reach in their own time.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 20000 {
		if ok() {
			return
		}
		<-tick.C
	}
	t.Fatal("not reached within 20 s")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"loadline/internal/admission"
	"loadline/internal/audio"
	"loadline/internal/corpus"
	"loadline/internal/engine/kokoro"
	"loadline/internal/sample"
	"loadline/internal/serve"
)

const patience = 50 * time.Millisecond // of a listener with silence

// slo is the promise on first audio.
var slo = 500 * time.Millisecond

// held is what listeners heard.
type held struct {
	first   []time.Duration
	starved int
	busy    float64 // share of the time in which the session ran
}

// ready is an engine that is loaded already.
type ready struct{ *kokoro.Engine }

func (ready) Load(_ context.Context, mark func(string)) error {
	for _, s := range []string{serve.StageFramework, serve.StageFetched, serve.StageWeights} {
		mark(s)
	}
	return nil
}

// listen runs n listeners on a server in this process, over loopback, for a point after they have all begun.
func listen(ctx context.Context, e *kokoro.Engine, o admission.Order, n int, texts *corpus.Corpus) (held, error) {
	url, client, stop, err := up(ctx, e, o)
	if err != nil {
		return held{}, err
	}
	defer stop()
	var front sync.WaitGroup
	var mu sync.Mutex
	var out held
	var trouble error
	const settle = 10 * time.Second
	began := time.Now()
	end := began.Add(settle + *point)
	for u := range n {
		front.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(u), 5))
			pause(end, time.Duration(rng.Float64()*float64(settle)))
			for time.Now().Before(end) {
				asked := time.Now()
				var text strings.Builder
				for range 3 + rng.IntN(6) {
					text.WriteString(texts.At(rng.IntN(texts.Len())).Body + " ")
				}
				first, silence, played, err := hear(client, url, text.String())
				mu.Lock()
				switch {
				case err != nil:
					trouble = err
				case asked.After(began.Add(settle/2)) && asked.Before(end):
					out.first = append(out.first, first)
					if silence > patience {
						out.starved++
					}
				}
				mu.Unlock()
				if err != nil {
					return
				}
				pause(end, played+time.Duration(rng.ExpFloat64()*1e9)-time.Since(asked))
			}
		})
	}
	ran := e.Ran()
	front.Wait()
	out.busy = (e.Ran() - ran).Seconds() / time.Since(began).Seconds()
	return out, trouble
}

// bursts sends n requests at once, ten times, and hears how soon each is answered; then they are broken off.
func bursts(ctx context.Context, e *kokoro.Engine, o admission.Order, n int, texts *corpus.Corpus) (first []time.Duration, err error) {
	url, client, stop, err := up(ctx, e, o)
	if err != nil {
		return nil, err
	}
	defer stop()
	var mu sync.Mutex
	for burst := range 10 {
		ctx, cancel := context.WithCancel(ctx)
		var heard, all sync.WaitGroup
		heard.Add(n)
		began := time.Now()
		for u := range n {
			all.Go(func() {
				var text strings.Builder
				for i := range 6 {
					text.WriteString(texts.At(burst*97+u*6+i).Body + " ")
				}
				body, failed := start(ctx, client, url, text.String())
				mu.Lock()
				if err = errors.Join(err, failed); failed == nil {
					first = append(first, time.Since(began))
				}
				mu.Unlock()
				heard.Done()
				if failed == nil {
					_, _ = io.Copy(io.Discard, body) // until it is broken off
					_ = body.Close()
				}
			})
		}
		heard.Wait()
		cancel()
		all.Wait()
	}
	return first, err
}

// start asks for a text and waits for its first sound.
func start(ctx context.Context, client *http.Client, url, text string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(fmt.Sprintf(`{"text": %q, "format": "pcm"}`, text)))
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, errors.New(res.Status)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 2)); err != nil {
		res.Body.Close()
		return nil, err
	}
	return res.Body, nil
}

// up starts a server on loopback; stop ends it.
func up(ctx context.Context, e *kokoro.Engine, o admission.Order) (url string, client *http.Client, stop func(), err error) {
	server, err := serve.New(serve.Config{Engine: ready{e}, Order: o, SLO: slo})
	if err != nil {
		return "", nil, nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	hs := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second}
	var back sync.WaitGroup
	back.Go(func() { _ = server.Run(ctx) })
	back.Go(func() { _ = hs.Serve(ln) })
	<-server.Ready()
	client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	return "http://" + ln.Addr().String() + "/invocations", client, func() {
		client.CloseIdleConnections()
		_ = hs.Close()
		cancel()
		back.Wait()
	}, nil
}

func pause(end time.Time, d time.Duration) { time.Sleep(min(d, time.Until(end))) }

// hear asks for a text and reads it as it comes: when the first sound came, how much silence there was in the middle, and
// when it was played to its end, all from the asking.
func hear(client *http.Client, url, text string) (first, silence, played time.Duration, err error) {
	began := time.Now()
	res, err := client.Post(url, "application/json", strings.NewReader(fmt.Sprintf(`{"text": %q, "format": "pcm"}`, text)))
	if err != nil {
		return 0, 0, 0, err
	}
	defer res.Body.Close()
	var m audio.Meter
	m.Start(audio.Sound, res.Header.Get("Content-Type"))
	buf := make([]byte, 64<<10)
	for {
		n, err := res.Body.Read(buf)
		m.Write(sample.Nanos(time.Since(began)), buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, 0, err
		}
	}
	h := m.End()
	if h.Outcome != sample.OK {
		return 0, 0, 0, fmt.Errorf("%s: %s", res.Status, h.Cause)
	}
	first = time.Duration(h.FirstAudio)
	silence = time.Duration(h.Stall * 1e9)
	return first, silence, first + silence + time.Duration(h.Seconds*1e9), nil
}

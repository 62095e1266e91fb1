package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"loadline/bench/listener"
	"loadline/internal/admission"
	"loadline/internal/corpus"
	"loadline/internal/engine/kokoro"
	"loadline/internal/serve"
)

// slo is the promise on first audio.
var slo = 500 * time.Millisecond

// ready is an engine that is loaded already.
type ready struct{ *kokoro.Engine }

func (ready) Load(_ context.Context, mark func(string)) error {
	for _, s := range []string{serve.StageFramework, serve.StageFetched, serve.StageWeights} {
		mark(s)
	}
	return nil
}

// listen runs n listeners on a server in this process, over loopback, for a point after they have all begun.
func listen(ctx context.Context, e *kokoro.Engine, o admission.Order, n int, texts *corpus.Corpus) (heard listener.Heard, busy float64, err error) {
	url, stop, err := up(e, o)
	if err != nil {
		return heard, 0, err
	}
	defer stop()
	const settle = 10 * time.Second
	crowd := listener.Crowd{N: n, Begin: settle, From: settle / 2, Until: settle + *point, Think: time.Second, Text: func(r *rand.Rand) string {
		var text strings.Builder
		for range 3 + r.IntN(6) {
			text.WriteString(texts.At(r.IntN(texts.Len())).Body + " ")
		}
		return text.String()
	}}
	began, ran := time.Now(), e.Ran()
	heard = crowd.Listen(ctx, url)
	return heard, (e.Ran() - ran).Seconds() / time.Since(began).Seconds(), heard.Err
}

// bursts sends n requests at once, ten times, and hears how soon each is answered; then they are broken off.
func bursts(ctx context.Context, e *kokoro.Engine, o admission.Order, n int, texts *corpus.Corpus) (first []time.Duration, err error) {
	url, stop, err := up(e, o)
	if err != nil {
		return nil, err
	}
	defer stop()
	client := listener.Client(1000)
	defer client.CloseIdleConnections()
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
	res, err := listener.Ask(ctx, client, url, text)
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
func up(e *kokoro.Engine, o admission.Order) (url string, stop func(), err error) {
	return listener.Serve(serve.Config{Engine: ready{e}, Order: o, SLO: slo})
}

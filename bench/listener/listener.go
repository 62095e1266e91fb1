// Package listener is people who hear texts from a server in the bench's own process, over loopback and in real time: each
// asks, plays what comes, thinks for a moment once it was played to its end, and asks again.
//
//	url, stop, err := listener.Serve(serve.Config{Engine: engine})
//	defer stop()
//	crowd := listener.Crowd{N: 40, Begin: 10 * time.Second, From: 20 * time.Second, Until: time.Minute, Think: time.Second, Text: text}
//	heard := crowd.Listen(ctx, url)
package listener

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"loadline/bench/container"
	"loadline/internal/audio"
	"loadline/internal/sample"
	"loadline/internal/serve"
)

// Serve starts a server and returns where it takes texts, once it is ready; stop lets it end what is inside.
func Serve(c serve.Config) (url string, stop func(), err error) {
	i, err := container.Serve(c)
	if err != nil {
		return "", nil, err
	}
	<-i.Ready()
	return "http://" + i.Addr() + "/invocations", func() { _ = i.Stop(context.Background()) }, nil
}

// Client is one of n callers at once, who keep their connections.
func Client(n int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
}

// Patience is how much silence in the middle of a text a listener does not notice.
const Patience = 50 * time.Millisecond

// Crowd is listeners.
type Crowd struct {
	N           int
	Begin       time.Duration // all of them have begun by then
	From, Until time.Duration // what is asked for in between counts; until then they ask
	Think       time.Duration // mean of an exponential
	Text        func(*rand.Rand) string
}

// Heard is what they heard of the texts that count.
type Heard struct {
	First   []time.Duration // from asking to the first sound, of those that came whole
	Starved int             // of those: more than Patience of silence in all
	Err     error           // the first of any time
}

// Listen has them listen to their end.
func (c Crowd) Listen(ctx context.Context, url string) Heard {
	client := Client(c.N)
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var out Heard
	began := time.Now()
	end := began.Add(c.Until)
	pause := func(d time.Duration) { time.Sleep(min(d, time.Until(end))) }
	for u := range c.N {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(u), 5))
			pause(time.Duration(rng.Float64() * float64(c.Begin)))
			for time.Now().Before(end) {
				asked := time.Now()
				first, silence, played, err := hear(ctx, client, url, c.Text(rng))
				mu.Lock()
				switch {
				case err != nil && out.Err == nil:
					out.Err = err
				case err == nil && asked.After(began.Add(c.From)) && asked.Before(end):
					out.First = append(out.First, first)
					if silence > Patience {
						out.Starved++
					}
				}
				mu.Unlock()
				pause(played + time.Duration(rng.ExpFloat64()*float64(c.Think)) - time.Since(asked))
			}
		})
	}
	wg.Wait()
	return out
}

// Ask asks for a text as pcm.
func Ask(ctx context.Context, client *http.Client, url, text string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(fmt.Sprintf(`{"text": %q, "format": "pcm"}`, text)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

// hear asks for a text and reads it as it comes: when the first sound came, how much silence there was in the middle, and
// when it was played to its end, all from the asking.
func hear(ctx context.Context, client *http.Client, url, text string) (first, silence, played time.Duration, err error) {
	began := time.Now()
	res, err := Ask(ctx, client, url, text)
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

package transport

import (
	"context"
	"fmt"
	"net"
	"testing"

	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// canned is a connection that answers at once, without a network: what is left is what a transport itself costs.
type canned struct {
	net.Conn
	reply []byte
	left  []byte
}

func (c *canned) Write(b []byte) (int, error) { c.left = c.reply; return len(b), nil }
func (c *canned) Close() error                { return nil }
func (c *canned) Read(p []byte) (int, error) {
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

func benchmark(b *testing.B, tr load.Transport, p *pool, mime string, body []byte) {
	reply := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nX-Amzn-Sagemaker-Content-Type: audio/pcm\r\nContent-Length: %d\r\n\r\n%s", mime, len(body), body)
	p.hosts.dial = func(context.Context, string, string) (net.Conn, error) { return &canned{reply: reply}, nil }
	var now sample.Nanos
	call := load.Call{Text: corpus.Text{Body: "Hello there."}, Clock: func() sample.Nanos { now++; return now }}
	b.ReportAllocs()
	for b.Loop() {
		rec := sample.New(0)
		rec.Started = now
		if tr.Do(b.Context(), call, &rec); rec.Outcome != sample.OK {
			b.Fatal(rec.Cause)
		}
	}
}

func BenchmarkHTTP(b *testing.B) {
	tr, err := NewHTTP(HTTPOptions{URL: "http://127.0.0.1:1/speak"})
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, tr, tr.pool, "audio/pcm", speech(1000))
}

func BenchmarkSageMaker(b *testing.B) {
	tr, err := NewSageMaker(config("http://127.0.0.1:1"), SageMakerOptions{Endpoint: "speech-kokoro"})
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, tr, tr.pool, "application/vnd.amazon.eventstream", event("event", "PayloadPart", speech(1000)))
}

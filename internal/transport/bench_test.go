package transport

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
)

// canned answers at once, without a network: what is left is what a transport itself costs.
type canned struct{ reply []byte }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"audio/pcm"}}, Body: io.NopCloser(bytes.NewReader(c.reply)), Request: r}, nil
}

func BenchmarkHTTP(b *testing.B) {
	tr, err := NewHTTP(HTTPOptions{URL: "http://127.0.0.1:1/speak"})
	if err != nil {
		b.Fatal(err)
	}
	tr.pool.rt = canned{speech(1000)}
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

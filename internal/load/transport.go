package load

import (
	"context"
	"io"

	"loadline/internal/corpus"
	"loadline/internal/sample"
)

// Call is one request as it is asked of a transport.
type Call struct {
	Text       corpus.Text
	Clock      func() sample.Nanos // monotonic, from the start of the run
	Sink       io.Writer           // gets the body as it arrives; nil: it is read and dropped
	KeepChunks bool                // record every chunk in the request
}

// Transport sends one request, reads its reply to the end and fills in rec: Conn, Headers, FirstByte, FirstAudio,
// FirstAudible, End, Chunks, Bytes, Audio, Stall, Status, Outcome, Cause and Reused. The caller has set Seq, Worker,
// Rung, Intended, Started, Chars and Text. It returns no error: what went wrong is the record's Outcome and Cause. ctx
// carries the request's deadline; a request that outlives it ends as Timeout. It is safe for concurrent use.
type Transport interface {
	Do(ctx context.Context, c Call, rec *sample.Request)
	// Policy says how it resolves and connects (connections per host, HTTP version, proxy), for the report.
	Policy() string
	Close() error
}

package speech

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"

	"loadline/internal/audio"
	"loadline/internal/corpus"
	"loadline/internal/load"
	"loadline/internal/sample"
	"loadline/internal/transport"
)

// Options say who is asked, and how: a URL, or a SageMaker endpoint.
type Options struct {
	URL    string      // with http, https, ws or wss; user and password in it are sent as basic authentication
	Header http.Header // of its requests

	Endpoint, Variant string     // a SageMaker endpoint; the variant may be left to it
	AWS               aws.Config // region and credentials of the endpoint
	BidiURL           string     // of bidirectional streams, where it is not AWS's own

	// Transport is the way to ask: by URL http, raw, openai-speech, sse or websocket, the default following from the
	// URL's scheme; of an endpoint response-stream (the default), invoke, or bidi, the bidirectional stream.
	Transport string
	// Body is what is sent for a text: kokoro, openai-speech, raw, or a body with {{.Text}} in it; over a WebSocket one or
	// several messages, a line each. "" is what the door wants. End is the message that ends a reply in events or messages,
	// where it is none that is known.
	Body, End string

	Timeout time.Duration // longest that one try may take; a minute when 0
	Retry   Retry
	Most    int // requests at once that connections are kept for; 16 when 0
	Proxy   func(*http.Request) (*url.URL, error)
	TLS     *tls.Config
}

// Client speaks through one endpoint. It is safe for concurrent use.
type Client struct {
	to      load.Transport
	timeout time.Duration
	retry   *retrier
}

// New checks the options. It connects to nothing yet.
func New(o Options) (*Client, error) {
	net := transport.Net{Streams: 16, Proxy: o.Proxy, TLS: o.TLS}
	if o.Most > 0 {
		net.Streams = o.Most
	}
	var to load.Transport
	var err error
	switch {
	case o.URL != "" && o.Endpoint != "":
		err = errors.New("a URL and an endpoint exclude each other")
	case o.URL != "":
		to, err = byURL(o, net)
	case o.Endpoint != "":
		to, err = byEndpoint(o, net)
	default:
		err = errors.New("nobody to ask: give a URL or a SageMaker endpoint")
	}
	if err != nil {
		return nil, fmt.Errorf("speech: %w", err)
	}
	return Over(to, o.Timeout, o.Retry), nil
}

func byURL(o Options, net transport.Net) (load.Transport, error) {
	door, u, err := transport.FindDoor(o.Transport, o.URL)
	if err != nil {
		return nil, err
	}
	spoken, err := door.Parse(o.Body)
	if err != nil {
		return nil, err
	}
	return door.Open(transport.DoorOptions{Net: net, URL: u, Header: o.Header, Spoken: spoken, End: o.End})
}

func byEndpoint(o Options, net transport.Net) (load.Transport, error) {
	if o.Transport == "bidi" {
		messages, err := transport.ParseMessages(o.Body)
		if err != nil {
			return nil, err
		}
		return transport.NewBidi(o.AWS, transport.BidiOptions{Net: net, URL: o.BidiURL, Endpoint: o.Endpoint, Variant: o.Variant, Messages: messages, End: o.End})
	}
	if o.Transport != "" && o.Transport != "response-stream" && o.Transport != "invoke" {
		return nil, fmt.Errorf("transport %q: of an endpoint it is response-stream, invoke or bidi", o.Transport)
	}
	body, err := transport.ParseTemplate(o.Body)
	if err != nil {
		return nil, err
	}
	return transport.NewSageMaker(o.AWS, transport.SageMakerOptions{Net: net, Endpoint: o.Endpoint, Variant: o.Variant, Invoke: o.Transport == "invoke", Body: body})
}

// Over is a client over a transport that is made already, which it closes. Other packages of this module use it.
func Over(to load.Transport, timeout time.Duration, r Retry) *Client {
	if timeout == 0 {
		timeout = time.Minute
	}
	return &Client{to: to, timeout: timeout, retry: newRetrier(r)}
}

// Close gives the connections up.
func (c *Client) Close() error { return c.to.Close() }

// Never is a moment that did not come.
const Never = time.Duration(-1)

// Times is when each part of a reply came, from when its request was sent; Never where it did not.
type Times struct {
	Connected    time.Duration // a connection, or a session, was in hand
	Headers      time.Duration // of the reply
	FirstByte    time.Duration // of the body, header included
	FirstAudio   time.Duration // the first sample
	FirstAudible time.Duration // the first that can be heard
	End          time.Duration
	Stall        time.Duration // that a listener would have waited after the first sample
	Chunks       int           // pieces that the body came in
}

// Reply is a text as it was spoken.
type Reply struct {
	WAV      []byte // a file with true sizes, however the reply stated them
	Rate     int    // samples a second
	Duration time.Duration
	Times    Times // of the last try
	Tries    int
}

// Synthesize has a text spoken and waits for the end of it. Where the reply was truncated, or is sound that is neither WAV
// nor raw PCM, what is known of it comes with the error.
func (c *Client) Synthesize(ctx context.Context, text string) (*Reply, error) {
	c.retry.first()
	for tries := 1; ; tries++ {
		heard := &recorder{}
		rec, err := c.ask(ctx, text, heard)
		reply := &Reply{Times: times(&rec), Tries: tries}
		if err == nil || err.Kind == Truncated {
			wav, h, bad := heard.WAV()
			reply.WAV, reply.Rate, reply.Duration = wav, h.Format.Rate, seconds(h.Seconds)
			if err == nil && bad != nil {
				err = &Error{Kind: Protocol, Cause: bad.Error()}
			}
		}
		if err == nil {
			return reply, nil
		}
		err.RetryAfter = heard.after
		if stop := c.retry.again(ctx, tries, err); stop != nil {
			return reply, stop
		}
	}
}

// ask tries a text once.
func (c *Client) ask(ctx context.Context, text string, sink sink) (sample.Request, *Error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	start := time.Now()
	now := func() sample.Nanos { return sample.Since(time.Since(start)) }
	rec := sample.New(0)
	rec.Chars = utf8.RuneCountInString(text)
	rec.Intended, rec.Started = 0, 0
	c.to.Do(ctx, load.Call{Text: corpus.Text{Body: text, Chars: rec.Chars}, Clock: now, Sink: sink, KeepChunks: true}, &rec)
	return rec, failure(rec.Outcome, rec.Cause, rec.Status, 0)
}

// sink takes the body of a reply, and what a refusal says of when to come back.
type sink interface {
	Write([]byte) (int, error)
	ContentType(string)
	RetryAfter(time.Duration)
}

// recorder keeps the sound of one try.
type recorder struct {
	audio.Recorder
	after time.Duration
}

func (r *recorder) RetryAfter(d time.Duration) { r.after = d }

func times(r *sample.Request) Times {
	at := func(n sample.Nanos) time.Duration {
		if !n.Known() {
			return Never
		}
		return (n - r.Started).Duration()
	}
	return Times{Connected: at(r.Conn), Headers: at(r.Headers), FirstByte: at(r.FirstByte), FirstAudio: at(r.FirstAudio), FirstAudible: at(r.FirstAudible),
		End: at(r.End), Stall: seconds(r.Stall), Chunks: len(r.Chunks)}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"loadline/internal/load"
	"loadline/internal/local"
	"loadline/internal/serve"
	"loadline/internal/transport"
)

// engine speaks five pieces of 100 ms, the first after a while, as many texts at a time as are asked for.
type engine struct{ takes time.Duration }

type utterance struct {
	takes time.Duration
	left  int
}

var piece = bytes.Repeat([]byte{0, 0x20}, 2400)

func (e engine) Info() serve.Info { return serve.Info{Places: 1024, Rate: 24000, Whole: true} }

func (e engine) Load(_ context.Context, mark func(string)) error {
	for _, s := range []string{serve.StageFramework, serve.StageFetched, serve.StageWeights} {
		mark(s)
	}
	return nil
}

func (e engine) Prepare(context.Context, serve.Request) (serve.Utterance, error) {
	return &utterance{e.takes, 5}, nil
}

func (u *utterance) Size() int { return 10 * u.left }

func (u *utterance) Next(ctx context.Context, _ time.Time) ([][]byte, error) {
	if u.left == 5 {
		t := time.NewTimer(u.takes)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	u.left--
	return [][]byte{piece}, nil
}

const endpoint = "speech"

// house is one speech server with every door that there is before it: its own routes, two for services of other shapes,
// and a local SageMaker account.
type house struct {
	url   string // of the server
	aws   aws.Config
	bidi  string
	trust *tls.Config
	stop  func()
}

type instance string

func (i instance) Addr() string               { return string(i) }
func (i instance) Usage() local.Usage         { return local.Usage{} }
func (i instance) Stop(context.Context) error { return nil }

func open(takes time.Duration) (*house, error) {
	s, err := serve.New(serve.Config{Engine: engine{takes}, Ahead: -1})
	if err != nil {
		return nil, err
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	account, err := local.New(local.Config{BidiAddr: "127.0.0.1:0",
		Start:     func(context.Context, local.Spec) (local.Instance, error) { return instance(lis.Addr().String()), nil },
		Endpoints: []local.Endpoint{{Name: endpoint, Variants: []local.Variant{{Name: "primary", InstanceType: "ml.g5.xlarge", Instances: 1}}}}})
	if err != nil {
		lis.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	hs := &http.Server{Handler: before(s.Handler())}
	ended := make(chan error, 3)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- hs.Serve(lis) }()
	go func() { ended <- account.Run(ctx) }()
	h := &house{url: "http://" + lis.Addr().String(), bidi: account.BidiURL(), stop: func() {
		cancel()
		hs.Close()
		for range 3 {
			<-ended
		}
	}}
	for _, ready := range []<-chan struct{}{s.Ready(), account.Ready()} {
		select {
		case <-ready:
		case err := <-ended:
			return nil, fmt.Errorf("the server did not come up: %w", err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(account.BidiCertificate())
	h.trust = &tls.Config{RootCAs: roots}
	h.aws = aws.Config{Region: "us-east-1", BaseEndpoint: aws.String(account.URL()), Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")}
	return h, nil
}

// before puts the routes of other services' shapes before the server's own: a bare text, and events.
func before(server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/raw" && r.URL.Path != "/events" {
			server.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.URL.Path == "/raw" {
			body, _ = json.Marshal(map[string]string{"text": string(body)})
		} else {
			ew := &events{ResponseWriter: w}
			defer ew.end()
			w = ew
		}
		in := r.Clone(r.Context())
		in.URL.Path, in.Body, in.ContentLength = "/invocations", io.NopCloser(bytes.NewReader(body)), int64(len(body))
		server.ServeHTTP(w, in)
	})
}

// events writes what is written as events.
type events struct {
	http.ResponseWriter
	broken bool
}

func (e *events) WriteHeader(status int) {
	e.broken = status != http.StatusOK
	if !e.broken {
		e.Header().Set("Content-Type", "text/event-stream")
	}
	e.ResponseWriter.WriteHeader(status)
}

func (e *events) Write(b []byte) (int, error) {
	if e.broken || len(b) == 0 {
		return e.ResponseWriter.Write(b)
	}
	_, err := fmt.Fprintf(e.ResponseWriter, "data: {\"type\":\"speech.audio.delta\",\"audio\":\"%s\"}\n\n", base64.StdEncoding.EncodeToString(b))
	return len(b), err
}

func (e *events) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *events) end() {
	if !e.broken {
		io.WriteString(e.ResponseWriter, "data: {\"type\":\"speech.audio.done\"}\n\n")
	}
}

// door is one way in.
type door struct {
	name string
	to   load.Transport

	medians []float64 // ms, a round each
	failed  map[string]int
}

func (h *house) doors(streams int) ([]*door, error) {
	n := transport.Net{Streams: streams}
	var out []*door
	add := func(name string, to load.Transport, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, &door{name: name, to: to, failed: map[string]int{}})
		return nil
	}
	byURL := func(name, path, body string) error {
		url := h.url + path
		if name == transport.WebSockets {
			url = strings.Replace(url, "http", "ws", 1)
		}
		d, url, err := transport.FindDoor(name, url)
		if err != nil {
			return err
		}
		spoken, err := d.Parse(body)
		if err != nil {
			return err
		}
		to, err := d.Open(transport.DoorOptions{Net: n, URL: url, Spoken: spoken})
		return add(name, to, err)
	}
	for _, d := range [][3]string{
		{transport.PlainHTTP, "/invocations", ""}, {transport.RawHTTP, "/raw", ""},
		{transport.OpenAISpeech, "", `{"input":"{{.Text}}","response_format":"wav"}`}, {transport.SSE, "/events", ""}, {transport.WebSockets, "", ""},
	} {
		if err := byURL(d[0], d[1], d[2]); err != nil {
			return nil, err
		}
	}
	to, err := transport.NewSageMaker(h.aws, transport.SageMakerOptions{Net: n, Endpoint: endpoint})
	if err := add("response-stream", to, err); err != nil {
		return nil, err
	}
	whole, err := transport.NewSageMaker(h.aws, transport.SageMakerOptions{Net: n, Endpoint: endpoint, Invoke: true})
	if err := add("invoke", whole, err); err != nil {
		return nil, err
	}
	n.TLS = h.trust
	streamed, err := transport.NewBidi(h.aws, transport.BidiOptions{Net: n, URL: h.bidi, Endpoint: endpoint})
	return out, add("bidi", streamed, err)
}

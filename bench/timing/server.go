package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"loadline/internal/audio"
	"loadline/internal/corpus"
)

const (
	endpoint   = "timing"
	plainPath  = "/speak"
	streamPath = "/endpoints/" + endpoint + "/invocations-response-stream"
	marker     = "request " // and the request's number, in the text to speak
	more       = 4          // chunks after the first
)

// server answers every request with 100 ms of audio after a while, and notes when it wrote the first of it.
type server struct {
	url   string
	start time.Time
	audio []atomic.Int64 // ns from start, by request number
	http  *http.Server
	done  chan error

	plain, stream struct{ header, chunk []byte }
}

func serve(requests int) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	header, err := audio.WAVHeader(audio.Raw, 0)
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + l.Addr().String(), start: time.Now(), audio: make([]atomic.Int64, requests), done: make(chan error, 1)}
	chunk := bytes.Repeat([]byte{0, 0x20}, 480) // 20 ms
	s.plain.header, s.plain.chunk = header, chunk
	s.stream.header, s.stream.chunk = part(header), part(chunk)
	s.http = &http.Server{Handler: s}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

func (s *server) close() {
	s.http.Close()
	<-s.done
}

func (s *server) now() time.Duration         { return time.Since(s.start) }
func (s *server) wrote(id int) time.Duration { return time.Duration(s.audio[id].Load()) }

func (s *server) config() aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: aws.String(s.url), Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	_, number, _ := strings.Cut(string(body), marker)
	number, _, _ = strings.Cut(number, `"`)
	id, err := strconv.Atoi(number)
	if err != nil || id < 0 || id >= len(s.audio) {
		http.Error(w, "no request number", http.StatusBadRequest)
		return
	}
	reply := s.plain
	w.Header().Set("Content-Type", "audio/wav")
	if r.URL.Path == streamPath {
		reply = s.stream
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		w.Header().Set("X-Amzn-SageMaker-Content-Type", "audio/wav")
	}
	flush := http.NewResponseController(w).Flush
	w.Write(reply.header)
	flush()
	time.Sleep(50*time.Millisecond + time.Duration(rand.New(rand.NewPCG(uint64(id), 1)).Int64N(int64(100*time.Millisecond))))
	s.audio[id].Store(int64(s.now()))
	w.Write(reply.chunk)
	flush()
	for range more {
		time.Sleep(20 * time.Millisecond)
		w.Write(reply.chunk)
		flush()
	}
}

// part is one PayloadPart of a response stream.
func part(payload []byte) []byte {
	var m eventstream.Message
	m.Headers.Set(":message-type", eventstream.StringValue("event"))
	m.Headers.Set(":event-type", eventstream.StringValue("PayloadPart"))
	m.Headers.Set(":content-type", eventstream.StringValue("application/octet-stream"))
	m.Payload = payload
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err) // a message of our own
	}
	return b.Bytes()
}

func text(id int) corpus.Text {
	body := marker + strconv.Itoa(id)
	return corpus.Text{Body: body, Chars: len(body)}
}

// weight is what the SDK's headers weigh more than net/http's: the server reads them on the same processors.
var weight = strings.Repeat("x", 900)

// newBare is a net/http client that knows the replies: what comes after the header is audio.
func newBare(s *server, streams int) (client func(path string) func(context.Context, int) (time.Duration, error), closeIdle func()) {
	rt := &http.Transport{MaxIdleConnsPerHost: streams, DisableCompression: true}
	return func(path string) func(context.Context, int) (time.Duration, error) {
		header := len(s.plain.header)
		if path == streamPath {
			header = len(s.stream.header)
		}
		return func(ctx context.Context, id int) (time.Duration, error) {
			req, err := http.NewRequestWithContext(ctx, "POST", s.url+path, strings.NewReader(fmt.Sprintf(`{"text":"%s%d"}`, marker, id)))
			if err != nil {
				return 0, err
			}
			if path == streamPath {
				req.Header.Set("Authorization", weight)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			buf := make([]byte, 4096)
			var first time.Duration
			for seen := 0; ; {
				n, err := resp.Body.Read(buf)
				if seen += n; first == 0 && seen > header {
					first = s.now()
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					return 0, err
				}
			}
			if first == 0 {
				return 0, errors.New("no audio")
			}
			return first, nil
		}
	}, rt.CloseIdleConnections
}

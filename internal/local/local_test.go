package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker"
	rt "github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"loadline/internal/fleet"
)

const speech = "speech-kokoro-82m"

// box is a container whose /invocations is the test's.
type box struct {
	server *http.Server
	addr   string
	usage  func() Usage
	ended  atomic.Bool
}

func (b *box) Addr() string { return b.addr }

func (b *box) Usage() Usage { return b.usage() }

func (b *box) Stop(ctx context.Context) error {
	defer b.ended.Store(true)
	if b.server.Shutdown(ctx) != nil {
		return b.server.Close()
	}
	return nil
}

// world is a local account under test, with the SDK's clients of it.
type world struct {
	*Local
	aws aws.Config
	sm  *sm.Client
	rt  *rt.Client
	aas *aas.Client
	cw  *cw.Client
	sts *sts.Client

	mu    sync.Mutex
	boxes []*box
	specs []Spec
	end   func() error
}

// serving starts an account whose containers answer /invocations with h.
func serving(t testing.TB, cfg Config, h http.HandlerFunc) *world {
	t.Helper()
	w := &world{}
	if cfg.Start == nil {
		cfg.Start = func(_ context.Context, s Spec) (Instance, error) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			mux := http.NewServeMux()
			mux.HandleFunc("/ping", func(http.ResponseWriter, *http.Request) {})
			mux.HandleFunc("/invocations", h)
			began := time.Now()
			b := &box{server: &http.Server{Handler: mux}, addr: ln.Addr().String(), usage: func() Usage {
				s := time.Since(began).Seconds()
				return Usage{CPU: s, GPU: s / 2, Memory: 12, GPUMemory: 34}
			}}
			w.mu.Lock()
			w.boxes, w.specs = append(w.boxes, b), append(w.specs, s)
			w.mu.Unlock()
			go b.server.Serve(ln)
			return b, nil
		}
	}
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Local = l
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	w.end = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := w.end(); err != nil {
			t.Errorf("run: %v", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, b := range w.boxes {
			if !b.ended.Load() {
				t.Errorf("instance %s was left running", b.addr)
			}
		}
	})
	select {
	case <-l.Ready():
	case <-time.After(20 * time.Second):
		t.Fatal("not ready")
	}
	c := aws.Config{Region: "us-east-1", BaseEndpoint: aws.String(l.URL()), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		HTTPClient:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")}
	w.aws = c
	w.sm, w.rt, w.aas, w.cw, w.sts = sm.NewFromConfig(c), rt.NewFromConfig(c), aas.NewFromConfig(c), cw.NewFromConfig(c), sts.NewFromConfig(c)
	return w
}

// one is an endpoint of one variant with a target of 1 to 9.
func one(instances int) Endpoint {
	return Endpoint{Name: speech, Variants: []Variant{{Name: "primary", InstanceType: "ml.g5.xlarge", Instances: instances, Routing: LeastOutstanding, Min: 1, Max: 9,
		Stages: fleet.Stages{},
		Model: Model{Name: "kokoro-82m", Image: "000000000000.dkr.ecr.us-east-1.amazonaws.com/speech@sha256:" + strings.Repeat("ab", 32),
			Env: map[string]string{"ENDPOINT_NAME": speech}}}}}
}

func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }

// wants fails unless err is an API error of that code and HTTP status whose message contains text.
func wants(t *testing.T, err error, code string, status int, text string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Errorf("got %v, want %s", err, code)
		return
	}
	var resp interface{ HTTPStatusCode() int }
	got := 0
	if errors.As(err, &resp) {
		got = resp.HTTPStatusCode()
	}
	if api.ErrorCode() != code || got != status || !strings.Contains(api.ErrorMessage(), text) {
		t.Errorf("got %d %s %q, want %d %s …%s…", got, api.ErrorCode(), api.ErrorMessage(), status, code, text)
	}
}

// settled waits until the endpoint is in service.
func (w *world) settled(t *testing.T) *sm.DescribeEndpointOutput {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		out, err := w.sm.DescribeEndpoint(t.Context(), &sm.DescribeEndpointInput{EndpointName: aws.String(speech)})
		if err != nil {
			t.Fatal(err)
		}
		if out.EndpointStatus == "InService" {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %s", out.EndpointStatus)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func TestNewRefusesOtherThanLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":8080", "192.168.1.1:80", "example.com:80", "127.0.0.1"} {
		if l, err := New(Config{Addr: addr}); err == nil {
			l.listener.Close()
			t.Errorf("%q was taken", addr)
		}
	}
}

func TestEmptyAccount(t *testing.T) {
	w := serving(t, Config{}, ok)
	out, err := w.sm.ListEndpoints(t.Context(), &sm.ListEndpointsInput{})
	if err != nil || len(out.Endpoints) != 0 {
		t.Errorf("%v %v", out, err)
	}
	id, err := w.sts.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil || *id.Account != "000000000000" {
		t.Errorf("%v %v", id, err)
	}
}

func TestUnknownOperationIsLoggedOnce(t *testing.T) {
	var log syncBuilder
	w := serving(t, Config{Log: &log}, ok)
	for range 3 {
		_, err := w.sm.ListDomains(t.Context(), &sm.ListDomainsInput{})
		wants(t, err, "UnknownOperationException", 400, "ListDomains")
		_, err = w.cw.ListMetricStreams(t.Context(), &cw.ListMetricStreamsInput{})
		wants(t, err, "UnknownOperationException", 400, "ListMetricStreams")
		_, err = w.sts.GetAccessKeyInfo(t.Context(), &sts.GetAccessKeyInfoInput{AccessKeyId: aws.String("AKIDEXAMPLEEXAMPLE")})
		wants(t, err, "InvalidAction", 400, "GetAccessKeyInfo")
	}
	for _, name := range []string{"SageMaker.ListDomains", "ListMetricStreams", "GetAccessKeyInfo"} {
		if n := strings.Count(log.String(), name); n != 1 {
			t.Errorf("%s was logged %d times", name, n)
		}
	}
}

type syncBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestRunFailsWhenNothingStarts(t *testing.T) {
	l, err := New(Config{Endpoints: []Endpoint{one(2)}, Start: func(context.Context, Spec) (Instance, error) {
		return nil, fmt.Errorf("no such program")
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no such program") {
		t.Errorf("run: %v", err)
	}
}

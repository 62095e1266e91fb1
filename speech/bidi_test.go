package speech_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"loadline/internal/local"
	"loadline/speech"
)

// instance is a container that stands already.
type instance string

func (i instance) Addr() string               { return string(i) }
func (i instance) Usage() local.Usage         { return local.Usage{} }
func (i instance) Stop(context.Context) error { return nil }

// An endpoint's bidirectional stream is a door like the others: whole texts, streams and sessions.
func TestBidirectionalStream(t *testing.T) {
	r := server(t)
	l, err := local.New(local.Config{
		BidiAddr: "127.0.0.1:0",
		Start: func(context.Context, local.Spec) (local.Instance, error) {
			return instance(r.Listener.Addr().String()), nil
		},
		Endpoints: []local.Endpoint{{Name: "speech", Variants: []local.Variant{{Name: "primary", InstanceType: "ml.g5.xlarge", Instances: 1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the account: %v", err)
		}
	}()
	select {
	case <-l.Ready():
	case <-time.After(20 * time.Second):
		t.Fatal("the account is not ready")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.BidiCertificate())
	c := client(t, speech.Options{Endpoint: "speech", Transport: "bidi", BidiURL: l.BidiURL(), TLS: &tls.Config{RootCAs: roots}, Retry: soon,
		AWS: aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")}})
	reply, err := c.Synthesize(t.Context(), "Hello.")
	if err != nil || heard(reply.WAV[44:]) != "Hello." {
		t.Fatalf("%v, %+v", err, reply)
	}
	st, err := c.Stream(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	want := readAll(t, st)
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, after := range []int64{1 << 60, 1 << 60, 9_000, 30_000} {
		r.listener.left.Store(after)
		turn, err := s.Say(t.Context(), long)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, turn); got != want {
			t.Errorf("text %d: %q, want %q", i, got, want)
		}
	}
	if r.listener.cuts.Load() != 2 {
		t.Errorf("%d cuts", r.listener.cuts.Load())
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	rt "github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"

	"loadline/internal/wire"
)

// stream calls the endpoint and reads the reply to its end.
//
// It does so with a client of its own: the SDK's streams of one client share a decoder that they make at first use,
// which the race detector finds.
func (w *world) stream(t testing.TB, body string) (reply []byte, parts int, err error) {
	out, err := rt.NewFromConfig(w.aws).InvokeEndpointWithResponseStream(t.Context(), &rt.InvokeEndpointWithResponseStreamInput{
		EndpointName: aws.String(speech), Body: []byte(body), ContentType: aws.String("application/json")})
	if err != nil {
		return nil, 0, err
	}
	s := out.GetStream()
	defer s.Close()
	for e := range s.Events() {
		p := e.(*types.ResponseStreamMemberPayloadPart)
		reply, parts = append(reply, p.Value.Bytes...), parts+1
	}
	return reply, parts, s.Err()
}

func (w *world) invoke(t testing.TB, body string) (*rt.InvokeEndpointOutput, error) {
	return w.rt.InvokeEndpoint(t.Context(), &rt.InvokeEndpointInput{EndpointName: aws.String(speech), Body: []byte(body)})
}

// TestManyStreams runs 5,000 streams that are answered at once: the case in which Go's SDK gives up a few connections of a
// hundred unless the platform waits. Its writer can still be scheduled later than the wait where the machine is busy, so of
// that one fault, which is the client's, one stream in a thousand is let pass, and of no other.
func TestManyStreams(t *testing.T) {
	n := 5000
	if testing.Short() {
		n = 200
	}
	w := serving(t, Config{Endpoints: []Endpoint{one(2)}}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	})
	var wg sync.WaitGroup
	var next, broken, gaveUp atomic.Int64
	for range 16 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				want := fmt.Sprintf("request %d %s", i, strings.Repeat("x", int(i%50)*100))
				got, _, err := w.stream(t, want)
				switch {
				case errors.Is(err, net.ErrClosed) && len(got) == 0:
					gaveUp.Add(1)
				case err != nil || string(got) != want:
					if broken.Add(1) == 1 {
						t.Errorf("stream %d: %d of %d bytes, %v", i, len(got), len(want), err)
					}
				}
			}
		})
	}
	wg.Wait()
	if b, g := broken.Load(), gaveUp.Load(); b > 0 || g > int64(max(1, n/1000)) {
		t.Errorf("of %d streams %d broke, and the client gave up the connection of %d", n, b, g)
	}
}

func TestStreamPartsAndHeaders(t *testing.T) {
	pcm := make([]byte, 3*wire.PartPayload/2)
	for i := range pcm {
		pcm[i] = byte(i * 7)
	}
	got := make(chan http.Header, 1)
	gate := make(chan bool)
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}}, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		w.Header().Set("Content-Type", "audio/wav")
		w.Header().Set("X-Amzn-Sagemaker-Custom-Attributes", "instance=7")
		w.Write([]byte("first"))
		w.(http.Flusher).Flush()
		<-gate
		w.Write(pcm)
	})
	out, err := w.rt.InvokeEndpointWithResponseStream(t.Context(), &rt.InvokeEndpointWithResponseStreamInput{EndpointName: aws.String(speech),
		Body: []byte("{}"), ContentType: aws.String("application/json"), Accept: aws.String("audio/wav"), CustomAttributes: aws.String("a=b"), InferenceId: aws.String("id7")})
	if err != nil {
		t.Fatal(err)
	}
	if *out.ContentType != "audio/wav" || *out.InvokedProductionVariant != "primary" || *out.CustomAttributes != "instance=7" {
		t.Errorf("%+v", out)
	}
	h := <-got
	for name, want := range map[string]string{"Content-Type": "application/json", "Accept": "audio/wav", "X-Amzn-Sagemaker-Custom-Attributes": "a=b",
		"X-Amzn-Sagemaker-Inference-Id": "id7", "Authorization": "", "X-Amz-Date": ""} {
		if h.Get(name) != want {
			t.Errorf("the container got %s: %q, want %q", name, h.Get(name), want)
		}
	}
	s := out.GetStream()
	defer s.Close()
	first := (<-s.Events()).(*types.ResponseStreamMemberPayloadPart) // it comes while the container holds the rest back
	if string(first.Value.Bytes) != "first" {
		t.Errorf("the first part is %q", first.Value.Bytes)
	}
	close(gate)
	var rest []byte
	for e := range s.Events() {
		rest = append(rest, e.(*types.ResponseStreamMemberPayloadPart).Value.Bytes...)
	}
	if s.Err() != nil || !bytes.Equal(rest, pcm) {
		t.Errorf("the rest is %d bytes, %v", len(rest), s.Err())
	}
}

func TestRuntimeErrors(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch string(b) {
		case "503":
			w.WriteHeader(503)
			io.WriteString(w, `{"error":"queue_saturated"}`)
		case "408":
			w.WriteHeader(408)
			io.WriteString(w, `{"error":"request_stale"}`)
		case "reset":
			panic(http.ErrAbortHandler)
		case "half":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	calls := map[string]func(body string) error{
		"invoke": func(body string) error { _, err := w.invoke(t, body); return err },
		"stream": func(body string) error { _, _, err := w.stream(t, body); return err },
	}
	for name, call := range calls {
		for body, want := range map[string]struct {
			status  int
			message string
		}{
			"503":   {503, `{"error":"queue_saturated"}`},
			"408":   {408, `{"error":"request_stale"}`},
			"reset": {0, "The connection to the container broke."},
		} {
			var me *types.ModelError
			err := call(body)
			wants(t, err, "ModelError", 424, fmt.Sprintf("error (%d) from primary", want.status))
			if !errors.As(err, &me) {
				t.Errorf("%s %s: %v", name, body, err)
				continue
			}
			if int(*me.OriginalStatusCode) != want.status || *me.OriginalMessage != want.message ||
				!strings.HasPrefix(*me.LogStreamArn, "arn:aws:logs:us-east-1:000000000000:log-group:/aws/sagemaker/Endpoints/"+speech+":log-stream:primary/i-0") {
				t.Errorf("%s %s: %d %q %s", name, body, *me.OriginalStatusCode, *me.OriginalMessage, *me.LogStreamArn)
			}
		}
	}
	if err := calls["invoke"]("half"); err == nil {
		t.Error("half a reply was passed on as one")
	} else {
		wants(t, err, "ModelError", 424, "broke")
	}
	var broken *types.ModelStreamError
	if got, _, err := w.stream(t, "half"); !errors.As(err, &broken) || string(got) != "half" || aws.ToString(broken.ErrorCode_) != "StreamBroken" {
		t.Errorf("a stream that broke ends with %q, %v", got, err)
	}

	_, err := w.rt.InvokeEndpoint(t.Context(), &rt.InvokeEndpointInput{EndpointName: aws.String("nobody"), Body: []byte("x")})
	wants(t, err, "ValidationError", 400, "Endpoint nobody of account 000000000000 not found.")
	_, err = w.rt.InvokeEndpoint(t.Context(), &rt.InvokeEndpointInput{EndpointName: aws.String(speech), TargetVariant: aws.String("blue"), Body: []byte("x")})
	wants(t, err, "ValidationError", 400, "Variant blue")
}

func TestRouting(t *testing.T) {
	for _, routing := range []Routing{Random, LeastOutstanding} {
		t.Run(string(routing), func(t *testing.T) {
			var mu sync.Mutex
			most, inside := map[string]int{}, map[string]int{}
			full, release := make(chan bool, 100), make(chan bool)
			e := one(4)
			e.Variants[0].Routing = routing
			w := serving(t, Config{Endpoints: []Endpoint{e}, Seed: 7}, func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				inside[r.Host]++
				most[r.Host] = max(most[r.Host], inside[r.Host])
				mu.Unlock()
				full <- true
				<-release
			})
			var wg sync.WaitGroup
			for range 40 {
				wg.Go(func() {
					if _, err := w.invoke(t, "x"); err != nil {
						t.Error(err)
					}
				})
			}
			for range 40 {
				<-full
			}
			close(release)
			wg.Wait()
			var got []int
			for _, n := range most {
				got = append(got, n)
			}
			slices.Sort(got)
			even := slices.Equal(got, []int{10, 10, 10, 10})
			if even != (routing == LeastOutstanding) {
				t.Errorf("40 requests over 4 instances: %v", got)
			}
		})
	}
}

// TestCallerLeaves shows that the container's work ends with its caller.
func TestCallerLeaves(t *testing.T) {
	left := make(chan bool, 1)
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}}, func(w http.ResponseWriter, r *http.Request) {
		io.ReadAll(r.Body)
		w.Write([]byte("some"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		left <- true
	})
	out, err := w.rt.InvokeEndpointWithResponseStream(t.Context(), &rt.InvokeEndpointWithResponseStreamInput{EndpointName: aws.String(speech), Body: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	<-out.GetStream().Events()
	out.GetStream().Close()
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("the container still works for a caller that has left")
	}
}

func TestVariantsByWeight(t *testing.T) {
	var counts [2]atomic.Int64
	e := one(1)
	e.Variants = append(e.Variants, e.Variants[0])
	e.Variants[1].Name, e.Variants[1].Weight = "canary", 0.25
	w := serving(t, Config{Endpoints: []Endpoint{e}}, ok)
	for range 200 {
		out, err := w.invoke(t, "x")
		if err != nil {
			t.Fatal(err)
		}
		if *out.InvokedProductionVariant == "canary" {
			counts[1].Add(1)
		} else {
			counts[0].Add(1)
		}
	}
	if c := counts[1].Load(); c < 20 || c > 65 {
		t.Errorf("a weight of 0.25 against 1 took %d of 200", c)
	}
}

package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/google/go-cmp/cmp"

	"loadline/internal/duplex"
)

// envelope signs a message as the SDKs do.
func envelope(t testing.TB, s *v4.StreamSigner, at time.Time, payload []byte) []byte {
	t.Helper()
	var headers bytes.Buffer
	h := eventstream.Headers{{Name: ":date", Value: eventstream.TimestampValue(at)}}
	if err := eventstream.EncodeHeaders(&headers, h); err != nil {
		t.Fatal(err)
	}
	sum, err := s.GetSignature(context.Background(), headers.Bytes(), payload, at)
	if err != nil {
		t.Fatal(err)
	}
	h.Set(":chunk-signature", eventstream.BytesValue(sum))
	var out bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&out, eventstream.Message{Headers: h, Payload: payload}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// FuzzParts sends parts there in envelopes and reads them back from there as the SDK does.
func FuzzParts(f *testing.F) {
	f.Add([]byte("hello"), true, false)
	f.Add([]byte{}, false, true)
	f.Fuzz(func(t *testing.T, b []byte, text, partial bool) {
		p := duplex.Part{Bytes: b, Text: text, Partial: partial}
		message := AppendPart([]byte("before"), p)[len("before"):]
		m, err := eventstream.NewDecoder().Decode(bytes.NewReader(message), nil)
		if err != nil || !bytes.Equal(m.Payload, b) {
			t.Fatalf("%q came as %q: %v", b, m.Payload, err)
		}
		signer := v4.NewStreamSigner(aws.Credentials{AccessKeyID: "k", SecretAccessKey: "s"}, "sagemaker", "us-east-1", []byte("seed"))
		at := time.UnixMilli(1764504000123)
		in := NewEnvelopes(bytes.NewReader(append(envelope(t, signer, at, message), envelope(t, signer, at, nil)...)))
		e, err := in.Next()
		if err != nil || !e.Date.Equal(at) {
			t.Fatalf("%v %v", e.Date, err)
		}
		got, err := e.Part()
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Bytes) == 0 {
			got.Bytes = b[:0]
		}
		if d := cmp.Diff(p, got); d != "" {
			t.Error(d)
		}
		if e, err = in.Next(); err != nil || len(e.Payload) != 0 {
			t.Errorf("the last one has %q: %v", e.Payload, err)
		}
		if _, err := in.Next(); err != io.EOF {
			t.Errorf("after it: %v", err)
		}
	})
}

// FuzzEnvelopes takes any bytes for a request.
func FuzzEnvelopes(f *testing.F) {
	f.Add(Exception(StreamError, "no envelope", "x"))
	f.Add([]byte{0, 0, 0, 16, 0, 0, 0, 0})
	f.Fuzz(func(_ *testing.T, b []byte) {
		for in := NewEnvelopes(bytes.NewReader(b)); ; {
			e, err := in.Next()
			if err != nil {
				return
			}
			_, _ = e.Part()
		}
	})
}

func TestPartsThatAreNone(t *testing.T) {
	message := func(pairs ...string) Envelope {
		var h eventstream.Headers
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], eventstream.StringValue(pairs[i+1]))
		}
		var out bytes.Buffer
		if err := eventstream.NewEncoder().Encode(&out, eventstream.Message{Headers: h}); err != nil {
			t.Fatal(err)
		}
		return Envelope{Payload: out.Bytes()}
	}
	for want, e := range map[string]Envelope{
		Serialization:         {Payload: []byte("garbage")},
		InputValidation:       message(":message-type", "event", ":event-type", "Other"),
		InputValidation + " ": message(":message-type", "event", ":event-type", "PayloadPart", "DataType", "utf8"),
		InputValidation + ".": message(":message-type", "event", ":event-type", "PayloadPart", "CompletionState", "DONE"),
	} {
		var f *Fault
		if _, err := e.Part(); !errors.As(err, &f) || f.Code != want[:len(f.Code)] {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	headers, _ := decodeEvent(t, StreamFault(Refuse(BadSignature, "no")))
	if headers[":message-type"] != "error" || headers[":error-code"] != BadSignature {
		t.Errorf("headers %v", headers)
	}
}

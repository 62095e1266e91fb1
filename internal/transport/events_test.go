package transport

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"loadline/internal/sample"
)

// FuzzMessages holds the decoder to the SDK's own, for any bytes in any cut.
func FuzzMessages(f *testing.F) {
	part := event("event", "PayloadPart", speech(100))
	all := eventstream.Message{Payload: []byte("x")}
	for _, v := range []eventstream.Value{eventstream.BoolValue(true), eventstream.BoolValue(false), eventstream.Int8Value(1), eventstream.Int16Value(2),
		eventstream.Int32Value(3), eventstream.Int64Value(4), eventstream.BytesValue("b"), eventstream.StringValue("s"), eventstream.TimestampValue{}, eventstream.UUIDValue{1}} {
		all.Headers = append(all.Headers, eventstream.Header{Name: "h" + v.String(), Value: v})
	}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, all); err != nil {
		f.Fatal(err)
	}
	f.Add(slices.Concat(part, part, b.Bytes()), 64)
	f.Add(slices.Concat(part, event("exception", "ModelStreamError", []byte("{}"))), 400)
	f.Add(part[:len(part)-3], 32)
	f.Add([]byte("<html></html>"), 32)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		size = max(preludeLen, size%4096)
		var at sample.Nanos
		s := messages{body: iotest.OneByteReader(bytes.NewReader(stream)), clock: func() sample.Nanos { at++; return at }, buf: make([]byte, size)}
		reference, theirs := bytes.NewReader(stream), eventstream.NewDecoder()
		for {
			m, err := s.next()
			before := len(stream) - reference.Len()
			want, wantErr := theirs.Decode(reference, nil)
			if (err == nil) != (wantErr == nil) {
				if err == nil {
					return // the SDK also refuses headers without a name; they do no harm here
				}
				t.Fatalf("after %d bytes of %q: %v, the SDK says %v", before, stream, err, wantErr)
			}
			if err != nil {
				if end := before == len(stream); end != (err == io.EOF) {
					t.Fatalf("after %d of %d bytes: %v", before, len(stream), err)
				}
				if !errors.Is(err, errFrame) && err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatalf("strange error %v", err)
				}
				return
			}
			if !bytes.Equal(m.payload, want.Payload) || int(m.at) != len(stream)-reference.Len() {
				t.Fatalf("payload %q at byte %d, the SDK says %q at byte %d", m.payload, m.at, want.Payload, len(stream)-reference.Len())
			}
			for _, h := range []struct {
				name string
				got  []byte
			}{{":message-type", m.kind}, {":error-message", m.text}} {
				if v := want.Headers.Get(h.name); v != nil && v.String() != string(h.got) {
					if _, isText := v.(eventstream.StringValue); isText {
						t.Fatalf("%s is %q, the SDK says %q", h.name, h.got, v)
					}
				}
			}
		}
	})
}

// A read that brings the last bytes together with the end, or with an error, loses neither.
func TestMessagesEnd(t *testing.T) {
	part := event("event", "PayloadPart", speech(100))
	broken := errors.New("broken")
	for _, tc := range []struct {
		body io.Reader
		want error
	}{
		{iotest.DataErrReader(bytes.NewReader(part)), io.EOF},
		{io.MultiReader(bytes.NewReader(part), iotest.ErrReader(broken)), broken},
		{io.MultiReader(bytes.NewReader(slices.Concat(part, part[:5])), iotest.ErrReader(broken)), broken},
		{iotest.DataErrReader(bytes.NewReader(slices.Concat(part, part[:5]))), io.ErrUnexpectedEOF},
	} {
		s := messages{body: tc.body, clock: func() sample.Nanos { return 1 }, buf: make([]byte, 64)}
		if m, err := s.next(); err != nil || len(m.payload) != 100 {
			t.Fatalf("%d bytes, %v", len(m.payload), err)
		}
		if _, err := s.next(); err != tc.want {
			t.Errorf("then %v, want %v", err, tc.want)
		}
	}
}

func BenchmarkMessages(b *testing.B) {
	part := event("event", "PayloadPart", speech(4800))
	stream := bytes.Repeat(part, 100)
	buf := make([]byte, 4096)
	var long []byte
	b.ReportAllocs()
	for b.Loop() {
		s := messages{body: bytes.NewReader(stream), clock: func() sample.Nanos { return 1 }, buf: buf, long: long}
		n := 0
		for {
			if _, err := s.next(); err != nil {
				break
			}
			n++
		}
		if long = s.long; n != 100 {
			b.Fatal(n)
		}
	}
}

func BenchmarkMessagesSDK(b *testing.B) {
	part := event("event", "PayloadPart", speech(4800))
	stream := bytes.Repeat(part, 100)
	d := eventstream.NewDecoder()
	var payload []byte
	b.ReportAllocs()
	for b.Loop() {
		r := bytes.NewReader(stream)
		for r.Len() > 0 {
			m, err := d.Decode(r, payload)
			if err != nil {
				b.Fatal(err)
			}
			payload = m.Payload
		}
	}
}

package wire

import (
	"bytes"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// decodeEvent reads one message with the SDK's decoder.
func decodeEvent(t *testing.T, message []byte) (headers map[string]string, payload []byte) {
	t.Helper()
	m, err := eventstream.NewDecoder().Decode(bytes.NewReader(message), nil)
	if err != nil {
		t.Fatal(err)
	}
	headers = map[string]string{}
	for _, h := range m.Headers {
		headers[h.Name] = h.Value.String()
	}
	return headers, m.Payload
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("payload"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		buf := NewPartBuffer()
		var got []byte
		for r := bytes.NewReader(payload); ; {
			m, err := buf.Read(r)
			if len(m) > 0 {
				headers, p := decodeEvent(t, m)
				if headers[":event-type"] != "PayloadPart" {
					t.Errorf("headers %v", headers)
				}
				got = append(got, p...)
			}
			if err != nil {
				break
			}
		}
		if !bytes.Equal(got, payload) {
			t.Errorf("%d bytes came back of %d", len(got), len(payload))
		}
		headers, _ := decodeEvent(t, Exception(StreamError, string(payload), "StreamBroken"))
		if headers[":exception-type"] != StreamError {
			t.Errorf("headers %v", headers)
		}
	})
}

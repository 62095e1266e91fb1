package local

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

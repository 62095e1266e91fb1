package local

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// TestOddRequests are what no SDK sends.
func TestOddRequests(t *testing.T) {
	w := serving(t, Config{}, ok)
	for name, c := range map[string]struct {
		method, path, body, target, contentType string
		status                                  int
		code                                    string
	}{
		"no target":    {"POST", "/", "{}", "", "application/x-amz-json-1.1", 400, wire.UnknownOperation},
		"a browser":    {"GET", "/", "", "", "", 400, wire.UnknownOperation},
		"no service":   {"POST", "/", "{}", "DynamoDB_20120810.ListTables", "", 400, wire.UnknownOperation},
		"no JSON":      {"POST", "/", "{", "SageMaker.DescribeEndpoint", "", 400, wire.Serialization},
		"a wrong type": {"POST", "/", `{"EndpointName":7}`, "SageMaker.DescribeEndpoint", "", 400, wire.Serialization},
		"nothing":      {"POST", "/", "", "SageMaker.DescribeEndpoint", "", 400, wire.ValidationException},
		"too much":     {"POST", "/", strings.Repeat(" ", service.MostBody+1), "SageMaker.DescribeEndpoint", "", 400, wire.Serialization},
		"no CBOR":      {"POST", "/service/GraniteServiceVersion20100801/operation/GetMetricData", "\xff", "", "application/cbor", 400, wire.Serialization},
		"no gzip":      {"POST", "/", "plain", "SageMaker.DescribeEndpoint", "gzip", 400, wire.Serialization},
		"GET runtime":  {"GET", "/endpoints/x/invocations", "", "", "", 400, wire.UnknownOperation},
		"another path": {"POST", "/endpoints/x/y/z", "", "", "", 400, wire.UnknownOperation},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, w.URL()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.target != "" {
			req.Header.Set("X-Amz-Target", c.target)
		}
		if c.contentType == "gzip" {
			req.Header.Set("Content-Encoding", "gzip")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := string(body) + resp.Header.Get("X-Amzn-Errortype"); resp.StatusCode != c.status || !strings.Contains(got, c.code) {
			t.Errorf("%s: %d %q", name, resp.StatusCode, got)
		}
	}
}

// Package wire is how AWS's protocols put structures, errors and event streams into bytes: awsJson, RPC v2 over CBOR, the
// query protocol, and the event stream of streamed replies; and which error travels under which HTTP status.
//
// It knows the forms and no operation. A structure is declared once for all protocols, with the tags of encoding/json:
//
//	type in struct{ EndpointName *string }
//	err := wire.JSON.Decode(body, &in)
//	b, err := wire.JSON.Encode(out)
//	status := wire.Refuse(wire.ValidationException, "no endpoint %q", name).Status()
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"time"
)

// Stamp is a time on the wire: seconds since 1970, with a fraction.
type Stamp struct{ time.Time }

// At is the stamp of t.
func At(t time.Time) Stamp { return Stamp{t} }

func (s Stamp) seconds() float64 { return float64(s.UnixMilli()) / 1000 }

// MarshalJSON writes the seconds.
func (s Stamp) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.3f", s.seconds()), nil }

// UnmarshalJSON reads the seconds.
func (s *Stamp) UnmarshalJSON(b []byte) error {
	var v float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	return s.set(v)
}

func (s *Stamp) set(seconds float64) error {
	if !(seconds >= 0 && seconds < 1e11) { // NaN too
		return fmt.Errorf("%v is not a time", seconds)
	}
	s.Time = time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
	return nil
}

// Codec is one protocol's way of reading and writing.
type Codec struct {
	ContentType string
	Decode      func(body []byte, into any) error // into is a pointer to a structure
	Encode      func(v any) ([]byte, error)
	Fault       func(h http.Header, f *Fault) any // what is encoded for a fault; h gets what belongs into headers
	Header      func(h http.Header)               // what every answer carries; nil: nothing
}

// JSON is awsJson1.1.
var JSON = Codec{
	ContentType: "application/x-amz-json-1.1",
	Decode:      decodeJSON,
	Encode:      json.Marshal,
	Fault: func(_ http.Header, f *Fault) any {
		m := map[string]any{"__type": f.Code, "message": f.Message}
		for k, v := range f.More {
			m[k] = v
		}
		return m
	},
}

// QueryJSON is awsJson1.0 of a service that spoke the query protocol before: errors carry their old names in a header.
var QueryJSON = Codec{
	ContentType: "application/x-amz-json-1.0",
	Decode:      decodeJSON,
	Encode:      json.Marshal,
	Fault: func(h http.Header, f *Fault) any {
		oldName(h, f)
		return JSON.Fault(h, f)
	},
}

// oldName puts the query protocol's name of an error into a header, where it is another.
func oldName(h http.Header, f *Fault) {
	if q := codes[f.Code].query; q != "" {
		h.Set("X-Amzn-Query-Error", q+";"+(&queryFault{f}).side())
	}
}

func decodeJSON(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return json.Unmarshal(body, into)
}

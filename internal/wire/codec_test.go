package wire

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// whole is one structure of each sort that the wire has.
type whole struct {
	S     *string            `json:",omitempty"`
	N     *int               `json:",omitempty"`
	F     []float64          `json:",omitempty"`
	M     map[string]float64 `json:",omitempty"`
	T     *Stamp             `json:",omitempty"`
	B     *bool              `json:",omitempty"`
	Inner []whole            `json:",omitempty"`
}

// FuzzCBOR decodes anything, and what it takes for an input comes back from a round trip through both protocols.
func FuzzCBOR(f *testing.F) {
	text, n, yes, at := "text", -7, true, Stamp{time.UnixMilli(1764504000123).UTC()}
	b, err := CBOR.Encode(&whole{&text, &n, []float64{1, -0.5}, map[string]float64{"p95": 3}, &at, &yes, []whole{{S: &text}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{0xbf, 0xff})                                                     // an empty input as the SDK sends it
	f.Add([]byte{0xa1, 0x61, 'T', 0xc1, 0xfb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0})      // NaN for a time
	f.Add([]byte{0xa1, 0x61, 'N', 0x1b, 255, 255, 255, 255, 255, 255, 255, 255})  // too large for an int
	f.Add([]byte{0xa1, 0x61, 'F', 0x9b, 0x7f, 255, 255, 255, 255, 255, 255, 255}) // a list that claims to be endless
	f.Fuzz(func(t *testing.T, body []byte) {
		var in whole
		if err := CBOR.Decode(body, &in); err != nil {
			return
		}
		again, err := CBOR.Encode(&in)
		if err != nil {
			t.Fatal(err)
		}
		var out whole
		if err := CBOR.Decode(again, &out); err != nil {
			t.Fatalf("%v does not come back: %v", in, err)
		}
		if d := cmp.Diff(in, out, cmp.Comparer(sameFloat), cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
		asJSON, err := json.Marshal(&in)
		if err != nil {
			return // NaN has no JSON
		}
		var viaJSON whole
		if err := decodeJSON(asJSON, &viaJSON); err != nil {
			t.Fatalf("%s: %v", asJSON, err)
		}
	})
}

func sameFloat(a, b float64) bool { return a == b || a != a && b != b }

func TestCBORSaysWhatIsWrong(t *testing.T) {
	for want, v := range map[string]any{
		"S must be a string":       map[string]any{"S": 1},
		"N must be a whole number": map[string]any{"N": 1.5},
		"F[1] must be a number":    map[string]any{"F": []any{1.0, "x"}},
		"T must be a time":         map[string]any{"T": 1.0},
		"M must be a map":          map[string]any{"M": []any{}},
		"B must be a boolean":      map[string]any{"B": "true"},
		"Inner must be a list":     map[string]any{"Inner": map[string]any{}},
	} {
		b, err := CBOR.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := CBOR.Decode(b, &whole{}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestEveryCodeHasAStatus keeps the table whole.
func TestEveryCodeHasAStatus(t *testing.T) {
	for code, s := range codes {
		if s.status < 400 || s.status > 599 {
			t.Errorf("%s has status %d", code, s.status)
		}
	}
}

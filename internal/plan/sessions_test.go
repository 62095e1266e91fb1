package plan

import (
	"slices"
	"strings"
	"testing"
)

// Sessions hold capacity while they are idle (E5): the plan of a ladder that was measured in them says so.
func TestSessionsHoldCapacity(t *testing.T) {
	for transport, want := range map[string]bool{"websocket": true, "bidi": true, "http": false, "response-stream": false} {
		in := published(t, "flow")
		in.QMax.Target.Transport = transport
		if in.TTotal != nil {
			in.TTotal.Target.Transport = transport
		}
		notes, err := check(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "between texts") }); got != want {
			t.Errorf("%s: %v", transport, notes)
		}
	}
}

package scaleout

import (
	"slices"
	"testing"
	"time"
)

func TestReach(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000+int64(s), 0) }
	tests := []struct {
		name  string
		marks []Mark
		want  []Reached
	}{
		{name: "nothing"},
		{"before the call", []Mark{{Name: Breach, At: at(0)}, {Name: Alarm, At: at(30)}}, []Reached{{Breach, 0}, {Alarm, 30 * time.Second}}},
		{"by the policy", []Mark{{Name: Breach, At: at(0)}, {Name: DesiredSet, At: at(40)}, {Name: Decision, At: at(40)}, {Name: Alarm, At: at(30)}, {Name: InService, At: at(90)}},
			[]Reached{{Breach, -40 * time.Second}, {Alarm, -10 * time.Second}, {Decision, 0}, {DesiredSet, 0}, {InService, 50 * time.Second}}},
		{"twice", []Mark{{Name: DesiredSet, At: at(0)}, {Name: InService, At: at(9)}, {Name: InService, At: at(7)}},
			[]Reached{{DesiredSet, 0}, {InService, 7 * time.Second}}},
	}
	for _, tt := range tests {
		if got := Reach(tt.marks); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

package audit

import (
	"strings"
	"testing"

	"loadline/internal/capacity"
)

// TestRounded: people read three decimals, and all of them where a value is not as expected; what is put is exact.
func TestRounded(t *testing.T) {
	const exactly = 8.31524705
	for c, want := range map[Check]string{
		{Found: "8.31524705", Expected: "8.31524705", OK: true}: "8.315",
		{Found: "8.31524705", Expected: "8.31524706"}:           "8.31524705",
		{Found: "0.012345678", OK: true}:                        "0.01235",
		{Found: "120778", OK: true}:                             "120778",
		{Found: "not set", OK: true}:                            "not set",
	} {
		if got := c.Read(); got != want {
			t.Errorf("%+v reads %q, not %q", c, got, want)
		}
	}
	changes := Changes{
		Put:       []Policy{{Name: "p", Type: capacity.TargetTracking, Target: new(exactly)}},
		PutAlarms: []Alarm{{Name: "a", Threshold: exactly}},
	}
	for _, line := range changes.Lines() {
		if !strings.Contains(line, " 8.315") || strings.Contains(line, "8.3152") {
			t.Error(line)
		}
	}
}

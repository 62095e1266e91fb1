//go:build linux

package main

import (
	"os"
	"testing"
	"time"
)

// A test's own children are this binary, told what to be.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-as" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestFaultsAreNamed(t *testing.T) {
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			// Most show within a moment; how the kernel shares a processor may take the bench's own time to show.
			for _, hold := range []time.Duration{700 * time.Millisecond, 4 * time.Second, 4 * time.Second} {
				r, err := once(i, hold)
				if err != nil {
					t.Fatal(err)
				}
				if f.found(r) {
					return
				}
				t.Logf("held for %s: valid %v, cause %q; want an invalid rung whose cause says %q\n%+v", hold, r.Valid, r.Cause, f.says, r.Client)
			}
			t.Error("not named in three rungs")
		})
	}
}

func TestNothingWrongIsValid(t *testing.T) {
	for range 3 {
		r, err := once(-1, 700*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if r.Valid {
			return
		}
		t.Log(r.Cause)
		if r.Client == nil || r.Client.PSI > 0.1 {
			t.Skip("others compete for this machine's processors: the alarm may be true")
		}
	}
	t.Error("three false alarms in a row")
}

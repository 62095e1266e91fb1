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
			r, err := once(i, 700*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if !f.found(r) {
				t.Errorf("valid %v, cause %q; want an invalid rung whose cause says %q\n%+v", r.Valid, r.Cause, f.says, r.Client)
			}
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

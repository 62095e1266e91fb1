package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"loadline/internal/exit"
)

// durationFlag is a flag value that reads a duration as people write one: 240, 240s or 4m; a bare number is seconds.
type durationFlag struct{ d *time.Duration }

func (f durationFlag) String() string {
	if f.d == nil {
		return ""
	}
	if *f.d == 0 {
		return "0" // no default for help to print
	}
	return f.d.String()
}

func (f durationFlag) Type() string { return "duration" }

func (f durationFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if v, bare := strconv.ParseFloat(s, 64); bare == nil {
		if math.IsNaN(v) || math.Abs(v) > math.MaxInt64/1e9 {
			return fmt.Errorf("%q is no duration: write 240, 240s or 4m", s)
		}
		d, err = time.Duration(v*float64(time.Second)), nil
	}
	if err != nil {
		return fmt.Errorf("%q is no duration: write 240, 240s or 4m", s)
	}
	if d < 0 {
		return fmt.Errorf("%q lies before it began: a duration is 0 or more", s)
	}
	*f.d = d
	return nil
}

// noArgs refuses anything beside flags as a misuse.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Misuse(fmt.Errorf("%s takes flags only, not %q: %s --help lists them", cmd.Name(), args[0], cmd.CommandPath()))
	}
	return nil
}

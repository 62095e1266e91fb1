package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/compare"
	"loadline/internal/exit"
	"loadline/internal/report"
	"loadline/internal/sample"
	"loadline/internal/store"
)

const compareExample = `  # did the new image change what an instance holds?
  tts-bench compare artifacts/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json \
    artifacts/qmax-kokoro-82m-response-stream-g5xlarge-1f00c0de.json

  # what did another policy do in the same surge?
  tts-bench compare artifacts/simulation-kokoro-82m-surge-g5xlarge-8b1b96bc-01K….json \
    artifacts/simulation-kokoro-82m-surge-g5xlarge-8b1b96bc.json`

func (a *app) compareCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "how far one run or plan lies from another, with an interval",
		Long: `compare reads two records of one kind (qmax, rates, ttotal, simulation or plan) and prints every figure of both with
the shift from A to B and its 95 % interval. Percentiles are compared by the request logs beside the records.

Image, instance and environment may differ: that is what is compared, and it is listed. What was asked for may not: two
runs with different texts, objective, transport or traffic are refused with what differs (exit code 1). Where no figure
has an interval the answer is that it cannot be told (exit code 3).`,
		Example: compareExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return exit.Misuse(fmt.Errorf("compare takes two files, A and B, not %d: tts-bench compare --help", len(args)))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.compare(args[0], args[1], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON instead of the table")
	return cmd
}

func (a *app) compare(fileA, fileB string, asJSON bool) error {
	r, err := compared(fileA, fileB)
	if different := (*compare.DifferentError)(nil); errors.As(err, &different) {
		return exit.Refuse(fmt.Errorf("compare: %w", err))
	}
	if err != nil {
		return err
	}
	r.A.File, r.B.File = fileA, fileB
	if asJSON {
		data, err := artifact.Encode(r)
		if err != nil {
			return fmt.Errorf("compare: %w", err)
		}
		if _, err := a.stdout.Write(data); err != nil {
			return fmt.Errorf("compare: print: %w", err)
		}
	} else {
		fmt.Fprint(a.stdout, compareText(r))
	}
	if !r.Told() {
		if asJSON {
			return exit.CannotTell(exit.Said)
		}
		return exit.CannotTell(errors.New("compare: no figure of the two has an interval, so whether they differ cannot be told"))
	}
	return nil
}

// compared reads both records and compares them as what they are.
func compared(fileA, fileB string) (*compare.Report, error) {
	kindA, err := kindOf(fileA)
	if err != nil {
		return nil, err
	}
	kindB, err := kindOf(fileB)
	if err != nil {
		return nil, err
	}
	if kindA != kindB {
		return nil, exit.Misuse(fmt.Errorf("compare: %s holds a %s and %s a %s: two of a kind are compared", fileA, kindA, fileB, kindB))
	}
	switch kindA {
	case "qmax":
		return both(fileA, fileB, artifact.ReadQMax, func(x, y *artifact.QMax) (*compare.Report, error) {
			logA, _ := ladderLog(fileA, x)
			logB, _ := ladderLog(fileB, y)
			return compare.Ladders(compare.Ladder{QMax: x, Requests: logA}, compare.Ladder{QMax: y, Requests: logB})
		})
	case "rates":
		return both(fileA, fileB, artifact.ReadRates, func(x, y *artifact.Rates) (*compare.Report, error) {
			return compare.OpenLadders(compare.OpenLadder{Rates: x, Requests: ratesLog(fileA, x)}, compare.OpenLadder{Rates: y, Requests: ratesLog(fileB, y)})
		})
	case "ttotal":
		return both(fileA, fileB, artifact.ReadTTotal, compare.ScaleOuts)
	case "simulation":
		return both(fileA, fileB, artifact.ReadSimulation, compare.Simulations)
	case "plan":
		return both(fileA, fileB, artifact.ReadPlan, compare.Plans)
	}
	return nil, exit.Misuse(fmt.Errorf("compare: %s holds a %s: qmax, rates, ttotal, simulation and plan records are compared", fileA, kindA))
}

func both[T any](fileA, fileB string, read func([]byte) (*T, error), with func(a, b *T) (*compare.Report, error)) (*compare.Report, error) {
	x, err := readRecord(fileA, read)
	if err != nil {
		return nil, err
	}
	y, err := readRecord(fileB, read)
	if err != nil {
		return nil, err
	}
	return with(x, y)
}

func kindOf(file string) (string, error) {
	data, err := store.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", exit.Misuse(err)
	case err != nil:
		return "", exit.CannotTell(err)
	}
	kind, err := artifact.Kind(data)
	if err != nil {
		return "", exit.Refuse(fmt.Errorf("%s: %w", file, err))
	}
	return kind, nil
}

// ratesLog is the requests of an open-loop ladder by the place of their rung; nil where they cannot be read.
func ratesLog(path string, r *artifact.Rates) []sample.Request {
	if r.RequestLog == "" {
		return nil
	}
	file, err := store.FindLog(path, r.RunID)
	if err != nil {
		return nil
	}
	log, err := store.ReadLog(file)
	if err != nil || len(log.Rungs) != len(r.Rungs) {
		return nil
	}
	var rs []sample.Request
	for i, rung := range log.Rungs {
		for _, q := range rung {
			q.Rung = i
			rs = append(rs, q)
		}
	}
	return rs
}

func compareText(r *compare.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A  %s (%s)\nB  %s (%s)\n", r.A.File, r.A.CreatedAt.Format("2006-01-02 15:04"), r.B.File, r.B.CreatedAt.Format("2006-01-02 15:04"))
	if len(r.Served) > 0 {
		b.WriteString("\nWhat differs between them\n")
		for _, s := range r.Served {
			b.WriteString("  " + s + "\n")
		}
	}
	var rows [][]string
	var sources []string
	seen := map[string]int{}
	for _, s := range r.Shifts {
		n, ok := seen[s.Source]
		if !ok {
			n = len(sources) + 1
			seen[s.Source] = n
			sources = append(sources, s.Source)
		}
		rows = append(rows, []string{s.What, s.Unit, figures(s.A), figures(s.B), signed(s.Shift), within(s), shiftSays(s), fmt.Sprintf("[%d]", n)})
	}
	b.WriteString("\n" + report.Table([]string{"figure", "<unit", "A", "B", "B − A", "95 % interval", "<says", "<by"}, rows) + "\n")
	for i, s := range sources {
		fmt.Fprintf(&b, "[%d] %s\n", i+1, s)
	}
	if len(r.Missing) > 0 {
		b.WriteString("\nNot compared\n")
		for _, s := range r.Missing {
			b.WriteString("  " + s + "\n")
		}
	}
	return b.String()
}

// shiftSays is what a shift says, in words, and for whom.
func shiftSays(s compare.Shift) string {
	switch s.Says {
	case compare.CannotTell:
		return "cannot tell"
	case compare.NoShift:
		if s.Low != nil && s.High != nil && *s.Low == 0 && *s.High == 0 {
			return "the same"
		}
		return "no shift seen"
	}
	if s.Better == "" {
		return s.Says
	}
	if s.Says == s.Better {
		return s.Says + ": better"
	}
	return s.Says + ": worse"
}

func within(s compare.Shift) string {
	if s.Says == compare.CannotTell {
		return "-"
	}
	low, high := "−∞", "∞"
	if s.Low != nil {
		low = signed(s.Low)
	}
	if s.High != nil {
		high = signed(s.High)
	}
	if low == high {
		return "exact"
	}
	return low + " to " + high
}

// figures is a number with four digits that count.
func figures(v *float64) string {
	if v == nil {
		return "none"
	}
	digits := 0
	if a := math.Abs(*v); a > 0 && a < 1000 {
		digits = max(0, 3-int(math.Floor(math.Log10(a))))
	}
	s := strconv.FormatFloat(*v, 'f', min(digits, 6), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return strings.Replace(cmp.Or(s, "0"), "-", "−", 1)
}

func signed(v *float64) string {
	s := figures(v)
	if v != nil && *v > 0 {
		return "+" + s
	}
	return s
}

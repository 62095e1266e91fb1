package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/report"
	"loadline/internal/store"
)

const reportExample = `  # everything that was measured of an endpoint, as one page
  tts-bench report --out report.html artifacts/*.json`

func (a *app) reportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report --out FILE RECORD…",
		Short: "one HTML page of records: what was found, and where each figure comes from",
		Long: `report draws the qmax, rates, ttotal, plan and simulation records that it is given (published files too) as one HTML file:
the ladder with its objective and certificate, the open-loop curve, the stages of the scale-out, both rules in the surge, the
fleet over time, findings and money, and what to do next. Behind each figure stands the record, the run and the field that it
comes from. The page loads nothing and needs no script; the same records give the same bytes.`,
		Example: reportExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Misuse(errors.New("report takes one record or more: tts-bench report --out report.html artifacts/*.json"))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.report(out, args) },
	}
	cmd.Flags().StringVar(&out, "out", "", "the HTML file to write (required); one that is there is written over")
	return cmd
}

func (a *app) report(out string, files []string) error {
	if out == "" {
		return exit.Misuse(errors.New("report: --out FILE is required: the page to write"))
	}
	if slices.ContainsFunc(files, func(f string) bool { return filepath.Clean(f) == filepath.Clean(out) }) {
		return exit.Misuse(fmt.Errorf("report: --out %s is one of the records: name another file for the page", out))
	}
	var r report.Records
	for _, file := range files {
		if err := readInto(&r, file); err != nil {
			return err
		}
	}
	page, err := report.Page(r)
	if err != nil {
		return exit.Refuse(err)
	}
	if err := store.WriteFile(out, page); err != nil {
		return exit.CannotTell(fmt.Errorf("report: %w", err))
	}
	fmt.Fprintf(a.stdout, "saved %s: %d records, %d kB\nnext: open it in a browser\n", out, len(files), (len(page)+999)/1000)
	return nil
}

// readInto reads a record as what it says it is.
func readInto(r *report.Records, file string) error {
	kind, err := kindOf(file)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	switch kind {
	case "qmax":
		return filed(&r.QMax, file, artifact.ReadQMax)
	case "rates":
		return filed(&r.Rates, file, artifact.ReadRates)
	case "ttotal":
		return filed(&r.TTotal, file, artifact.ReadTTotal)
	case "plan":
		return filed(&r.Plans, file, artifact.ReadPlan)
	case "simulation":
		return filed(&r.Simulations, file, artifact.ReadSimulation)
	}
	return exit.Misuse(fmt.Errorf("report: %s holds a %s: qmax, rates, ttotal, plan and simulation records are told of", file, kind))
}

func filed[T any](to *[]report.Filed[T], file string, read func([]byte) (T, error)) error {
	v, err := readRecord(file, func(data []byte) (*T, error) {
		v, err := read(data)
		return &v, err
	})
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	*to = append(*to, report.Filed[T]{File: filepath.Base(file), Record: *v})
	return nil
}

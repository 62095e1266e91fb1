package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"loadline/infra/stack"
	"loadline/internal/artifact"
	"loadline/internal/command"
	"loadline/internal/gate"
	"loadline/internal/report"
)

const listExample = `  speech-infra list

  # why scaling is off, without an account
  speech-infra list kokoro-82m --region us-east-1 --explain-gate`

// listed is one model for a program.
type listed struct {
	Model        string        `json:"model"`
	Stack        string        `json:"stack"`
	Endpoint     string        `json:"endpoint"`
	Variant      string        `json:"variant"`
	InstanceType string        `json:"instance_type"`
	ImageDigest  string        `json:"image_digest"`
	Min          int           `json:"min_instances"`
	Max          int           `json:"max_instances"` // that would be deployed
	PricePerHour *float64      `json:"price_per_hour"`
	Gate         gate.Decision `json:"gate"`
}

func (a *app) listCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "list [MODEL…]", Short: "the models of the registry, and whether each would scale", Example: listExample,
		Long: "list reads models.yaml and the plans that it names. It asks nothing over the network and needs neither Node nor an account.",
		RunE: func(_ *cobra.Command, args []string) error { return a.list(&f, args) },
	}
	f.add(cmd)
	f.addGate(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func (a *app) list(f *flags, args []string) error {
	c, err := f.choose(args, true)
	if err != nil {
		return err
	}
	models := decided(c.models, a.home(f), f.accept)
	if f.json {
		out := []listed{}
		for _, m := range models {
			low, high := bounds(m)
			l := listed{Model: m.Name, Stack: stack.Name(m.Name), Endpoint: m.Endpoint, Variant: m.Variant, InstanceType: m.InstanceType, ImageDigest: artifact.ImageDigest(m.Image), Min: low, Max: high, Gate: m.Gate}
			if m.Price != nil {
				l.PricePerHour = &m.Price.PerHour
			}
			out = append(out, l)
		}
		return command.JSON(a.stdout, out)
	}
	var rows [][]string
	for _, m := range models {
		low, high := bounds(m)
		digest := artifact.ImageDigest(m.Image)
		if digest == "" {
			digest = "not built"
		}
		scaling := "off"
		if m.Gate.Open {
			scaling = "on"
		}
		rows = append(rows, []string{m.Name, m.Endpoint + "/" + m.Variant, m.InstanceType, fleet(low, high), cost(m.Price, low, high), digest[:min(len(digest), 12)], scaling})
	}
	fmt.Fprint(a.stdout, report.Table([]string{"model", "<endpoint/variant", "<type", "<instances", "<cost", "<image", "<scaling"}, rows))
	for _, m := range models {
		if f.explain {
			fmt.Fprint(a.stdout, m.Gate.Explain())
		} else if !m.Gate.Open {
			fmt.Fprintln(a.stdout, &m.Gate)
		}
	}
	fmt.Fprintf(a.stdout, "next: speech-infra synth %s\n", models[0].Name)
	return nil
}

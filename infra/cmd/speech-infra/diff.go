package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"loadline/infra/stack"
	"loadline/internal/audit"
	"loadline/internal/awsfleet"
	"loadline/internal/exit"
)

const diffExample = `  speech-infra diff kokoro-82m`

func (a *app) diffCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "diff MODEL…", Short: "what a deployment would change, and what that costs", Example: diffExample,
		Long: "diff has the CDK compare the templates with what is deployed, and says what the fleet costs now and would then, at its smallest and at its largest.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.diff(cmd.Context(), &f, args) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.account, "account", "", "refuse to look at any other account")
	cmd.Flags().StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint instead of AWS")
	f.addGate(cmd)
	f.addStacks(cmd)
	return cmd
}

func (a *app) diff(ctx context.Context, f *flags, args []string) error {
	c, cfg, err := a.open(ctx, f, args)
	if err != nil {
		return err
	}
	models := decided(c.models, f.region, f.accept)
	a.say(f, models)
	dir, done, err := a.assembled(f, c, models)
	if err != nil {
		return err
	}
	defer done()
	if err := a.cdk(ctx, f, "diff", dir, allStacks(models)...); err != nil {
		return err
	}
	reader := awsfleet.NewAuditor(cfg)
	for _, m := range models {
		have, err := reader.Endpoint(ctx, m.Endpoint, m.Variant)
		if err != nil {
			return exit.CannotTell(err)
		}
		fmt.Fprint(a.stdout, moneyText(m, have))
		l := look(have, m, consent{})
		for _, n := range l.notes {
			fmt.Fprintln(a.stdout, n)
		}
		for _, e := range l.refuse {
			fmt.Fprintf(a.stdout, "a deployment would be refused: %v\n", e)
		}
	}
	fmt.Fprintf(a.stdout, "next: speech-infra deploy %s\n", models[0].Name)
	return nil
}

// moneyText is what a model's fleet costs an hour, now and once it is deployed, at its smallest and at its largest.
func moneyText(m stack.Model, have audit.Deployed) string {
	low, high := bounds(m)
	then := fmt.Sprintf("%s: then %s instances of %s, %s\n", m.Name, fleet(low, high), m.InstanceType, cost(m.Price, low, high))
	at := slices.IndexFunc(have.Variants, func(v audit.Variant) bool { return v.Name == m.Variant })
	switch {
	case have.Missing:
		return m.Name + ": now nothing runs\n" + then
	case at < 0:
		return m.Name + ": what runs now could not be read\n" + then
	}
	v := have.Variants[at]
	nowLow, nowHigh := v.Desired, v.Desired
	for _, t := range have.Targets {
		if t.Resource == audit.Resource(m.Endpoint, m.Variant) {
			nowLow, nowHigh = max(t.Min, 1), t.Max
		}
	}
	price := m.Price
	if v.InstanceType != m.InstanceType {
		price = nil // models.yaml's is of the new type
	}
	now := fmt.Sprintf("%s: now %s instances of %s (%d run), %s\n", m.Name, fleet(nowLow, nowHigh), v.InstanceType, v.Desired, cost(price, nowLow, nowHigh))
	return now + then
}

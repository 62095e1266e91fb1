package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/awsfleet"
	"loadline/internal/command"
)

const validateExample = `  tts-bench validate --plan artifacts/plan-kokoro-82m-flow-g5xlarge-8b1b96bc.json`

func (a *app) validateCommand() *cobra.Command {
	var f planFlag
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "check that what is deployed equals the plan, value by value; reads only",
		Long: `validate compares every value of the plan with what is deployed: target value, threshold, both cooldowns, bounds, metric,
statistic, queue depth, every alarm, and the fingerprint of the live endpoint. It changes nothing and sends no load
(tts-bench prove does). Exit code 1 on any difference, 3 where something could not be read.`,
		Example: validateExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.validate(cmd, f, asJSON) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.plan, "plan", "", "the plan (required)")
	fl.StringVar(&f.region, "region", "", "AWS region (default: the plan's, else the SDK's)")
	fl.StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint (sagemaker-local) instead of AWS")
	fl.StringVar(&f.stateDir, "state-dir", "", "where freeze records are kept (default: the user's state folder)")
	fl.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

func (a *app) validate(cmd *cobra.Command, f planFlag, asJSON bool) error {
	p, err := f.readPlan()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if f.region == "" {
		f.region = p.Fingerprint.Region
	}
	cfg, err := a.aws(ctx, targetFlags{region: f.region, endpointURL: f.endpointURL})
	if err != nil {
		return err
	}
	live := a.live()
	defer live.Close()
	live.Show(time.Now(), "reading endpoint "+p.Target.Endpoint)
	r, err := a.validated(ctx, cfg, p, f)
	if err != nil {
		return err
	}
	live.Close()
	if asJSON {
		if err := command.JSON(a.stdout, r); err != nil {
			return err
		}
	} else {
		fmt.Fprint(a.stdout, validateText(p, f.plan, r))
	}
	return driftCode([]audit.Report{r})
}

// validated compares every value of the plan with what is deployed.
func (a *app) validated(ctx context.Context, cfg aws.Config, p *artifact.Plan, f planFlag) (audit.Report, error) {
	r, err := a.audited(ctx, awsfleet.NewAuditor(cfg), subject{want: declaredBy(p, f.plan)}, f.stateDir)
	if err != nil {
		return r, err
	}
	if p.Fingerprint.Region != "" {
		ok := p.Fingerprint.Region == cfg.Region
		r.Checks = append(r.Checks, audit.Check{Resource: p.Target.Endpoint, Field: "region", Found: cfg.Region, Expected: p.Fingerprint.Region, OK: ok})
		if !ok {
			r.Findings = append(r.Findings, audit.Finding{ID: "region:" + p.Target.Endpoint, Kind: "region", Severity: audit.High, Resource: p.Target.Endpoint, Found: "region " + cfg.Region, Expected: "region " + p.Fingerprint.Region})
		}
	}
	return r, nil
}

// validateText is every value that was compared, then what is wrong.
func validateText(p *artifact.Plan, file string, r audit.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s against %s\n", p.Target.Endpoint, p.Target.Variant, file)
	for _, c := range r.Checks {
		mark := "OK     "
		if !c.OK {
			mark = "DIFFERS"
		}
		fmt.Fprintf(&b, "  %s %s: %s: %s", mark, c.Resource, c.Field, c.Read())
		if !c.OK {
			fmt.Fprintf(&b, ", the plan has %s", c.Expected)
		}
		b.WriteString("\n")
	}
	wrong := 0
	for _, f := range r.Findings {
		if !f.Severity.Drift() {
			continue
		}
		wrong++
		fmt.Fprintf(&b, "  %-8s %s  %s: found %s, expected %s\n", f.Severity, f.Kind, f.Resource, f.Found, f.Expected)
		if f.Mend != "" {
			fmt.Fprintf(&b, "           mend      %s\n", f.Mend)
		}
	}
	for _, u := range r.Unread {
		fmt.Fprintf(&b, "  ----     %s could not be read: %s\n", u.What, u.Why)
	}
	switch {
	case wrong > 0:
		fmt.Fprintf(&b, "differs: %d of what is deployed is not the plan's\nnext: tts-bench apply --plan %s\n", wrong, file)
	case len(r.Unread) > 0:
		b.WriteString("cannot tell\n")
	default:
		fmt.Fprintf(&b, "valid: %d values, every alarm and the fingerprint equal the plan\nnext: tts-bench prove --plan %s\n", len(r.Checks), file)
	}
	return b.String()
}

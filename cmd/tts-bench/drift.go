package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/awsfleet"
	"loadline/internal/command"
	"loadline/internal/exit"
	"loadline/internal/registry"
)

const driftExample = `  # every endpoint of models.yaml
  tts-bench drift

  # one of them, for a program
  tts-bench drift --model kokoro-82m --json`

// driftFlags are the flags of drift.
type driftFlags struct {
	model, models       string
	endpoint, variant   string
	region, endpointURL string
	stateDir            string
	json                bool
}

func (a *app) driftCommand() *cobra.Command {
	var f driftFlags
	cmd := &cobra.Command{
		Use:   "drift",
		Short: "compare what is deployed with models.yaml and the plan it names; reads only",
		Long: `drift reads the endpoint, its scalable target, policies, alarms, schedules, quota and role, and lists what is not as it
was declared, worst first, each with a command that mends it. It changes nothing.

Exit code 1 from medium up, 3 where something could not be read (which is never taken for missing), 0 when all is as
declared.`,
		Example: driftExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.drift(cmd, f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.model, "model", "", "one model of the registry (default: all)")
	fl.StringVar(&f.models, "models", "models.yaml", "model registry")
	fl.StringVar(&f.endpoint, "endpoint", "", "or one SageMaker endpoint: its name, or a resource id of the autoscaler, endpoint/NAME/variant/NAME")
	fl.StringVar(&f.variant, "variant", "", "its variant (default: the registry's, else the only one)")
	fl.StringVar(&f.region, "region", "", "AWS region (default: the SDK's)")
	fl.StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint (sagemaker-local) instead of AWS")
	fl.StringVar(&f.stateDir, "state-dir", "", "where freeze records are kept (default: the user's state folder)")
	fl.BoolVar(&f.json, "json", false, "print the reports as JSON")
	return cmd
}

// subject is one endpoint to look at, with what is declared of it.
type subject struct {
	want     audit.Declared
	plan     *artifact.Plan
	findings []audit.Finding // of the declarations themselves
	unread   []audit.Unread
}

// declared is what a model of the registry declares.
func declared(m *registry.Model) subject {
	s := subject{want: audit.Declared{
		Model: m.Name, Endpoint: m.Endpoint, Variant: m.Variant, InstanceType: m.InstanceType, ImageDigest: artifact.ImageDigest(m.Image),
		Env: m.ContainerEnv, QueueBound: m.QueueMaxDepth, Min: max(1, m.MinInstances), Max: max(1, m.MaxInstances), Scaling: m.ScalingEnabled(), PlanFile: m.Plan,
	}}
	if m.Plan == "" {
		return s
	}
	p, err := readRecord(m.Plan, artifact.ReadPlan)
	if err != nil {
		s.unread = append(s.unread, audit.Unread{What: "plan", Why: err.Error()})
		return s
	}
	s.plan = p
	s.findings = audit.Registry(m.Name, m.Plan, []audit.Pair{
		{Field: "min_instances", Registry: m.MinInstances, Plan: max(1, p.Config.MinInstances)}, {Field: "max_instances", Registry: m.MaxInstances, Plan: max(1, p.Config.MaxInstances)},
		{Field: "scaling_target_value", Registry: m.ScalingTargetValue, Plan: p.Config.ScalingTargetValue}, {Field: "scale_in_threshold", Registry: m.ScaleInThreshold, Plan: p.Config.ScaleInThreshold},
		{Field: "scale_out_cooldown_s", Registry: m.ScaleOutCooldown, Plan: p.Config.OutCooldown}, {Field: "scale_in_cooldown_s", Registry: m.ScaleInCooldown, Plan: p.Config.InCooldown},
		{Field: "queue_max_depth", Registry: m.QueueMaxDepth, Plan: p.Config.QueueMaxDepth}, {Field: "instance_type", Registry: m.InstanceType, Plan: p.Fingerprint.InstanceType},
	})
	s.want.Plan(p)
	return s
}

// subjects is what the flags ask for.
func subjects(f driftFlags, set func(string) bool) (list []subject, file *registry.File, err error) {
	if _, statErr := os.Stat(f.models); errors.Is(statErr, fs.ErrNotExist) && f.model == "" && f.endpoint != "" && !set("models") {
		return []subject{{want: audit.Declared{Endpoint: f.endpoint, Variant: f.variant}}}, nil, nil
	}
	if file, err = registry.Load(f.models); err != nil {
		return nil, nil, exit.Misuse(err)
	}
	if f.model != "" {
		m, err := file.Model(f.model)
		if err != nil {
			return nil, nil, exit.Misuse(err)
		}
		return []subject{declared(m)}, file, nil
	}
	for i := range file.Models {
		if m := &file.Models[i]; m.StreamingMode != "none" && (f.endpoint == "" || m.Endpoint == f.endpoint) {
			list = append(list, declared(m))
		}
	}
	if len(list) == 0 && f.endpoint != "" {
		list = []subject{{want: audit.Declared{Endpoint: f.endpoint, Variant: f.variant}}}
	}
	return list, file, nil
}

func (a *app) drift(cmd *cobra.Command, f driftFlags) error {
	set := cmd.Flags().Changed
	if f.model != "" && f.endpoint != "" {
		return exit.Misuse(errors.New("--model and --endpoint exclude each other"))
	}
	if strings.Contains(f.endpoint, "/") { // as policies and alarms name it
		endpoint, variant, err := audit.ParseResource(f.endpoint)
		if err != nil {
			return exit.Misuse(fmt.Errorf("--endpoint: %w", err))
		}
		if f.variant != "" && f.variant != variant {
			return exit.Misuse(fmt.Errorf("--endpoint %s and --variant %s name two variants", f.endpoint, f.variant))
		}
		f.endpoint, f.variant = endpoint, variant
	}
	list, file, err := subjects(f, set)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	cfg, err := a.aws(ctx, targetFlags{region: f.region, endpointURL: f.endpointURL})
	if err != nil {
		return err
	}
	live := a.live()
	defer live.Close()
	reader := awsfleet.NewAuditor(cfg)
	var reports []audit.Report
	for _, s := range list {
		live.Show(time.Now(), "reading endpoint "+s.want.Endpoint)
		if f.variant != "" {
			s.want.Variant = f.variant
		}
		r, err := a.audited(ctx, reader, s, f.stateDir)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	if f.model == "" && f.endpoint == "" && file != nil {
		live.Show(time.Now(), "listing the account's scalable targets")
		r := audit.Report{Endpoint: "the account"}
		before := reader.Calls()
		r.Findings, err = reader.Foreign(ctx, func(name string) bool {
			return slices.ContainsFunc(file.Models, func(m registry.Model) bool { return m.Endpoint == name })
		})
		if err != nil {
			r.Unread = []audit.Unread{{What: "the account's targets", Why: err.Error()}}
		}
		r.Calls = reader.Calls() - before
		if len(r.Findings) > 0 || len(r.Unread) > 0 {
			reports = append(reports, r)
		}
	}
	live.Close()
	if f.json {
		if err := command.JSON(a.stdout, reports); err != nil {
			return err
		}
	} else {
		fmt.Fprint(a.stdout, driftText(reports))
	}
	return driftCode(reports)
}

// audited reads one endpoint and compares it.
func (a *app) audited(ctx context.Context, reader *awsfleet.Auditor, s subject, stateDir string) (audit.Report, error) {
	have, err := reader.Component(ctx, s.want.Endpoint, s.want.Component, variantsOf(s.want)...)
	if err != nil {
		return audit.Report{}, exit.CannotTell(err)
	}
	if s.want.Variant == "" && len(have.Variants) == 1 {
		s.want.Variant = have.Variants[0].Name
	}
	var left []audit.Finding
	if state, err := a.state(stateDir); err == nil {
		records, err := state.Records()
		for _, rec := range records {
			if rec.CloneOf == s.want.Endpoint {
				left = append(left, audit.Finding{ID: "clone_left:" + rec.Endpoint, Kind: "clone_left", Severity: audit.High, Resource: "endpoint/" + rec.Endpoint,
					Found: "a clone of run " + rec.RunID + " is being measured, or was left by a kill and goes on costing", Expected: "none", Mend: "tts-bench thaw --endpoint " + rec.Endpoint})
			}
			if rec.Endpoint == s.want.Endpoint && (s.want.Variant == "" || rec.Variant == s.want.Variant) {
				have.Freeze = rec
			}
		}
		if err != nil {
			have.Unread = append(have.Unread, audit.Unread{What: "freeze records", Why: err.Error()})
		}
	}
	have.Unread = append(have.Unread, s.unread...)
	r := audit.Compare(s.want, have, time.Now())
	r.Findings = append(append(r.Findings, s.findings...), left...)
	return r, nil
}

func variantsOf(d audit.Declared) []string {
	if d.Variant == "" {
		return nil
	}
	return []string{d.Variant}
}

// driftCode is 1 for drift, 3 where something could not be read, 0 else.
func driftCode(reports []audit.Report) error {
	var errs []error
	for _, r := range reports {
		if r.Drift() {
			errs = append(errs, exit.Refuse(exit.Said))
		}
		if len(r.Unread) > 0 {
			errs = append(errs, exit.CannotTell(exit.Said))
		}
	}
	return errors.Join(errs...)
}

// driftText is the findings for people.
func driftText(reports []audit.Report) string {
	var b strings.Builder
	drift, unread := 0, 0
	for _, r := range reports {
		fmt.Fprintf(&b, "%s: %d API calls, %d values compared\n", r.Endpoint, r.Calls, len(r.Checks))
		for _, f := range r.Findings {
			if f.Severity.Drift() {
				drift++
			}
			fmt.Fprintf(&b, "  %-8s %s  %s\n", f.Severity, f.Kind, f.Resource)
			fmt.Fprintf(&b, "           found     %s\n           expected  %s\n", f.Found, f.Expected)
			switch {
			case f.Foreign:
				fmt.Fprintf(&b, "           foreign: nothing here touches it\n")
			case f.Mend != "":
				fmt.Fprintf(&b, "           mend      %s\n", f.Mend)
			}
		}
		for _, u := range r.Unread {
			unread++
			fmt.Fprintf(&b, "  ----     %s could not be read: %s\n", u.What, u.Why)
		}
	}
	switch {
	case drift > 0:
		fmt.Fprintf(&b, "drift: %s\n", counted(drift, "finding"))
	case unread > 0:
		fmt.Fprintf(&b, "cannot tell: %s could not be read\n", counted(unread, "thing"))
	default:
		fmt.Fprintf(&b, "preflight-ok: what is deployed is what was declared\nnext: tts-bench qmax --model NAME\n")
	}
	return b.String()
}

// preflight is drift as the first step of a measurement: what is found is noted, and a frozen or suspended endpoint is left
// to the refusals that follow. It only reads.
func (a *app) preflight(ctx context.Context, cfg aws.Config, t target, stateDir string, note func(string)) {
	s := subject{want: audit.Declared{Endpoint: t.Endpoint, Variant: t.Variant}}
	if t.model != nil {
		s = declared(t.model)
		s.want.Endpoint, s.want.Variant = t.Endpoint, t.Variant
	}
	if t.Component != "" {
		s.want.Component = t.Component
	}
	r, err := a.audited(ctx, awsfleet.NewAuditor(cfg), s, stateDir)
	if err != nil {
		note(fmt.Sprintf("drift: what is deployed could not be compared: %v", err))
		return
	}
	for _, f := range r.Findings {
		if f.Severity.Drift() {
			note(fmt.Sprintf("drift: %s %s %s: %s, expected %s", f.Severity, f.Kind, f.Resource, f.Found, f.Expected))
		}
	}
	for _, u := range r.Unread {
		note(fmt.Sprintf("drift: %s could not be read: %s", u.What, u.Why))
	}
}

// permitted names what a measurement needs and the caller may not do, before anything is changed. Tags and logs it can do
// without; an account that does not let its permissions be simulated is said to be unchecked.
func (a *app) permitted(ctx context.Context, cfg aws.Config, note func(string)) error {
	return a.permittedFor(ctx, cfg, false, note)
}

// permittedFor is permitted of instances, or of the copies of an inference component.
func (a *app) permittedFor(ctx context.Context, cfg aws.Config, component bool, note func(string)) error {
	needed := slices.DeleteFunc(actionsOf("measuring", component), func(action string) bool {
		return !pinning(action, component) || strings.HasPrefix(action, "logs:") || strings.HasSuffix(action, "Tags") || strings.HasPrefix(action, "servicequotas:") || strings.HasPrefix(action, "iam:")
	})
	denied, err := awsfleet.Denied(ctx, cfg, needed)
	if err != nil {
		note(fmt.Sprintf("the caller's permissions could not be checked beforehand: %v", err))
		return context.Cause(ctx)
	}
	if len(denied) > 0 {
		return exit.Refuse(fmt.Errorf("the caller may not %s: nothing was changed; tts-bench iam --for measuring prints what is needed", strings.Join(denied, ", ")))
	}
	return nil
}

// counted is a number of things by their name.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

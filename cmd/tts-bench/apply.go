package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/awsfleet"
	"loadline/internal/capacity"
	"loadline/internal/command"
	"loadline/internal/exit"
	"loadline/internal/store"
)

const applyExample = `  # show what would change, then do it
  tts-bench apply --plan artifacts/plan-kokoro-82m-flow-g5xlarge-8b1b96bc.json --dry-run
  tts-bench apply --plan artifacts/plan-kokoro-82m-flow-g5xlarge-8b1b96bc.json

  # put back what was there before that run
  tts-bench apply --rollback 01K1V3Q4Z5X6Y7W8V9T0S1R2Q3`

// planFlag are the flags of the commands on a plan and its endpoint.
type planFlag struct {
	plan                string
	region, endpointURL string
	stateDir            string
}

// applyFlags are the flags of apply.
type applyFlags struct {
	planFlag
	rollback      string
	yes, dryRun   bool
	allowMismatch bool
	json          bool
}

// applied is what apply did, or would do, for machines.
type applied struct {
	Endpoint  string   `json:"endpoint"`
	Variant   string   `json:"variant"`
	Component string   `json:"component,omitempty"`
	Plan      string   `json:"plan"`
	Changes   []string `json:"changes"`
	Applied   bool     `json:"applied"`          // false: nothing was changed
	RunID     string   `json:"run_id,omitempty"` // of the apply: --rollback takes it
	Saved     string   `json:"saved,omitempty"`  // the file with what was there before
}

func (a *app) applyCommand() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "put a plan's scalable target, policies and alarms in place",
		Long: `apply saves what is deployed, shows the difference, asks, puts the plan in place through the API, and reads it back.
When a step fails, or what is read back is not the plan, what was there before is put back. --rollback does that later.

It deletes only what an earlier plan has made.`,
		Example: applyExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.apply(cmd, f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.plan, "plan", "", "the plan (tts-bench plan makes one)")
	fl.StringVar(&f.rollback, "rollback", "", "put back what was deployed before this run of apply (its id, or the file that it saved)")
	fl.StringVar(&f.region, "region", "", "AWS region (default: the plan's, else the SDK's)")
	fl.StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint (sagemaker-local) instead of AWS")
	fl.BoolVar(&f.yes, "yes", false, "agree to the difference that is shown")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show the difference and change nothing")
	fl.BoolVar(&f.allowMismatch, "allow-config-mismatch", false, "go on where the endpoint is not what was measured")
	fl.BoolVar(&f.json, "json", false, "print what was changed as JSON; what is said goes to stderr")
	fl.StringVar(&f.stateDir, "state-dir", "", "where what was there before is saved (default: the user's state folder)")
	return cmd
}

// readPlan reads the plan that a command works on.
func (f planFlag) readPlan() (*artifact.Plan, error) {
	if f.plan == "" {
		return nil, exit.Misuse(errors.New("--plan FILE is missing: tts-bench plan makes one"))
	}
	p, err := readRecord(f.plan, artifact.ReadPlan)
	if err != nil {
		return nil, err
	}
	if p.Target.Endpoint == "" || p.Target.Variant == "" {
		return nil, exit.Refuse(fmt.Errorf("%s is a plan of no SageMaker variant: nothing of it can be deployed there", f.plan))
	}
	if _, _, err := audit.ParseResource(audit.Resource(p.Target.Endpoint, p.Target.Variant)); err != nil {
		return nil, exit.Refuse(fmt.Errorf("%s: its target %w", f.plan, err))
	}
	for _, policy := range p.Policies {
		if why := audit.CanFire(policy.Metric, p.Target.Endpoint, p.Target.Variant); why != "" && p.Target.Component == "" {
			return nil, exit.Refuse(fmt.Errorf("%s: policy %s cannot fire: %s", f.plan, policy.Name, why))
		}
	}
	return p, nil
}

// declaredBy is what a plan alone declares.
func declaredBy(p *artifact.Plan, file string) audit.Declared {
	d := audit.Declared{Model: p.Target.Model, Endpoint: p.Target.Endpoint, Variant: p.Target.Variant, PlanFile: file}
	d.Plan(p)
	d.Scaling = true // what a plan has computed is compared, a fleet that does not grow too
	return d
}

func (a *app) apply(cmd *cobra.Command, f applyFlags) error {
	if f.rollback != "" {
		if f.plan != "" {
			return exit.Misuse(errors.New("--plan and --rollback exclude each other"))
		}
		return a.rollback(cmd.Context(), f)
	}
	p, err := f.readPlan()
	if err != nil {
		return err
	}
	switch {
	case p.Verdict == capacity.Stop:
		return exit.Refuse(fmt.Errorf("%s is stopped: mend what stops it, or take it on (tts-bench plan --accept)", f.plan))
	case len(p.Policies) == 0:
		return exit.Refuse(fmt.Errorf("%s has no policies to put in place: its notes say why", f.plan))
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
	v, err := a.variant(ctx, cfg, p.Target.Endpoint, p.Target.Variant, live)
	if err != nil {
		return err
	}
	v.Of(p.Target.Component)
	hold, err := a.lock(f.stateDir, p.Target.Endpoint, v.Name())
	if err != nil {
		return err
	}
	defer hold.Release()
	if err := unclaimed(hold); err != nil {
		return err
	}
	live.Show(time.Now(), "reading what is deployed")
	planned := audit.Planned(p)
	have, err := awsfleet.NewAuditor(cfg).Component(ctx, p.Target.Endpoint, p.Target.Component, v.Name())
	if err == nil {
		err = readWhole(have)
	}
	if err == nil {
		err = a.applicable(ctx, cfg, v, p, have.Role, f)
	}
	if err != nil {
		return err
	}
	before := audit.Now(have, planned.Resource, planned)
	changes := audit.Between(before, planned, false)
	live.Close()
	out := a.saying(f.json)
	did := applied{Endpoint: p.Target.Endpoint, Variant: v.Name(), Component: p.Target.Component, Plan: f.plan, Changes: append([]string{}, changes.Lines()...)}
	fmt.Fprintf(out, "%s/%s\n", p.Target.Endpoint, v.Name())
	if changes.Empty() {
		fmt.Fprintf(out, "nothing to do: the plan is in place\nnext: tts-bench prove --plan %s\n", f.plan)
		return a.did(f.json, did)
	}
	for _, line := range changes.Lines() {
		fmt.Fprintf(out, "  %s\n", line)
	}
	if t := before.Target; t != nil && (t.Out || t.In || t.Sched) {
		fmt.Fprintf(out, "  scaling is suspended, and is left so: tts-bench thaw --endpoint %s\n", p.Target.Endpoint)
	}
	if f.dryRun {
		fmt.Fprintln(out, "next: the same without --dry-run")
		return a.did(f.json, did)
	}
	if err := a.agree(ctx, p.Target.Endpoint, shownAbove, f.yes); err != nil {
		return err
	}
	now := time.Now().UTC()
	s := audit.Saved{Schema: audit.SchemaSaved, RunID: store.NewRunID(now), At: now, Region: cfg.Region, URL: f.endpointURL,
		Endpoint: p.Target.Endpoint, Variant: v.Name(), Component: p.Target.Component, Plan: f.plan, Before: before}
	path, err := a.saveScaling(f.stateDir, s)
	if err != nil {
		return fmt.Errorf("save what is deployed: %w: nothing was changed", err)
	}
	err = v.Apply(ctx, changes)
	if err == nil {
		err = a.readBack(ctx, cfg, p, f.plan)
	}
	live.Close()
	if err != nil {
		return a.undo(ctx, cfg, v, s, planned, path, err)
	}
	fmt.Fprintf(out, "applied and read back; what was there before is in %s\n", path)
	fmt.Fprintf(out, "to undo: tts-bench apply --rollback %s\nnext: tts-bench prove --plan %s\n", s.RunID, f.plan)
	did.Applied, did.RunID, did.Saved = true, s.RunID, path
	return a.did(f.json, did)
}

// readWhole refuses to change what could not be read: it could not be put back.
func readWhole(d audit.Deployed) error {
	var errs []error
	for _, u := range d.Unread {
		switch u.What {
		case "endpoint", "targets", "policies", "alarms":
			errs = append(errs, exit.CannotTell(fmt.Errorf("%s could not be read, and could not be put back: %s", u.What, u.Why)))
		}
	}
	return errors.Join(errs...)
}

// applicable refuses a plan that is not of this endpoint, and names every permission that is missing before anything is
// changed. The right to make the scaler's role is needed only where there is none (role; nil: not known).
func (a *app) applicable(ctx context.Context, cfg aws.Config, v *awsfleet.Variant, p *artifact.Plan, role *bool, f applyFlags) error {
	state, err := v.Inspect(ctx)
	if err != nil {
		return err
	}
	warnings, err := artifact.Pair("the plan", p.Fingerprint, "the endpoint", state.Fingerprint, f.allowMismatch)
	if err != nil {
		return exit.Refuse(err)
	}
	for _, w := range warnings {
		v.Note(w)
	}
	if p.Target.Component != "" { // copies share instances: how many they need is the platform's to say
	} else if quota, err := awsfleet.Quota(ctx, cfg, state.Fingerprint.InstanceType); err != nil {
		v.Note(fmt.Sprintf("the quota could not be read: %v", err))
	} else if quota < p.Config.MaxInstances {
		v.Note(fmt.Sprintf("the account may run %d of %s, and the plan goes up to %d: a scale-out beyond the quota is refused whole", quota, state.Fingerprint.InstanceType, p.Config.MaxInstances))
	}
	const makeRole = "iam:CreateServiceLinkedRole"
	denied, err := awsfleet.Denied(ctx, cfg, actionsOf("applying", p.Target.Component != ""))
	if role != nil && *role {
		denied = slices.DeleteFunc(denied, func(action string) bool { return action == makeRole })
	}
	switch {
	case err != nil:
		v.Note(fmt.Sprintf("the caller's permissions could not be checked beforehand: %v", err))
	case len(denied) > 0:
		if role != nil && !*role && slices.Contains(denied, makeRole) {
			return exit.Refuse(fmt.Errorf("the caller may not %s, and there is no role %s yet, which a first target needs: tts-bench iam --for applying prints what is needed", strings.Join(denied, ", "), audit.LinkedRole))
		}
		return exit.Refuse(fmt.Errorf("the caller may not %s: tts-bench iam --for applying prints what is needed", strings.Join(denied, ", ")))
	}
	return nil
}

// readBack compares what is deployed now with the plan's scaling.
func (a *app) readBack(ctx context.Context, cfg aws.Config, p *artifact.Plan, file string) error {
	planned := audit.Planned(p)
	have, err := awsfleet.NewAuditor(cfg).Component(ctx, p.Target.Endpoint, p.Target.Component, p.Target.Variant)
	if err == nil {
		err = readWhole(have)
	}
	if err != nil {
		return err
	}
	if left := audit.Between(audit.Now(have, planned.Resource, planned), planned, false); !left.Empty() {
		return fmt.Errorf("read back, it is not the plan: %s", strings.Join(left.Lines(), "; "))
	}
	return nil
}

// undo puts back what was there before, whatever ended the change.
func (a *app) undo(ctx context.Context, cfg aws.Config, v *awsfleet.Variant, s audit.Saved, planned audit.Scaling, path string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	if err := a.restoreScaling(ctx, cfg, v, s, planned); err != nil {
		return exit.Refuse(fmt.Errorf("apply: %w\nand what was there before could not be put back: %w\nit is in %s: tts-bench apply --rollback %s", why, err, path, s.RunID))
	}
	return exit.Refuse(fmt.Errorf("apply: %w: what was there before is put back", why))
}

func (a *app) restoreScaling(ctx context.Context, cfg aws.Config, v *awsfleet.Variant, s audit.Saved, planned audit.Scaling) error {
	named := audit.Scaling{Alarms: append(planned.Alarms, s.Before.Alarms...)}
	have, err := awsfleet.NewAuditor(cfg).Component(ctx, s.Endpoint, s.Component, s.Variant)
	if err == nil {
		err = readWhole(have)
	}
	if err != nil {
		return err
	}
	if err := v.Apply(ctx, audit.Between(audit.Now(have, s.Before.Resource, named), s.Before, true)); err != nil {
		return err
	}
	have, err = awsfleet.NewAuditor(cfg).Component(ctx, s.Endpoint, s.Component, s.Variant)
	if err != nil {
		return err
	}
	if left := audit.Between(audit.Now(have, s.Before.Resource, named), s.Before, true); !left.Empty() {
		return fmt.Errorf("still changed: %s", strings.Join(left.Lines(), "; "))
	}
	return nil
}

// rollback puts back what an earlier run of apply found.
func (a *app) rollback(ctx context.Context, f applyFlags) error {
	dir, err := a.stateDir(f.stateDir)
	if err != nil {
		return err
	}
	path := f.rollback // of the file, or the run
	if filepath.Ext(path) != ".json" {
		path = filepath.Join(dir, audit.Saved{RunID: filepath.Base(f.rollback)}.Name())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return exit.Misuse(fmt.Errorf("--rollback %s: nothing was saved by a run of that name: %w", f.rollback, err))
	}
	var s audit.Saved
	if err := json.Unmarshal(data, &s); err != nil || s.Schema != audit.SchemaSaved || s.Endpoint == "" || s.Before.Resource == "" {
		return exit.CannotTell(fmt.Errorf("%s cannot be read as what an apply has saved", path))
	}
	if f.endpointURL == "" {
		f.endpointURL = s.URL
	}
	cfg, err := a.aws(ctx, targetFlags{region: s.Region, endpointURL: f.endpointURL})
	if err != nil {
		return err
	}
	live := a.live()
	defer live.Close()
	v, err := a.variant(ctx, cfg, s.Endpoint, s.Variant, live)
	if err != nil {
		return err
	}
	v.Of(s.Component)
	hold, err := a.lock(f.stateDir, s.Endpoint, s.Variant)
	if err != nil {
		return err
	}
	defer hold.Release()
	if err := unclaimed(hold); err != nil {
		return err
	}
	planned := audit.Scaling{}
	if p, err := readRecord(s.Plan, artifact.ReadPlan); err == nil {
		planned = audit.Planned(p)
	}
	have, err := awsfleet.NewAuditor(cfg).Component(ctx, s.Endpoint, s.Component, s.Variant)
	if err == nil {
		err = readWhole(have)
	}
	if err != nil {
		return err
	}
	named := audit.Scaling{Alarms: append(planned.Alarms, s.Before.Alarms...)}
	changes := audit.Between(audit.Now(have, s.Before.Resource, named), s.Before, true)
	live.Close()
	out := a.saying(f.json)
	did := applied{Endpoint: s.Endpoint, Variant: s.Variant, Component: s.Component, Plan: s.Plan, Changes: append([]string{}, changes.Lines()...), RunID: s.RunID, Saved: path}
	if changes.Empty() {
		fmt.Fprintf(out, "%s/%s: nothing to put back\n", s.Endpoint, s.Variant)
		return a.did(f.json, did)
	}
	for _, line := range changes.Lines() {
		fmt.Fprintf(out, "  %s\n", line)
	}
	if f.dryRun {
		return a.did(f.json, did)
	}
	if err := a.agree(ctx, s.Endpoint, shownAbove, f.yes); err != nil {
		return err
	}
	if err := a.restoreScaling(ctx, cfg, v, s, planned); err != nil {
		return exit.Refuse(fmt.Errorf("rollback: %w", err))
	}
	live.Close()
	fmt.Fprintf(out, "%s/%s: put back as before run %s\n", s.Endpoint, s.Variant, s.RunID)
	did.Applied = true
	return a.did(f.json, did)
}

// saying is where a command says what it does: beside the result where that is for a machine.
func (a *app) saying(json bool) io.Writer {
	if json {
		return a.stderr
	}
	return a.stdout
}

// did prints what a command did for a machine, if one reads it.
func (a *app) did(json bool, what any) error {
	if !json {
		return nil
	}
	return command.JSON(a.stdout, what)
}

// saveScaling keeps what was there before the first change.
func (a *app) saveScaling(dir string, s audit.Saved) (string, error) {
	dir, err := a.stateDir(dir)
	if err != nil {
		return "", err
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", err
	}
	if _, err := store.Save(dir, s.Name(), append(data, '\n')); err != nil {
		return "", err
	}
	return filepath.Join(dir, s.Name()), nil
}

// shownAbove is what is agreed to: each line of it has just been printed.
var shownAbove = []string{"what is listed above is changed"}

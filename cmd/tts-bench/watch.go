package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/awsfleet"
	"loadline/internal/command"
	"loadline/internal/exit"
	"loadline/internal/registry"
)

const watchExample = `  # every model of models.yaml that names a plan; for cron, which sends mail where there is output
  tts-bench watch --quiet

  # one plan, for a program
  tts-bench watch --plan artifacts/plan-kokoro-82m-flow-g5xlarge-8b1b96bc.json --json`

// watchFlags are the flags of watch.
type watchFlags struct {
	plan, model, models string
	region, endpointURL string
	json, quiet         bool
}

func (a *app) watchCommand() *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "say whether what runs is still what the plan behind it was measured on; reads only",
		Long: `watch compares the image digest, the environment, the instance type and the region of what is deployed with those that the
plan was measured on. A number that was measured on another image is a number of another thing: measure again.

It is for a scheduler: one line an endpoint, four calls each (two more for an inference
component), nothing is changed and no load is sent. Exit code 0
where every plan still fits, 1 where one does not, 3 where something could not be read. What else is deployed (policies,
alarms, bounds) is for drift and validate.`,
		Example: watchExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.watch(cmd, f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.plan, "plan", "", "the plan (default: those that the registry names)")
	fl.StringVar(&f.model, "model", "", "one model of the registry (default: all)")
	fl.StringVar(&f.models, "models", "models.yaml", "model registry")
	fl.StringVar(&f.region, "region", "", "AWS region (default: each plan's, else the SDK's)")
	fl.StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint (sagemaker-local) instead of AWS")
	fl.BoolVar(&f.quiet, "quiet", false, "print nothing of an endpoint whose plan still fits")
	fl.BoolVar(&f.json, "json", false, "print a JSON list instead of lines")
	return cmd
}

// What watch says of an endpoint.
const (
	fresh     = "fresh"     // it is what was measured
	stale     = "stale"     // it is not
	unplanned = "unplanned" // there is no plan to fit
	unread    = "unread"    // it could not be told
)

// watched is what watch says of one endpoint.
type watched struct {
	Model       string    `json:"model"`
	Endpoint    string    `json:"endpoint"`
	Variant     string    `json:"variant"`
	Plan        string    `json:"plan"`
	PlannedAt   time.Time `json:"planned_at,omitzero"`
	State       string    `json:"state"`
	Differences []differs `json:"differences"`
	Why         string    `json:"why,omitempty"`
}

// differs is one thing that is not as it was measured.
type differs struct {
	Field    string `json:"field"` // image_digest, container_env.NAME, instance_type, region
	Planned  string `json:"planned"`
	Deployed string `json:"deployed"`
}

// line is it in one line.
func (w watched) line() string {
	name := w.Endpoint + "/" + w.Variant
	if w.Endpoint == "" {
		name = w.Model
	}
	switch w.State {
	case fresh:
		line := fmt.Sprintf("fresh %s: what runs is what %s was measured on", name, w.Plan)
		if w.Why != "" {
			line += "; " + w.Why
		}
		return line
	case stale:
		why := w.Why
		for i, d := range w.Differences {
			if i > 0 {
				why += "; "
			}
			why += fmt.Sprintf("%s is %s, and was %s", d.Field, d.Deployed, d.Planned)
		}
		return fmt.Sprintf("stale %s: %s: %s no longer holds; next: tts-bench qmax --endpoint %s, then plan", name, why, w.Plan, w.Endpoint)
	case unplanned:
		return fmt.Sprintf("unplanned %s: %s", name, w.Why)
	}
	return fmt.Sprintf("unread %s: %s", name, w.Why)
}

func (a *app) watch(cmd *cobra.Command, f watchFlags) error {
	set := cmd.Flags().Changed
	if f.plan != "" && (f.model != "" || set("models")) {
		return exit.Misuse(errors.New("--plan and --model or --models exclude each other"))
	}
	list, err := f.watched()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	configs := map[string]aws.Config{}
	var failed []error
	for i := range list {
		w := &list[i].watched
		if w.State == "" {
			region := f.region
			if region == "" {
				region = list[i].plan.Fingerprint.Region
			}
			cfg, known := configs[region]
			if !known {
				if cfg, err = a.aws(ctx, targetFlags{region: region, endpointURL: f.endpointURL}); err != nil {
					return err
				}
				configs[region] = cfg
			}
			if err := w.look(ctx, cfg, list[i].plan); err != nil {
				return err
			}
		}
		switch w.State {
		case stale:
			failed = append(failed, exit.Refuse(exit.Said))
		case unread:
			failed = append(failed, exit.CannotTell(exit.Said))
		}
	}
	if f.json {
		said := make([]watched, len(list))
		for i := range list {
			said[i] = list[i].watched
		}
		if err := command.JSON(a.stdout, said); err != nil {
			return err
		}
		return errors.Join(failed...)
	}
	for _, w := range list {
		if !f.quiet || w.State == stale || w.State == unread {
			fmt.Fprintln(a.stdout, w.line())
		}
	}
	return errors.Join(failed...)
}

// planned is an endpoint with the plan behind it; nil where its state is settled already.
type planned struct {
	watched
	plan *artifact.Plan
}

// watched is what the flags ask for.
func (f watchFlags) watched() ([]planned, error) {
	if f.plan != "" {
		p, err := planFlag{plan: f.plan}.readPlan()
		if err != nil {
			return nil, err
		}
		return []planned{behind(f.plan, p)}, nil
	}
	file, err := registry.Load(f.models)
	if err != nil {
		return nil, exit.Misuse(err)
	}
	models := file.Models
	if f.model != "" {
		m, err := file.Model(f.model)
		if err != nil {
			return nil, exit.Misuse(err)
		}
		models = []registry.Model{*m}
	}
	var list []planned
	for _, m := range models {
		w := watched{Model: m.Name, Endpoint: m.Endpoint, Variant: m.Variant, Plan: m.Plan, Differences: []differs{}}
		if m.Plan == "" {
			w.State, w.Why = unplanned, f.models+" names no plan, so nothing of it can go stale"
			list = append(list, planned{watched: w})
			continue
		}
		p, err := planFlag{plan: m.Plan}.readPlan()
		if err != nil { // whether it fits cannot be told, and the others are looked at all the same
			w.State, w.Why = unread, err.Error()
			list = append(list, planned{watched: w})
			continue
		}
		entry := behind(m.Plan, p)
		if p.Target.Endpoint != m.Endpoint || p.Target.Variant != m.Variant {
			entry.watched = w
			entry.State, entry.Why = stale, fmt.Sprintf("its plan is of %s/%s", p.Target.Endpoint, p.Target.Variant)
		}
		list = append(list, entry)
	}
	return list, nil
}

func behind(file string, p *artifact.Plan) planned {
	return planned{plan: p, watched: watched{Model: p.Target.Model, Endpoint: p.Target.Endpoint, Variant: p.Target.Variant, Plan: file, PlannedAt: p.CreatedAt, Differences: []differs{}}}
}

// look reads what runs and compares it. Only the end of ctx is an error.
func (w *watched) look(ctx context.Context, cfg aws.Config, p *artifact.Plan) error {
	v, err := awsfleet.Open(ctx, cfg, w.Endpoint, w.Variant)
	var have artifact.Fingerprint
	if err == nil {
		have, err = v.Of(p.Target.Component).Fingerprint(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return exit.CannotTell(fmt.Errorf("interrupted: %w", context.Cause(ctx)))
	case errors.Is(err, awsfleet.ErrMissing):
		w.State, w.Why = stale, "it does not exist"
		return nil
	case err != nil && exit.Code(err) == exit.Misused: // the variant is not there
		w.State, w.Why = stale, err.Error()
		return nil
	case err != nil:
		w.State, w.Why = unread, err.Error()
		return nil
	}
	var unknown []string
	for _, d := range artifact.Compare(p.Fingerprint, have) {
		missing := d.A == notKnown || d.B == notKnown
		switch {
		case d.Field == "region" && p.Fingerprint.NoRegion: // a published file could not have said
		case missing && d.A == notKnown:
			unknown = append(unknown, d.Field+" is not in the plan")
		case missing:
			unknown = append(unknown, d.Field+" of what is deployed could not be told")
		default:
			w.Differences = append(w.Differences, differs{d.Field, d.A, d.B})
		}
	}
	switch {
	case len(w.Differences) > 0:
		w.State = stale
	case len(unknown) > 0:
		w.State, w.Why = unread, strings.Join(unknown, "; ")
	default:
		w.State, w.Why = fresh, artifact.Uncompared("the plan", p.Fingerprint, "what is deployed", have)
	}
	return nil
}

// notKnown is how artifact.Compare writes what is missing.
const notKnown = "not known"

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"loadline/infra/stack"
	"loadline/internal/audit"
	"loadline/internal/awsfleet"
	"loadline/internal/command"
	"loadline/internal/exit"
	"loadline/internal/gate"
	"loadline/internal/store"
)

// retypeSteps is how the instance type of an endpoint that scales is changed.
func retypeSteps(m stack.Model, v audit.Variant) []string {
	last := "measure on " + m.InstanceType + " (tts-bench qmax, ttotal, plan --write) and deploy again: what was measured on " + v.InstanceType + " is stale, so it does not scale until then"
	if m.Gate.Open {
		last = "register the target and put the policies of " + m.PlanName() + ", and compare with what was saved"
	}
	return []string{
		"save the target, its policies, schedules and alarms",
		fmt.Sprintf("deregister the target by a stack without scaling; the count stays at %d", v.Desired),
		"update the endpoint to " + m.InstanceType + " and wait until it is InService, with as many instances",
		last,
	}
}

// retype changes the instance type of an endpoint that scales, in steps. Where one fails while the endpoint has its old type,
// the scaling is put back.
func (a *app) retype(ctx context.Context, cfg aws.Config, f *deployFlags, c chosen, m stack.Model, had audit.Deployed) error {
	resource := audit.Resource(m.Endpoint, m.Variant)
	was := had.Variants[slices.IndexFunc(had.Variants, func(v audit.Variant) bool { return v.Name == m.Variant })]
	dir, err := command.StateDir(a.env, f.stateDir, "the scaling that is taken away is saved")
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	s := audit.Saved{Schema: audit.SchemaSaved, RunID: store.NewRunID(now), At: now, Region: cfg.Region, URL: f.endpointURL, Endpoint: m.Endpoint, Variant: m.Variant,
		Before: audit.Now(had, resource, audit.Scaling{})}
	for _, x := range had.Schedules {
		if x.Resource == resource {
			s.Schedules = append(s.Schedules, x)
		}
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, s.Name())
	if _, err := store.Save(dir, s.Name(), data); err != nil {
		return fmt.Errorf("save what scales now: %w: nothing was changed", err)
	}
	steps := retypeSteps(m, was)
	step := func(i int) { fmt.Fprintf(a.stdout, "%d/%d %s\n", i, len(steps), steps[i-1]) }
	step(1)
	fmt.Fprintf(a.stdout, "    saved in %s\n", path)
	for _, x := range s.Schedules {
		fmt.Fprintf(a.stdout, "    schedule %s goes with the target, and is in no plan. To put it back: %s\n", x.Name, schedule(x))
	}

	off := m
	off.Gate = gate.Decision{Model: m.Name, Conditions: []gate.Condition{{Name: "instance type", Detail: "its type is being changed"}}}
	old := off
	old.InstanceType = was.InstanceType
	err = func() error {
		step(2)
		if err := a.deployStacks(ctx, f, c, []stack.Model{old}); err != nil {
			return err
		}
		if err := a.deregister(ctx, cfg, m); err != nil {
			return err
		}
		step(3)
		return a.deployStacks(ctx, f, c, []stack.Model{off})
	}()
	if err != nil {
		return a.restore(ctx, cfg, m, was.InstanceType, s, path, err)
	}
	step(4)
	if !m.Gate.Open {
		fmt.Fprintf(a.stdout, "    %s; what scaled before is in %s\n", &m.Gate, path)
		return nil
	}
	if err := a.deployStacks(ctx, f, c, []stack.Model{m}); err != nil {
		return exit.Refuse(fmt.Errorf("%s has its new type and does not scale: %w: deploy again once that is mended", m.Endpoint, err))
	}
	have, err := awsfleet.NewAuditor(cfg).Endpoint(ctx, m.Endpoint, m.Variant)
	if err != nil {
		return exit.CannotTell(err)
	}
	for _, line := range audit.Between(s.Before, audit.Now(have, resource, audit.Scaling{}), true).Lines() {
		fmt.Fprintf(a.stdout, "    other than before: %s\n", line)
	}
	return nil
}

// schedule is the command that makes a scheduled action.
func schedule(x audit.Schedule) string {
	var bounds []string
	if x.Min != nil {
		bounds = append(bounds, fmt.Sprintf("MinCapacity=%d", *x.Min))
	}
	if x.Max != nil {
		bounds = append(bounds, fmt.Sprintf("MaxCapacity=%d", *x.Max))
	}
	return fmt.Sprintf("%s --scheduled-action-name '%s' --schedule '%s' --scalable-target-action %s", scaler("put-scheduled-action", x.Resource), x.Name, x.Expression, strings.Join(bounds, ","))
}

// deregister takes away a target that the stack did not know of.
func (a *app) deregister(ctx context.Context, cfg aws.Config, m stack.Model) error {
	have, err := awsfleet.NewAuditor(cfg).Endpoint(ctx, m.Endpoint, m.Variant)
	if err != nil {
		return exit.CannotTell(err)
	}
	id := audit.Resource(m.Endpoint, m.Variant)
	for _, u := range have.Unread {
		if u.What == "targets" {
			return exit.CannotTell(fmt.Errorf("whether %s has a scalable target could not be read: %s", id, u.Why))
		}
	}
	if !slices.ContainsFunc(have.Targets, func(t audit.Target) bool { return t.Resource == id }) {
		return nil
	}
	if have.Missing {
		return exit.Refuse(fmt.Errorf("a scalable target was left behind: %s", scaler("deregister-scalable-target", id)))
	}
	v, err := awsfleet.Open(ctx, cfg, m.Endpoint, m.Variant)
	if err != nil {
		return err
	}
	v.Say = func(line string) { fmt.Fprintln(a.stderr, line+" …") }
	return v.Apply(ctx, audit.Changes{Deregister: true})
}

// restore puts the scaling back after a step that failed, if the endpoint still has the type that it is for.
func (a *app) restore(ctx context.Context, cfg aws.Config, m stack.Model, was string, s audit.Saved, path string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	by := fmt.Sprintf("tts-bench apply --rollback %s", path)
	back := func() (bool, error) {
		have, err := awsfleet.NewAuditor(cfg).Endpoint(ctx, m.Endpoint, m.Variant)
		if err != nil {
			return false, err
		}
		at := slices.IndexFunc(have.Variants, func(v audit.Variant) bool { return v.Name == m.Variant })
		if at < 0 || have.Variants[at].InstanceType != was {
			return false, nil
		}
		v, err := awsfleet.Open(ctx, cfg, m.Endpoint, m.Variant)
		if err != nil {
			return true, err
		}
		v.Say = func(line string) { fmt.Fprintln(a.stderr, line+" …") }
		return true, v.Apply(ctx, audit.Between(audit.Now(have, s.Before.Resource, s.Before), s.Before, true))
	}
	switch old, err := back(); {
	case err != nil:
		return exit.Refuse(fmt.Errorf("%w\nand what scaled before could not be put back: %w\nit is saved: %s", why, err, by))
	case !old:
		return exit.Refuse(fmt.Errorf("%w\nthe endpoint does not have its old type any more, and what scaled before was measured on that: it is saved in %s", why, path))
	}
	return exit.Refuse(fmt.Errorf("%w\nwhat scaled before is put back", why))
}

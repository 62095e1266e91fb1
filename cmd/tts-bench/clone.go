package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"loadline/internal/artifact"
	"loadline/internal/awsfleet"
	"loadline/internal/chart"
	"loadline/internal/exit"
	"loadline/internal/report"
	"loadline/internal/store"
)

// uncloneLimit bounds taking a clone away: one that is still being made has to come into service first.
const uncloneLimit = 40 * time.Minute

// cloneVariant is under which the record of a clone is kept, beside that of its real variant.
const cloneVariant = "loadline-clone"

// cloned makes a temporary endpoint of the target's model and one instance, and points the target at it, so that
// production is left alone. A record is kept before the first call; drop deletes the clone, and is to be called on every
// way out. After a kill, thaw deletes it.
func (a *app) cloned(ctx context.Context, cfg aws.Config, live *report.Live, to *target, stateDir, url string, yes bool) (drop func() error, err error) {
	v, err := a.variant(ctx, cfg, to.Endpoint, to.Variant, live)
	if err != nil {
		return nil, err
	}
	runID := store.NewRunID(time.Now())
	name := awsfleet.CloneName(to.Endpoint, runID)
	cost := "what it costs an hour is not known"
	if m := to.model; m != nil && m.Price != nil {
		cost = fmt.Sprintf("it costs %s an hour (%s, %s)", chart.Money(m.Price.PerHour, 3), m.Price.Source, m.Price.Date)
	}
	live.Close()
	if err := a.agree(ctx, to.Endpoint, []string{fmt.Sprintf("a temporary endpoint %s of the same model with one instance is made, measured and deleted; %s", name, cost)}, yes); err != nil {
		return nil, err
	}
	hold, err := a.lock(stateDir, name, cloneVariant)
	if err != nil {
		return nil, err
	}
	rec := artifact.Freeze{Schema: artifact.SchemaFreeze, RunID: runID, CreatedAt: time.Now().UTC(), Owner: owner(), Command: "clone", Region: cfg.Region,
		Endpoint: name, Variant: cloneVariant, URL: url, CloneOf: to.Endpoint}
	if err := hold.Write(&rec); err != nil {
		return nil, errors.Join(fmt.Errorf("keep the record of the clone: %w: nothing was made", err), hold.Release())
	}
	drop = func() error {
		defer hold.Release()
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), uncloneLimit, fmt.Errorf("not deleted within %s", uncloneLimit))
		defer cancel()
		if err := v.Unclone(ctx, name); err != nil {
			return exit.Refuse(fmt.Errorf("clone %s is NOT deleted and goes on costing: %w\nits record is kept; run: tts-bench thaw --endpoint %s", name, err, name))
		}
		live.Note("clone " + name + " is deleted")
		return hold.Remove()
	}
	if err := v.Clone(ctx, name); err != nil {
		return nil, errors.Join(exit.CannotTell(fmt.Errorf("clone: %w", err)), drop())
	}
	live.Note("measuring clone " + name)
	to.origin, to.Endpoint, to.Variant = to.Endpoint, name, v.Name()
	return drop, nil
}

// recorded is the target as records name it: a clone is named by what it is a clone of.
func (t target) recorded() artifact.Target {
	if t.origin != "" {
		t.Target.Endpoint = t.origin
	}
	return t.Target
}

// thawClone deletes a clone that a killed run has left.
func (a *app) thawClone(ctx context.Context, cfg aws.Config, live *report.Live, f thawFlags, rec *artifact.Freeze) error {
	hold, err := a.lock(f.stateDir, rec.Endpoint, rec.Variant)
	if err != nil {
		return err
	}
	defer hold.Release()
	// Deleting asks nothing of the endpoint that it is a clone of, which may be gone.
	if err := awsfleet.Unopened(cfg, func(line string) { live.Show(time.Now(), line) }).Unclone(ctx, rec.Endpoint); err != nil {
		return err
	}
	if err := hold.Remove(); err != nil {
		return err
	}
	state, err := a.state(f.stateDir)
	if err != nil {
		return err
	}
	records, err := state.Records() // what the run froze on the clone is gone with it
	for _, r := range records {
		if r.Endpoint != rec.Endpoint {
			continue
		}
		inner, lockErr := a.lock(f.stateDir, r.Endpoint, r.Variant)
		if lockErr != nil {
			return lockErr
		}
		err = errors.Join(err, inner.Remove(), inner.Release())
	}
	live.Close()
	did := "deleted, a clone of " + rec.CloneOf
	if !f.json {
		fmt.Fprintf(a.stdout, "%s: %s\n", rec.Endpoint, did)
	}
	return errors.Join(err, a.did(f.json, thawed{Endpoint: rec.Endpoint, Did: did}))
}

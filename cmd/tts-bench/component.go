package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/pflag"

	"loadline/internal/artifact"
	"loadline/internal/awsfleet"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/report"
	"loadline/internal/store"
)

// componentFlagged is the flag of commands that ask an inference component: what is pinned and scaled is its copies.
type componentFlagged struct{ component string }

func (f *componentFlagged) componentFlags(fl *pflag.FlagSet) {
	fl.StringVar(&f.component, "component", "", "inference component of the endpoint: its copies are what is asked, pinned and scaled")
}

// componentMisuse is what is wrong with it.
func (f *componentFlagged) componentMisuse(to targetFlags, set func(string) bool) (bad []error) {
	switch {
	case f.component == "":
	case to.url != "":
		bad = append(bad, errors.New("--component is for SageMaker endpoints, not for --url"))
	case to.transport == bidi:
		bad = append(bad, errors.New("--component and --transport bidi exclude each other: a bidirectional stream names an endpoint and a variant, and has no place for a component"))
	}
	if f.component != "" && set("clone") {
		bad = append(bad, errors.New("--component and --clone exclude each other: a clone is made of a variant's own model, and a component's endpoint has none"))
	}
	return bad
}

// claimed is claim of what the target names: a variant, or the copies of a component on one.
func (a *app) claimed(ctx context.Context, cfg aws.Config, to *target, stateDir string, live *report.Live) (*awsfleet.Variant, *store.Hold, error) {
	if to.Component != "" {
		name, err := awsfleet.VariantOf(ctx, cfg, to.Endpoint, to.Component)
		if err != nil {
			return nil, nil, err
		}
		if to.Variant != "" && to.Variant != name {
			return nil, nil, exit.Refuse(fmt.Errorf("inference component %s is of variant %s, not of %s: leave --variant out", to.Component, name, to.Variant))
		}
		to.Variant = name
	}
	v, hold, err := a.claim(ctx, cfg, to, stateDir, live)
	if err != nil {
		return nil, nil, err
	}
	return v.Of(to.Component), hold, nil
}

// ofLadder makes the component that a ladder measured the target's, unless another target is named.
func (f *targetFlags) ofLadder(t artifact.Target, set func(string) bool) {
	if !set("endpoint") && !set("model") && !set("component") {
		f.component = t.Component
	}
}

// one is what a target has a count of, several are some of it.
func one(t artifact.Target) string {
	if t.Component != "" {
		return "copy"
	}
	return "instance"
}

func several(t artifact.Target) string {
	if t.Component != "" {
		return "copies"
	}
	return "instances"
}

// what is the target by its own name.
func (t target) what() string {
	if t.Component != "" {
		return t.Endpoint + ", inference component " + t.Component
	}
	return t.Endpoint
}

// pinning says whether an action is needed to pin what the target names: instances and copies are pinned by different ones.
func pinning(action string, component bool) bool {
	switch {
	case strings.HasSuffix(action, ":UpdateEndpointWeightsAndCapacities"):
		return !component
	case strings.HasSuffix(action, ":ListInferenceComponents"):
		return false // its answer is a question more for the owner, or a note
	}
	return true
}

// copiesNeeded checks nothing of the account: whether a copy more needs an instance more is decided where it is placed.
func copiesNeeded(s freeze.Variant) []string {
	return []string{fmt.Sprintf("whether one more copy of %s needs one more %s depends on the room on those that there are: the quota is not checked beforehand", s.Component, s.Fingerprint.InstanceType)}
}

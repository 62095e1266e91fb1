package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"loadline/infra/stack"
	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/exit"
	"loadline/internal/gate"
	"loadline/internal/registry"
	"loadline/internal/store"
)

// flags are those that several commands share.
type flags struct {
	models              string
	all                 bool
	region, endpointURL string
	account             string
	imageURI            string
	accept              []string
	explain, json       bool
	stateDir            string
	stack.Settings
}

// add adds the flags that say which models, and where.
func (f *flags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.models, "models", "models.yaml", "model registry")
	fl.BoolVar(&f.all, "all", false, "every model of the registry")
	fl.StringVar(&f.region, "region", "", "AWS region (default: the SDK's)")
}

// addGate adds the flags that decide on scaling and on what is in the templates.
func (f *flags) addGate(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.accept, "accept", nil, "take on a stop that the plan took on, or a ladder that is not certified (uncertified); repeatable")
	fl.BoolVar(&f.explain, "explain-gate", false, "say of every condition of scaling how it came out")
}

func (f *flags) addStacks(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.imageURI, "image-uri", "", "the image of the one model that is named, with its digest (default: models.yaml's)")
	fl.StringVar(&f.AlarmTopic, "alarm-topic", "", "ARN of the SNS topic that alarms notify (default: the foundation's own)")
	fl.StringVar(&f.AlarmEmail, "alarm-email", "", "an address that the foundation's topic notifies")
	fl.StringArrayVar(&f.Clients, "client", nil, "ARN of a role or user that may call the endpoints by the client role (repeatable)")
	fl.BoolVar(&f.TrustAccount, "trust-account", false, "let everybody whom the account's IAM lets assume the client role")
}

// chosen is the registry and those of its models that the arguments name.
type chosen struct {
	file   *registry.File
	models []registry.Model
}

// What a flag must look like before it is written into a template, where a typing error would only be found by the account.
var (
	principal = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[!-~]+$`)
	topic     = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]+$`)
)

// all is every model of the registry, the chosen ones with the image that they are to have.
func (c chosen) all() []registry.Model {
	all := slices.Clone(c.file.Models)
	for i := range all {
		for _, m := range c.models {
			if m.Name == all[i].Name {
				all[i] = m
			}
		}
	}
	return all
}

func (f *flags) choose(args []string, none bool) (chosen, error) {
	file, err := registry.Load(f.models)
	if err != nil {
		return chosen{}, exit.Misuse(err)
	}
	c := chosen{file: file}
	switch {
	case f.all && len(args) > 0:
		return c, exit.Misuse(errors.New("models and --all exclude each other"))
	case f.all || len(args) == 0 && none:
		c.models = slices.Clone(file.Models)
	case len(args) == 0:
		return c, exit.Misuse(fmt.Errorf("no model is named: name one of %s, or give --all", strings.Join(names(file.Models), ", ")))
	}
	for _, name := range args {
		m, err := file.Model(name)
		if err != nil {
			return c, exit.Misuse(err)
		}
		if !slices.Contains(names(c.models), m.Name) {
			c.models = append(c.models, *m)
		}
	}
	for _, name := range f.accept {
		if name != gate.Uncertified && !slices.Contains(capacity.Stoppable, name) {
			return c, exit.Misuse(fmt.Errorf("--accept %s: nothing of that name closes the gate and can be taken on: %s or %s", name, strings.Join(capacity.Stoppable, ", "), gate.Uncertified))
		}
	}
	for _, arn := range f.Clients {
		if !principal.MatchString(arn) {
			return c, exit.Misuse(fmt.Errorf("--client %s: the ARN of a role or user, such as arn:aws:iam::123456789012:role/agents", arn))
		}
	}
	if t := f.AlarmTopic; t != "" && !topic.MatchString(t) {
		return c, exit.Misuse(fmt.Errorf("--alarm-topic %s: the ARN of an SNS topic, such as arn:aws:sns:us-east-1:123456789012:on-call", t))
	}
	if f.imageURI != "" {
		if len(c.models) != 1 {
			return c, exit.Misuse(errors.New("--image-uri is of one model: name it"))
		}
		if artifact.ImageDigest(f.imageURI) == "" {
			return c, exit.Misuse(fmt.Errorf("--image-uri %s names no digest (…@sha256:<64 hex>): a tag can move, and what is measured must be what is deployed", f.imageURI))
		}
		c.models[0].Image = f.imageURI
	}
	return c, nil
}

func names(models []registry.Model) []string {
	var out []string
	for _, m := range models {
		out = append(out, m.Name)
	}
	return out
}

// home is the region as far as it is known without asking anybody.
func (a *app) home(f *flags) string {
	return cmp.Or(f.region, a.env["AWS_REGION"], a.env["AWS_DEFAULT_REGION"])
}

// decided is the models with what the gate says of each.
func decided(models []registry.Model, region string, accept []string) []stack.Model {
	var out []stack.Model
	for _, m := range models {
		var plan *artifact.Plan
		var unreadable error
		if m.Plan != "" {
			data, err := store.ReadFile(m.Plan)
			if err == nil {
				plan, err = artifact.ReadPlan(data)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				unreadable = fmt.Errorf("%s: %w", m.Plan, err)
			}
		}
		out = append(out, stack.Model{Model: m, Gate: gate.Decide(stack.Declare(m, region), plan, unreadable, accept...), Plan: plan})
	}
	return out
}

// saying is where a command says what it does: beside the result where that is for a machine.
func (a *app) saying(f *flags) io.Writer {
	if f.json {
		return a.stderr
	}
	return a.stdout
}

// say tells what the gate decided, and what else is to be known of the templates.
func (a *app) say(f *flags, models []stack.Model) {
	out := a.saying(f)
	for _, m := range models {
		if f.explain {
			fmt.Fprint(out, m.Gate.Explain())
		} else {
			fmt.Fprintln(out, &m.Gate)
		}
		if !stack.Pinned(m.Model) {
			fmt.Fprintf(a.stderr, "%s: weights are not pinned (weights.revision, weights.sha256): nothing is synced, and the image has to bring them\n", m.Name)
		}
	}
}

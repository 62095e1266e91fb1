package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/spf13/cobra"

	"loadline/infra/stack"
	"loadline/internal/exit"
	"loadline/internal/registry"
	"loadline/internal/store"
)

const deployExample = `  # build and push the image, record its digest in models.yaml, deploy
  speech-infra deploy kokoro-82m --build . --build-arg GO_DIGEST=sha256:… --build-arg DEBIAN_DIGEST=sha256:…

  # the image that models.yaml names
  speech-infra deploy kokoro-82m`

// deployFlags are those of deploy alone.
type deployFlags struct {
	flags
	consent
	build, dockerfile string
	args, contexts    []string // of docker build
	approval          string
}

func (a *app) deployCommand() *cobra.Command {
	var f deployFlags
	cmd := &cobra.Command{
		Use: "deploy MODEL…", Short: "build, record the digest, make the templates, deploy them", Example: deployExample,
		Long: `deploy looks at what runs before it changes anything, and keeps how many instances run. Scaling is deployed only where the gate is
open; the reason is printed where it is not. The CDK asks before it widens permissions, as it does by itself.

--build reads the Dockerfile first: every ARG without a default that the image needs is to be given by --build-arg, and those that
are not are named before anything is built or deployed. Stages that the image does not need ask for nothing.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.deploy(cmd.Context(), &f, args) },
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.account, "account", "", "refuse to deploy to any other account")
	fl.StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint instead of AWS")
	f.addGate(cmd)
	f.addStacks(cmd)
	fl.StringVar(&f.build, "build", "", "build the image of the one model that is named from this folder, by Docker, and record its digest")
	fl.StringVar(&f.dockerfile, "dockerfile", "", "Dockerfile of --build (default: the folder's)")
	fl.StringArrayVar(&f.args, "build-arg", nil, "NAME=VALUE of an ARG of the Dockerfile (repeatable)")
	fl.StringArrayVar(&f.contexts, "build-context", nil, "NAME=DIR in place of a stage or image of the Dockerfile (repeatable)")
	fl.BoolVar(&f.retype, "change-instance-type", false, "change the type of an endpoint that scales, in the order that AWS asks for")
	fl.BoolVar(&f.scaleIn, "allow-scale-in", false, "agree to fewer instances than run now")
	fl.BoolVar(&f.scalingOff, "scaling-off", false, "agree that an endpoint which scales does not any more")
	fl.StringVar(&f.approval, "require-approval", "", "passed on to the CDK: never, any-change, broadening (default: the CDK's own)")
	fl.StringVar(&f.stateDir, "state-dir", "", "where scaling that is taken away is saved (default: the user's state folder)")
	return cmd
}

func (a *app) deploy(ctx context.Context, f *deployFlags, args []string) error {
	if f.build != "" && f.imageURI != "" {
		return exit.Misuse(errors.New("--build excludes --image-uri"))
	}
	if f.build == "" && len(f.args)+len(f.contexts)+len(f.dockerfile) > 0 {
		return exit.Misuse(errors.New("--dockerfile, --build-arg and --build-context are of --build: name its folder"))
	}
	c, cfg, err := a.open(ctx, &f.flags, args)
	if err != nil {
		return err
	}
	if f.build != "" && len(c.models) != 1 {
		return exit.Misuse(errors.New("--build is of one model: name it"))
	}
	switch {
	case f.build != "":
		if c.models[0].Image, err = a.buildImage(ctx, cfg, f, c); err != nil {
			return err
		}
	case f.imageURI != "":
		if err := a.record(f.models, c.file, c.models[0].Name, f.imageURI); err != nil {
			return err
		}
	}
	models := decided(c.models, f.region, f.accept)
	a.say(&f.flags, models)
	had, retype, err := a.before(ctx, cfg, models, f.consent)
	if err != nil {
		return err
	}
	var plain []stack.Model
	for _, m := range models {
		low, high := bounds(m)
		fmt.Fprintf(a.stdout, "%s: %s instances of %s, %s\n", m.Name, fleet(low, high), m.InstanceType, cost(m.Price, low, high))
		if !slices.Contains(retype, m.Name) {
			plain = append(plain, m)
		}
	}
	if len(plain) > 0 {
		if err := a.deployStacks(ctx, f, c, plain); err != nil {
			return err
		}
	}
	for _, m := range models {
		if slices.Contains(retype, m.Name) {
			if err := a.retype(ctx, cfg, f, c, m, had[m.Name]); err != nil {
				return err
			}
		}
	}
	if err := a.after(ctx, cfg, models, had, f.consent); err != nil {
		return err
	}
	for _, m := range models {
		if m.Gate.Open {
			fmt.Fprintf(a.stdout, "next: tts-bench validate --plan %s\n", m.PlanName())
		} else {
			fmt.Fprintf(a.stdout, "next: tts-bench drift --model %s, then tts-bench qmax --model %s\n", m.Name, m.Name)
		}
	}
	return nil
}

func (f *deployFlags) cdkArgs() []string {
	if f.approval == "" {
		return nil
	}
	return []string{"--require-approval", f.approval}
}

// open reads what is named, and the way to the account, once every program that is needed is there. The region is known from
// then on.
func (a *app) open(ctx context.Context, f *flags, args []string) (chosen, aws.Config, error) {
	c, err := f.choose(args, false)
	if err != nil {
		return c, aws.Config{}, err
	}
	for _, name := range []string{"node", "cdk"} {
		if _, err := a.tool(name); err != nil {
			return c, aws.Config{}, err
		}
	}
	cfg, err := a.aws(ctx, f)
	if err != nil {
		return c, cfg, err
	}
	f.region = cfg.Region
	return c, cfg, a.inAccount(ctx, cfg, f.account)
}

// inAccount refuses another account than the one that was named.
func (a *app) inAccount(ctx context.Context, cfg aws.Config, account string) error {
	if account == "" {
		return nil
	}
	who, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return exit.CannotTell(fmt.Errorf("ask which account this is: %w", err))
	}
	if got := aws.ToString(who.Account); got != account {
		return exit.Refuse(fmt.Errorf("these credentials are of another account than --account %s: nothing was changed", account))
	}
	return nil
}

// record writes the image of a model into models.yaml, so that the gate and later commands know what is deployed.
func (a *app) record(path string, file *registry.File, model, image string) error {
	m, err := file.Model(model)
	if err != nil {
		return err
	}
	if m.Image == image {
		return nil
	}
	text, err := file.Edit(model, map[string]any{"image": image})
	if err != nil {
		return fmt.Errorf("record the image: %w", err)
	}
	if err := store.WriteFile(path, text); err != nil {
		return fmt.Errorf("record the image: %w", err)
	}
	fmt.Fprintf(a.stdout, "%s: image %s is recorded in %s\n", model, image, path)
	return nil
}

// deployStacks makes the templates of the models and has the CDK deploy them with what they stand on.
func (a *app) deployStacks(ctx context.Context, f *deployFlags, c chosen, models []stack.Model) error {
	dir, done, err := a.assembled(&f.flags, c, models)
	if err != nil {
		return err
	}
	defer done()
	return a.cdk(ctx, &f.flags, "deploy", dir, append(allStacks(models), f.cdkArgs()...)...)
}

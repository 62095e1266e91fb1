package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aws/jsii-runtime-go"
	"github.com/spf13/cobra"

	"loadline/infra/stack"
	"loadline/internal/command"
	"loadline/internal/exit"
	"loadline/internal/gate"
	"loadline/internal/registry"
)

const synthExample = `  # templates of one model and of what it stands on, without an account or a network
  speech-infra synth kokoro-82m --out cdk.out

  # for somebody who deploys them by the AWS CLI
  speech-infra synth kokoro-82m --out templates --parameters`

// synthesise makes templates by the CDK, whose kernel ends with it.
func synthesise(out string, s stack.Settings, all []registry.Model, models []stack.Model) error {
	defer jsii.Close()
	return stack.Synth(out, s, all, models)
}

func (a *app) synthCommand() *cobra.Command {
	var f flags
	var out string
	cmd := &cobra.Command{
		Use: "synth MODEL…", Short: "make the templates; needs Node, and neither network nor account", Example: synthExample,
		Long: `synth makes the CloudFormation templates of the shared stacks and of each model into a folder, which the CDK's own commands take
too (cdk deploy --app DIR). Scaling is in them only where the gate is open; the reason is printed where it is not.`,
		RunE: func(_ *cobra.Command, args []string) error { return a.synthTo(&f, args, out) },
	}
	f.add(cmd)
	f.addGate(cmd)
	f.addStacks(cmd)
	cmd.Flags().StringVar(&out, "out", "cdk.out", "folder of the templates")
	cmd.Flags().BoolVar(&f.json, "json", false, "print what was made as JSON; what is said goes to stderr")
	cmd.Flags().BoolVar(&f.Parameters, "parameters", false, "leave image, type and count to whoever deploys them: such a template never scales")
	return cmd
}

func (a *app) synthTo(f *flags, args []string, out string) error {
	c, err := f.choose(args, false)
	if err != nil {
		return err
	}
	models := decided(c.models, a.home(f), f.accept)
	if f.Parameters {
		for i := range models {
			models[i].Gate.Open = false
		}
	}
	if err := a.assemble(f, c, models, out); err != nil {
		return err
	}
	say := a.saying(f)
	if f.Parameters {
		fmt.Fprintln(say, "templates with parameters never scale: whoever deploys one chooses what no plan is of")
	} else {
		a.say(f, models)
	}
	made := synthed{Out: out}
	for _, name := range allStacks(models) {
		template := filepath.Join(out, name+".template.json")
		made.Stacks = append(made.Stacks, templated{name, template})
		fmt.Fprintf(say, "  %s\n", template)
	}
	for _, m := range models {
		made.Models = append(made.Models, gated{m.Name, stack.Name(m.Name), m.Gate})
	}
	fmt.Fprintf(say, "next: speech-infra diff %s\n", models[0].Name)
	if f.json {
		return command.JSON(a.stdout, made)
	}
	return nil
}

// synthed is what synth made, for machines.
type synthed struct {
	Out    string      `json:"out"`
	Stacks []templated `json:"stacks"` // those that others stand on first
	Models []gated     `json:"models"`
}

type templated struct {
	Stack    string `json:"stack"`
	Template string `json:"template"` // file
}

type gated struct {
	Model string        `json:"model"`
	Stack string        `json:"stack"`
	Gate  gate.Decision `json:"gate"`
}

func stackNames(models []stack.Model) []string {
	var out []string
	for _, m := range models {
		out = append(out, stack.Name(m.Name))
	}
	return out
}

// allStacks is the stacks of the models, after those that they stand on.
func allStacks(models []stack.Model) []string {
	return append([]string{stack.Foundation, stack.ModelCache}, stackNames(models)...)
}

// assemble makes the templates beside out and puts them there whole. What is there already is replaced if it is an assembly.
func (a *app) assemble(f *flags, c chosen, models []stack.Model, out string) error {
	if _, err := a.tool("node"); err != nil {
		return err
	}
	for _, m := range models {
		if m.Image == "" && !f.Parameters {
			return exit.Refuse(fmt.Errorf("%s has no image yet: speech-infra deploy %s --build DIR builds one, --image-uri URI@sha256:… names one", m.Name, m.Name))
		}
	}
	out = filepath.Clean(out)
	if left, err := os.ReadDir(out); err == nil && len(left) > 0 {
		if _, err := os.Stat(filepath.Join(out, "manifest.json")); err != nil {
			return exit.Misuse(fmt.Errorf("%s holds files that are no CDK templates: name another folder with --out", out))
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.Misuse(fmt.Errorf("the folder of the templates: %w", err))
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return fmt.Errorf("the folder of the templates: %w", err)
	}
	part, err := os.MkdirTemp(filepath.Dir(out), ".speech-infra-")
	if err != nil {
		return fmt.Errorf("the folder of the templates: %w", err)
	}
	defer os.RemoveAll(part)
	fmt.Fprintln(a.stderr, "making the templates …")
	if err := a.synth(filepath.Join(part, "new"), f.Settings, c.all(), models); err != nil {
		return err
	}
	if err := os.Rename(out, filepath.Join(part, "old")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("put the templates in place: %w", err)
	}
	if err := os.Rename(filepath.Join(part, "new"), out); err != nil {
		_ = os.Rename(filepath.Join(part, "old"), out) // as it was, if it was
		return fmt.Errorf("put the templates in place: %w", err)
	}
	return nil
}

// assembled makes the templates into a folder of this run alone.
func (a *app) assembled(f *flags, c chosen, models []stack.Model) (dir string, done func(), err error) {
	temp, err := os.MkdirTemp("", "speech-infra-")
	if err != nil {
		return "", nil, fmt.Errorf("the folder of the templates: %w", err)
	}
	done = func() { os.RemoveAll(temp) }
	dir = filepath.Join(temp, "cdk.out")
	if err := a.assemble(f, c, models, dir); err != nil {
		done()
		return "", nil, err
	}
	return dir, done, nil
}

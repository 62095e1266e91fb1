package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"loadline/infra/stack"
	"loadline/internal/command"
)

const destroyExample = `  speech-infra destroy kokoro-82m`

func (a *app) destroyCommand() *cobra.Command {
	var f flags
	var yes bool
	cmd := &cobra.Command{
		Use: "destroy MODEL…", Short: "take endpoints away; weights and images stay", Example: destroyExample,
		Long: `destroy deregisters the endpoint's scaling and deletes its stack: the endpoint, its alarms and its dashboard. Weights, images and the
key that they are encrypted with stay, and the commands that remove them are printed.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.destroy(cmd.Context(), &f, args, yes) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.account, "account", "", "refuse to destroy anything in any other account")
	cmd.Flags().StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint instead of AWS")
	cmd.Flags().BoolVar(&yes, "yes", false, "agree to it")
	return cmd
}

func (a *app) destroy(ctx context.Context, f *flags, args []string, yes bool) error {
	c, cfg, err := a.open(ctx, f, args)
	if err != nil {
		return err
	}
	models := decided(c.models, f.region, nil)
	fmt.Fprintf(a.stdout, "endpoints that go, with their stacks, alarms and dashboards: %s\n", strings.Join(names(c.models), ", "))
	if !yes {
		if err := command.Agree(ctx, a.stdin, a.stderr, "", errors.New("this needs your consent: --yes gives it")); err != nil {
			return err
		}
	}
	for _, m := range models {
		if err := a.deregister(ctx, cfg, m); err != nil { // an endpoint that has a target may not go
			return err
		}
	}
	dir, done, err := a.assembled(f, c, models)
	if err != nil {
		return err
	}
	defer done()
	if err := a.cdk(ctx, f, "destroy", dir, append(stackNames(models), "--exclusively", "--force")...); err != nil {
		return err
	}
	fmt.Fprint(a.stdout, stays(f.region))
	return nil
}

// stays is what is left in the account, and the commands that remove it.
func stays(region string) string {
	output := func(key string) string {
		return fmt.Sprintf(`"$(aws cloudformation describe-stacks --region %s --stack-name %s --query "Stacks[0].Outputs[?OutputKey=='%s'].OutputValue" --output text)"`, region, stack.Foundation, key)
	}
	return fmt.Sprintf(`stay: the weights bucket, the image repository and their key (stack %[1]s), the weights sync (stack %[2]s), logs, metrics.
To remove them too, when no endpoint is left, in this order:
  B=%[4]s R=%[5]s K=%[6]s
  aws s3api list-object-versions --bucket "$B" --query '[Versions,DeleteMarkers][][].[Key,VersionId]' --output text | while read -r k v; do aws s3api delete-object --bucket "$B" --key "$k" --version-id "$v"; done
  aws cloudformation delete-stack --region %[3]s --stack-name %[2]s && aws cloudformation wait stack-delete-complete --region %[3]s --stack-name %[2]s
  aws cloudformation delete-stack --region %[3]s --stack-name %[1]s && aws cloudformation wait stack-delete-complete --region %[3]s --stack-name %[1]s
  aws s3 rb "s3://$B"
  aws ecr delete-repository --region %[3]s --repository-name "${R#*/}" --force
  aws kms schedule-key-deletion --region %[3]s --key-id "$K" --pending-window-in-days 30
`, stack.Foundation, stack.ModelCache, region, output("WeightsBucket"), output("RepositoryUri"), output("KeyArn"))
}

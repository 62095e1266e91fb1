package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"loadline/infra/stack"
	"loadline/internal/audit"
	"loadline/internal/awsfleet"
	"loadline/internal/exit"
)

// consent is what the operator agrees to beforehand.
type consent struct {
	scaleIn    bool // fewer instances than run now
	scalingOff bool // an endpoint that scales will not any more
	retype     bool // another instance type, in steps
}

// looked is what was found of an endpoint before a deployment: what to say, why not to go on, and whether its instance type
// is to change in steps.
type looked struct {
	notes  []string
	refuse []error
	retype bool
}

// look judges what runs against what is to be deployed. It asks nothing.
func look(have audit.Deployed, m stack.Model, agreed consent) looked {
	var l looked
	note := func(format string, a ...any) { l.notes = append(l.notes, fmt.Sprintf(format, a...)) }
	refuse := func(format string, a ...any) { l.refuse = append(l.refuse, exit.Refuse(fmt.Errorf(format, a...))) }

	for _, u := range have.Unread {
		switch u.What {
		case "endpoint", "targets", "model":
			l.refuse = append(l.refuse, exit.CannotTell(fmt.Errorf("%s of %s could not be read, so what a deployment would change is not known: %s", u.What, m.Endpoint, u.Why)))
		}
	}
	if len(l.refuse) > 0 {
		return l
	}
	if have.Missing {
		note("%s: the endpoint will be made, with %d instances", m.Endpoint, max(m.MinInstances, 1))
		if orphans := have.Targets; len(orphans) > 0 {
			refuse("%s does not exist, and has a scalable target that was left behind: %s", m.Endpoint, scaler("deregister-scalable-target", orphans[0].Resource))
		}
		return l
	}
	switch have.Status {
	case "InService", "Failed", "OutOfService":
	default:
		refuse("%s is %s: an endpoint takes one change at a time; go on when speech-infra status says InService", m.Endpoint, have.Status)
	}
	if frozen := have.Tags["loadline:freeze"]; frozen != "" {
		refuse("%s is being measured, or a measurement was killed (tag loadline:freeze=%s): tts-bench thaw --endpoint %s puts it back", m.Endpoint, frozen, m.Endpoint)
	}
	at := slices.IndexFunc(have.Variants, func(v audit.Variant) bool { return v.Name == m.Variant })
	var there []string
	for _, v := range have.Variants {
		there = append(there, v.Name)
	}
	if at >= 0 && len(there) > 1 {
		refuse("%s has the variants %s, and its stack has %s alone: a deployment would take the others away", m.Endpoint, strings.Join(there, ", "), m.Variant)
		return l
	}
	if at < 0 {
		refuse("%s has no variant %s: it has %s. A deployment would take those away: name the right one in models.yaml, or delete the endpoint first", m.Endpoint, m.Variant, strings.Join(there, ", "))
		return l
	}
	v := have.Variants[at]
	id := audit.Resource(m.Endpoint, m.Variant)
	t := slices.IndexFunc(have.Targets, func(t audit.Target) bool { return t.Resource == id })
	_, high := bounds(m)
	switch {
	case v.InstanceType == m.InstanceType:
	case t < 0:
		note("%s: instances become %s, which were %s: what was measured on those is stale", m.Endpoint, m.InstanceType, v.InstanceType)
	case !agreed.retype:
		refuse("%s runs on %s and scales: its type cannot become %s in one step, AWS refuses that. In order (--change-instance-type does it):\n%s", m.Endpoint, v.InstanceType, m.InstanceType, indent(retypeSteps(m, v)))
	default:
		l.retype = true
	}
	if t >= 0 && suspended(have.Targets[t]) != "" {
		note("%s: scaling is%s, and is left so", m.Endpoint, strings.TrimPrefix(suspended(have.Targets[t]), ","))
	}
	if m.Gate.Open && v.Desired > high && !agreed.scaleIn {
		refuse("%s runs %d instances, and may run %d once this is deployed: the fleet would be cut under its load. Plan again for it, or --allow-scale-in", m.Endpoint, v.Desired, high)
	} else {
		note("%s: the %d instances that run now are kept, whatever the new configuration starts with", m.Endpoint, v.Desired)
	}
	if t >= 0 && !m.Gate.Open && !l.retype && !agreed.scalingOff {
		refuse("%s scales now, between %d and %d, and would not any more: %s. Mend that (speech-infra list %s --explain-gate), or --scaling-off", m.Endpoint, have.Targets[t].Min, have.Targets[t].Max, m.Gate.Reason(), m.Name)
	}
	if q, ok := have.Quota[m.InstanceType]; ok && q < high {
		refuse("the account may run %d of %s, and the fleet may grow to %d: a scale-out beyond the quota is refused whole. Ask for more, or plan with --quota %d", q, m.InstanceType, high, q)
	}
	return l
}

// scaler is a command of the scaler's, on one of its targets.
func scaler(verb, resource string) string {
	return "aws application-autoscaling " + verb + " --service-namespace sagemaker --resource-id " + resource + " --scalable-dimension " + audit.Dimension(resource)
}

func indent(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, line)
	}
	return strings.TrimRight(b.String(), "\n")
}

// role refuses a deployment that could not make the role by which the scaler works, before anything is made.
func (a *app) role(ctx context.Context, cfg aws.Config, models []stack.Model) error {
	if !slices.ContainsFunc(models, func(m stack.Model) bool { return m.Gate.Open }) {
		return nil
	}
	switch there, err := awsfleet.LinkedRole(ctx, cfg); {
	case err != nil:
		fmt.Fprintf(a.stderr, "whether the scaler's role exists is not known: %v\n", err)
		return nil
	case there:
		return nil
	}
	const action = "iam:CreateServiceLinkedRole"
	denied, err := awsfleet.Denied(ctx, cfg, []string{action})
	switch {
	case err != nil:
		fmt.Fprintf(a.stderr, "whether the caller may %s could not be asked: %v\n", action, err)
	case len(denied) > 0:
		return exit.Refuse(fmt.Errorf("the role AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint, by which scaling works, does not exist, and the caller may not make it (%s): ask for that permission, or for aws iam create-service-linked-role --aws-service-name sagemaker.application-autoscaling.amazonaws.com. Nothing was made", action))
	}
	return nil
}

// before reads what runs of each model and judges it.
func (a *app) before(ctx context.Context, cfg aws.Config, models []stack.Model, agreed consent) (map[string]audit.Deployed, []string, error) {
	reader := awsfleet.NewAuditor(cfg)
	have := map[string]audit.Deployed{}
	var errs []error
	var retype []string
	for _, m := range models {
		fmt.Fprintf(a.stderr, "reading endpoint %s …\n", m.Endpoint)
		d, err := reader.Endpoint(ctx, m.Endpoint, m.Variant)
		if err != nil {
			return nil, nil, exit.CannotTell(err)
		}
		have[m.Name] = d
		l := look(d, m, agreed)
		for _, n := range l.notes {
			fmt.Fprintln(a.stdout, n)
		}
		errs = append(errs, l.refuse...)
		if l.retype {
			retype = append(retype, m.Name)
		}
	}
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	return have, retype, a.role(ctx, cfg, models)
}

// after says where fewer instances run than before: a deployment must not scale in.
func (a *app) after(ctx context.Context, cfg aws.Config, models []stack.Model, had map[string]audit.Deployed, agreed consent) error {
	reader := awsfleet.NewAuditor(cfg)
	var errs []error
	for _, m := range models {
		d, err := reader.Endpoint(ctx, m.Endpoint, m.Variant)
		if err != nil {
			return exit.CannotTell(err)
		}
		for _, v := range d.Variants {
			fmt.Fprintf(a.stdout, "%s/%s: %s, %d instances\n", m.Endpoint, v.Name, d.Status, v.Desired)
			for _, was := range had[m.Name].Variants {
				if was.Name == v.Name && v.Desired < was.Desired && !agreed.scaleIn {
					errs = append(errs, exit.Refuse(fmt.Errorf("%s/%s ran %d instances before, and %d now: aws sagemaker update-endpoint-weights-and-capacities --endpoint-name %s --desired-weights-and-capacities VariantName=%s,DesiredInstanceCount=%d",
						m.Endpoint, v.Name, was.Desired, v.Desired, m.Endpoint, v.Name, was.Desired)))
				}
			}
		}
		for _, u := range d.Unread {
			fmt.Fprintf(a.stderr, "%s of %s could not be read back: %s\n", u.What, m.Endpoint, u.Why)
		}
	}
	return errors.Join(errs...)
}

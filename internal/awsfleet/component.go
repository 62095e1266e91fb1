package awsfleet

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"

	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/exit"
	"loadline/internal/measure"
)

// ErrNoComponent is an inference component that AWS says does not exist.
var ErrNoComponent = errors.New("inference component does not exist")

// VariantOf is the variant that holds an inference component. One of another endpoint is refused.
func VariantOf(ctx context.Context, cfg aws.Config, endpoint, component string) (string, error) {
	if !audit.ValidName(component) {
		return "", exit.Misuse(fmt.Errorf("inference component name %q is not one: 1 to 63 letters, digits and single hyphens", component))
	}
	v := &Variant{region: cfg.Region, component: component, sagemaker: sagemaker.NewFromConfig(cfg)}
	out, err := v.describeComponent(ctx)
	if err != nil {
		return "", err
	}
	if of := aws.ToString(out.EndpointName); of != endpoint {
		return "", exit.Refuse(fmt.Errorf("inference component %s is of endpoint %s, not of %s: give --endpoint %s", component, of, endpoint, of))
	}
	return aws.ToString(out.VariantName), nil
}

func (v *Variant) describeComponent(ctx context.Context) (*sagemaker.DescribeInferenceComponentOutput, error) {
	out, err := v.sagemaker.DescribeInferenceComponent(ctx, &sagemaker.DescribeInferenceComponentInput{InferenceComponentName: &v.component})
	switch {
	case err == nil:
		return out, nil
	case is(err, "ValidationException", "Could not find"):
		return nil, exit.Refuse(fmt.Errorf("%w: %q in %s", ErrNoComponent, v.component, v.region))
	}
	return nil, unread("read inference component "+v.component, err)
}

// copies is the component's status and how many copies it has, and why its last change failed, by one call.
func (v *Variant) copies(ctx context.Context) (measure.Look, error) {
	out, err := v.describeComponent(ctx)
	if err != nil {
		return measure.Look{}, err
	}
	look := measure.Look{Status: string(out.InferenceComponentStatus), Reason: aws.ToString(out.FailureReason), Modified: aws.ToTime(out.LastModifiedTime)}
	if n := out.RuntimeConfig; n != nil {
		look.Desired, look.Current = int(aws.ToInt32(n.DesiredCopyCount)), int(aws.ToInt32(n.CurrentCopyCount))
	}
	return look, nil
}

// Untag takes the freeze record off the endpoint: what it says is of nothing that is there.
func (v *Variant) Untag(ctx context.Context) error {
	out, err := v.describe(ctx)
	if err == nil {
		v.untag(ctx, aws.ToString(out.EndpointArn))
	}
	return err
}

// neighbours are the other inference components of the variant: they share its instances.
func (v *Variant) neighbours(ctx context.Context) ([]string, error) {
	pages := sagemaker.NewListInferenceComponentsPaginator(v.sagemaker, &sagemaker.ListInferenceComponentsInput{
		EndpointNameEquals: &v.endpoint, VariantNameEquals: &v.name, MaxResults: aws.Int32(100)})
	var names []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range page.InferenceComponents {
			if name := aws.ToString(c.InferenceComponentName); name != v.component {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// inside reads an inference component and the container that its copies run.
func inside(ctx context.Context, client *sagemaker.Client, name string) (*sagemaker.DescribeInferenceComponentOutput, []sm.ContainerDefinition, error) {
	out, err := client.DescribeInferenceComponent(ctx, &sagemaker.DescribeInferenceComponentInput{InferenceComponentName: &name})
	if err != nil || out.Specification == nil {
		return out, nil, err
	}
	if c := out.Specification.Container; c != nil {
		d := sm.ContainerDefinition{Environment: c.Environment}
		if i := c.DeployedImage; i != nil {
			if d.Image = i.ResolvedImage; d.Image == nil {
				d.Image = i.SpecifiedImage
			}
		}
		return out, []sm.ContainerDefinition{d}, nil
	}
	if out.Specification.ModelName == nil {
		return out, nil, nil
	}
	containers, err := ofModel(ctx, client, out.Specification.ModelName)
	return out, containers, err
}

// copyOf is what one copy of the component has; nil where its specification does not say, as an adapter's.
func copyOf(out *sagemaker.DescribeInferenceComponentOutput) *artifact.Copy {
	if out.Specification == nil || out.Specification.ComputeResourceRequirements == nil {
		return nil
	}
	need := out.Specification.ComputeResourceRequirements
	return &artifact.Copy{CPUs: decimal(need.NumberOfCpuCoresRequired), Accelerators: decimal(need.NumberOfAcceleratorDevicesRequired),
		MinMemoryMB: int(aws.ToInt32(need.MinMemoryRequiredInMb)), MaxMemoryMB: int(aws.ToInt32(need.MaxMemoryRequiredInMb))}
}

// decimal is the number that was written, to the third decimal: 0.1 of the service's is no 0.1 in twice the width.
func decimal(v *float32) float64 { return math.Round(float64(aws.ToFloat32(v))*1000) / 1000 }

// ofModel is the containers of a model.
func ofModel(ctx context.Context, client *sagemaker.Client, name *string) ([]sm.ContainerDefinition, error) {
	m, err := client.DescribeModel(ctx, &sagemaker.DescribeModelInput{ModelName: name})
	if err != nil {
		return nil, err
	}
	containers := m.Containers
	if m.PrimaryContainer != nil {
		containers = append(containers, *m.PrimaryContainer)
	}
	return containers, nil
}

// component reads the inference component that was asked for: its copies, and what they run as its variant's.
func (r *reading) component(name string) {
	out, containers, err := inside(r.ctx, r.sm, name)
	if is(err, "ValidationException", "Could not find") || err == nil && aws.ToString(out.EndpointName) != r.d.Endpoint {
		return
	}
	if r.failed("component", err) {
		return
	}
	c := &audit.Component{Name: name, Status: string(out.InferenceComponentStatus), Reason: aws.ToString(out.FailureReason), Copy: copyOf(out)}
	if n := out.RuntimeConfig; n != nil {
		c.Desired, c.Current = int(aws.ToInt32(n.DesiredCopyCount)), int(aws.ToInt32(n.CurrentCopyCount))
	}
	r.d.Component = c
	for i := range r.d.Variants {
		if v := &r.d.Variants[i]; v.Name == aws.ToString(out.VariantName) {
			runs(v, containers)
		}
	}
}

// runs puts what a variant's containers are into it.
func runs(v *audit.Variant, containers []sm.ContainerDefinition) {
	if v.Multi = len(containers) != 1; v.Multi {
		return
	}
	if v.ImageDigest == "" {
		v.ImageDigest = artifact.ImageDigest(aws.ToString(containers[0].Image))
	}
	env := containers[0].Environment
	if env == nil {
		env = map[string]string{}
	}
	v.Env, _ = artifact.ContainerEnv(env)
	if bound, bad := queueBound(env); bad == "" {
		v.QueueBound = &bound
	}
}

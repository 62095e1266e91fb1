package awsfleet

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"

	"loadline/internal/artifact"
	"loadline/internal/audit"
)

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
	c := &audit.Component{Name: name, Status: string(out.InferenceComponentStatus), Reason: aws.ToString(out.FailureReason)}
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

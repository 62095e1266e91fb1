package awsfleet

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"

	"loadline/internal/chart"
	"loadline/internal/exit"
	"loadline/internal/freeze"
)

// CloneTag is on every clone: what it is a clone of.
const CloneTag = "loadline:clone-of"

// CloneName is what a clone is called: the endpoint's name, cut where it has to be, and the end of the run's id.
func CloneName(endpoint, runID string) string {
	tail := "-clone-" + runID[max(0, len(runID)-8):]
	return endpoint[:min(len(endpoint), 63-len(tail))] + tail
}

// Clone makes a temporary endpoint of the variant's own model and configuration with one instance, and waits until it is in
// service. It returns on the first failure; Unclone takes away whatever there is by then.
func (v *Variant) Clone(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("clone %s was not in service within %s", name, settleLimit))
	defer cancel()
	out, err := v.describe(ctx)
	if err != nil {
		return err
	}
	conf, err := v.sagemaker.DescribeEndpointConfig(ctx, &sagemaker.DescribeEndpointConfigInput{EndpointConfigName: out.EndpointConfigName})
	if err != nil {
		return cause(ctx, unread("read endpoint config "+aws.ToString(out.EndpointConfigName), err))
	}
	var own *sm.ProductionVariant
	for i := range conf.ProductionVariants {
		if aws.ToString(conf.ProductionVariants[i].VariantName) == v.name {
			own = &conf.ProductionVariants[i]
		}
	}
	if own == nil || own.ModelName == nil || own.ServerlessConfig != nil || conf.AsyncInferenceConfig != nil {
		return exit.Refuse(fmt.Errorf("variant %s of endpoint %s cannot be cloned: it is not a real-time variant with a model of its own", v.name, v.endpoint))
	}
	own.InitialInstanceCount, own.InitialVariantWeight, own.ManagedInstanceScaling = aws.Int32(1), aws.Float32(1), nil
	tags := []sm.Tag{{Key: aws.String(CloneTag), Value: &v.endpoint}}
	v.Say("making endpoint config " + name)
	if _, err := v.sagemaker.CreateEndpointConfig(ctx, &sagemaker.CreateEndpointConfigInput{
		EndpointConfigName: &name, ProductionVariants: []sm.ProductionVariant{*own}, Tags: tags, KmsKeyId: conf.KmsKeyId, VpcConfig: conf.VpcConfig,
		ExecutionRoleArn: conf.ExecutionRoleArn, EnableNetworkIsolation: conf.EnableNetworkIsolation, MetricsConfig: conf.MetricsConfig,
	}); err != nil {
		return cause(ctx, plain(err))
	}
	v.Say("making endpoint " + name)
	if _, err := v.sagemaker.CreateEndpoint(ctx, &sagemaker.CreateEndpointInput{EndpointName: &name, EndpointConfigName: &name, Tags: tags}); err != nil {
		return cause(ctx, plain(err))
	}
	b := backoff{next: v.Poll, most: 20 * v.Poll}
	began := time.Now()
	for {
		out, err := v.sagemaker.DescribeEndpoint(ctx, &sagemaker.DescribeEndpointInput{EndpointName: &name})
		if err != nil && !is(err, "ValidationException", "Could not find endpoint") { // seen a moment later
			return cause(ctx, unread("read endpoint "+name, err))
		}
		if err == nil {
			switch string(out.EndpointStatus) {
			case freeze.InService:
				return nil
			case "Failed":
				return exit.Refuse(fmt.Errorf("clone %s failed: %s", name, aws.ToString(out.FailureReason)))
			}
		}
		v.Say(fmt.Sprintf("waiting for the clone to be in service, for %s", chart.Length(time.Since(began))))
		if err := b.pause(ctx); err != nil {
			return err
		}
	}
}

// Unclone deletes a clone and its config, waits until it is gone, and may be repeated. It refuses an endpoint that does not
// carry the tag of a clone.
func (v *Variant) Unclone(ctx context.Context, name string) error {
	b := backoff{next: v.Poll, most: 20 * v.Poll}
	for asked := false; ; {
		out, err := v.sagemaker.DescribeEndpoint(ctx, &sagemaker.DescribeEndpointInput{EndpointName: &name})
		if is(err, "ValidationException", "Could not find endpoint") {
			break
		}
		if err != nil {
			return cause(ctx, unread("read endpoint "+name, err))
		}
		if !asked {
			tags, err := v.tags(ctx, aws.ToString(out.EndpointArn))
			if err != nil {
				return cause(ctx, unread("read the tags of endpoint "+name, err))
			}
			if tags[CloneTag] == "" {
				return exit.Refuse(fmt.Errorf("endpoint %s does not carry the tag %s: it is not deleted", name, CloneTag))
			}
			_, err = v.sagemaker.DeleteEndpoint(ctx, &sagemaker.DeleteEndpointInput{EndpointName: &name})
			switch {
			case err == nil:
				asked = true
			case is(err, "ValidationException", "Could not find endpoint"), is(err, "ValidationException", "in-progress"): // gone, or still being made
			default:
				return fmt.Errorf("delete clone %s: %w", name, cause(ctx, plain(err)))
			}
		}
		v.Say("deleting clone " + name)
		if err := b.pause(ctx); err != nil {
			return err
		}
	}
	_, err := v.sagemaker.DeleteEndpointConfig(ctx, &sagemaker.DeleteEndpointConfigInput{EndpointConfigName: &name})
	if err != nil && !is(err, "ValidationException", "Could not find") {
		return fmt.Errorf("clone %s is deleted, its endpoint config is not: %w", name, cause(ctx, plain(err)))
	}
	return nil
}

// Unopened is a way to the account's endpoints without one of them.
func Unopened(cfg aws.Config, say func(string)) *Variant {
	v := &Variant{Say: say, Note: func(string) {}, Poll: time.Second, region: cfg.Region, sagemaker: sagemaker.NewFromConfig(cfg)}
	if cfg.BaseEndpoint != nil && loopback(*cfg.BaseEndpoint) {
		v.Poll = 50 * time.Millisecond
	}
	return v
}

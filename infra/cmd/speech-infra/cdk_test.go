package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"

	"loadline/internal/awsfleet"
)

// This file is a stand-in for the CDK's command and for CloudFormation behind it: it carries templates out on a local account,
// in CloudFormation's order (what is new or changed first, what is gone last), and leaves out what that account does not have.

// fakeCDK is `cdk VERB --app DIR STACK…`.
func fakeCDK(args []string) int {
	if len(args) < 3 || args[1] != "--app" {
		fmt.Fprintf(os.Stderr, "cdk: %q\n", args)
		return 2
	}
	verb, dir := args[0], args[2]
	log(append([]string{"cdk", verb}, args[3:]...))
	if said := os.Getenv("FAKE_CDK_SAYS"); said != "" {
		fmt.Fprintln(os.Stderr, said)
		return 1
	}
	for i, arg := range args {
		if arg == "--outputs-file" {
			if err := os.WriteFile(args[i+1], []byte(`{"SpeechFoundation":{"RepositoryUri":"000000000000.dkr.ecr.us-east-1.amazonaws.com/speech"}}`), 0o666); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, name := range args[3:] {
		if !strings.HasPrefix(name, "Speech-") || verb == "diff" {
			continue
		}
		if err := carryOut(ctx, verb, filepath.Join(dir, name+".template.json")); err != nil {
			fmt.Fprintf(os.Stderr, "%s | UPDATE_FAILED | %v\n", name, err)
			return 1
		}
	}
	return 0
}

// log keeps what was called, a line each.
func log(words []string) {
	f, err := os.OpenFile(os.Getenv("FAKE_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, strings.Join(words, " "))
}

// cloud is the account that templates are carried out on, and what they refer to.
type cloud struct {
	sm   *sagemaker.Client
	aas  *applicationautoscaling.Client
	cw   *cloudwatch.Client
	refs map[string]string
}

type part struct {
	Type       string
	Properties map[string]any
}

func carryOut(ctx context.Context, verb, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var template struct{ Resources map[string]part }
	if err := json.Unmarshal(data, &template); err != nil {
		return err
	}
	cfg, _, err := awsfleet.Load(ctx, awsfleet.Config{EndpointURL: os.Getenv("AWS_ENDPOINT_URL")})
	if err != nil {
		return err
	}
	c := cloud{sm: sagemaker.NewFromConfig(cfg), aas: applicationautoscaling.NewFromConfig(cfg), cw: cloudwatch.NewFromConfig(cfg), refs: map[string]string{}}
	of := func(kind string) []string {
		var ids []string
		for id, p := range template.Resources {
			if p.Type == kind {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		return ids
	}
	name := fmt.Sprint(template.Resources["Endpoint"].Properties["EndpointName"])
	if verb == "destroy" {
		_, err := c.sm.DeleteEndpoint(ctx, &sagemaker.DeleteEndpointInput{EndpointName: &name})
		return err
	}
	for _, kind := range []string{"AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Endpoint", "AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ApplicationAutoScaling::ScalingPolicy", "AWS::CloudWatch::Alarm"} {
		for _, id := range of(kind) {
			p := template.Resources[id]
			if err := c.make(ctx, id, kind, c.resolve(p.Properties).(map[string]any)); err != nil {
				return fmt.Errorf("%s (%s): %w", id, kind, err)
			}
		}
	}
	if len(of("AWS::ApplicationAutoScaling::ScalableTarget")) == 0 {
		return c.unscale(ctx, name)
	}
	return nil
}

// resolve puts values for what a template refers to.
func (c *cloud) resolve(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["Ref"].(string); ok {
			return c.refs[ref]
		}
		if att, ok := v["Fn::GetAtt"].([]any); ok {
			return c.refs[fmt.Sprint(att[0])]
		}
		if v["Fn::ImportValue"] != nil {
			return "arn:aws:iam::000000000000:role/imported"
		}
		if v["Fn::Sub"] != nil {
			return "s3://weights/"
		}
		out := map[string]any{}
		for k, x := range v {
			out[k] = c.resolve(x)
		}
		return out
	case []any:
		var out []any
		for _, x := range v {
			out = append(out, c.resolve(x))
		}
		return out
	}
	return v
}

// fill makes an SDK's input of properties: they have the same names.
func fill[T any](properties map[string]any) (*T, error) {
	data, err := json.Marshal(properties)
	if err != nil {
		return nil, err
	}
	in := new(T)
	return in, json.Unmarshal(data, in)
}

func (c *cloud) make(ctx context.Context, id, kind string, p map[string]any) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	name := strings.ToLower(id) + "-" + hex.EncodeToString(sum[:6]) // changes with what it is
	exists := func(err error) bool { return err != nil && strings.Contains(err.Error(), "already exist") }
	switch kind {
	case "AWS::SageMaker::Model":
		in, err := fill[sagemaker.CreateModelInput](p)
		if err != nil {
			return err
		}
		in.ModelName, c.refs[id] = &name, name
		if _, err := c.sm.CreateModel(ctx, in); err != nil && !exists(err) {
			return err
		}
	case "AWS::SageMaker::EndpointConfig":
		in, err := fill[sagemaker.CreateEndpointConfigInput](p)
		if err != nil {
			return err
		}
		in.EndpointConfigName, c.refs[id] = &name, name
		if _, err := c.sm.CreateEndpointConfig(ctx, in); err != nil && !exists(err) {
			return err
		}
	case "AWS::SageMaker::Endpoint":
		return c.endpoint(ctx, p)
	case "AWS::ApplicationAutoScaling::ScalableTarget":
		in, err := fill[applicationautoscaling.RegisterScalableTargetInput](p)
		if err != nil {
			return err
		}
		c.refs[id] = *in.ResourceId
		_, err = c.aas.RegisterScalableTarget(ctx, in)
		return err
	case "AWS::ApplicationAutoScaling::ScalingPolicy":
		in, err := fill[applicationautoscaling.PutScalingPolicyInput](p)
		if err != nil {
			return err
		}
		in.ResourceId, in.ServiceNamespace, in.ScalableDimension = aws.String(fmt.Sprint(p["ScalingTargetId"])), aas.ServiceNamespaceSagemaker, aas.ScalableDimensionSageMakerVariantDesiredInstanceCount
		out, err := c.aas.PutScalingPolicy(ctx, in)
		if err == nil {
			c.refs[id] = *out.PolicyARN
		}
		return err
	case "AWS::CloudWatch::Alarm":
		in, err := fill[cloudwatch.PutMetricAlarmInput](p)
		if err != nil {
			return err
		}
		_, err = c.cw.PutMetricAlarm(ctx, in)
		return err
	}
	return nil
}

func (c *cloud) endpoint(ctx context.Context, p map[string]any) error {
	name, config := aws.String(fmt.Sprint(p["EndpointName"])), aws.String(fmt.Sprint(p["EndpointConfigName"]))
	have, err := c.sm.DescribeEndpoint(ctx, &sagemaker.DescribeEndpointInput{EndpointName: name})
	switch {
	case err != nil:
		_, err = c.sm.CreateEndpoint(ctx, &sagemaker.CreateEndpointInput{EndpointName: name, EndpointConfigName: config})
	case *have.EndpointConfigName != *config:
		retain, _ := p["RetainAllVariantProperties"].(bool)
		_, err = c.sm.UpdateEndpoint(ctx, &sagemaker.UpdateEndpointInput{EndpointName: name, EndpointConfigName: config, RetainAllVariantProperties: &retain})
	}
	if err != nil {
		return err
	}
	for {
		out, err := c.sm.DescribeEndpoint(ctx, &sagemaker.DescribeEndpointInput{EndpointName: name})
		if err != nil {
			return err
		}
		switch out.EndpointStatus {
		case "InService":
			return nil
		case "Creating", "Updating", "SystemUpdating":
		default:
			return errors.New(string(out.EndpointStatus))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// unscale deletes what a template does not have any more.
func (c *cloud) unscale(ctx context.Context, endpoint string) error {
	out, err := c.aas.DescribeScalableTargets(ctx, &applicationautoscaling.DescribeScalableTargetsInput{ServiceNamespace: aas.ServiceNamespaceSagemaker})
	if err != nil {
		return err
	}
	for _, t := range out.ScalableTargets {
		if strings.HasPrefix(*t.ResourceId, "endpoint/"+endpoint+"/") {
			if _, err := c.aas.DeregisterScalableTarget(ctx, &applicationautoscaling.DeregisterScalableTargetInput{ServiceNamespace: t.ServiceNamespace, ResourceId: t.ResourceId, ScalableDimension: t.ScalableDimension}); err != nil {
				return err
			}
		}
	}
	return nil
}

// fakeDocker says what it was called with, and the digest of what it has pushed.
func fakeDocker(args []string) int {
	log(append([]string{"docker"}, args...))
	switch {
	case args[0] == "image" && strings.Contains(args[3], "User"):
		fmt.Println(os.Getenv("FAKE_USER"))
	case args[0] == "image":
		tag := args[len(args)-1]
		fmt.Println(tag[:strings.LastIndex(tag, ":")] + "@sha256:" + strings.Repeat("c", 64))
	}
	return 0
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/exit"
)

// grant is what one purpose needs, by statement: actions, and the kind of resource that they are limited to.
type grant struct {
	sid, resource string // resource: endpoint, sagemaker, components, logs, alarms, role or *
	actions       []string
}

// Purposes that iam prints policies for.
var purposes = []string{"reading", "measuring", "applying", "proving"}

var (
	reading = []grant{
		{"ReadEndpoint", "sagemaker", []string{"sagemaker:DescribeEndpoint", "sagemaker:DescribeEndpointConfig", "sagemaker:DescribeModel", "sagemaker:ListTags"}},
		{"ReadComponents", "components", []string{"sagemaker:DescribeInferenceComponent"}},
		{"ReadScaling", "*", []string{"application-autoscaling:DescribeScalableTargets", "application-autoscaling:DescribeScalingPolicies", "application-autoscaling:DescribeScheduledActions",
			"application-autoscaling:DescribeScalingActivities", "cloudwatch:DescribeAlarms", "cloudwatch:GetMetricData", "sagemaker:ListEndpoints", "sagemaker:ListInferenceComponents", "servicequotas:ListServiceQuotas"}},
		{"ReadRole", "role", []string{"iam:GetRole"}},
	}
	measuring = []grant{
		{"Invoke", "endpoint", []string{"sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream", "sagemaker:InvokeEndpointWithBidirectionalStream"}},
		{"Pin", "endpoint", []string{"sagemaker:UpdateEndpointWeightsAndCapacities", "sagemaker:AddTags", "sagemaker:DeleteTags"}},
		{"Freeze", "*", []string{"application-autoscaling:RegisterScalableTarget"}},
		{"ReadLogs", "logs", []string{"logs:DescribeLogStreams", "logs:GetLogEvents"}},
		{"PinCopies", "components", []string{"sagemaker:UpdateInferenceComponentRuntimeConfig"}},
	}
	applying = []grant{
		{"Scale", "endpoint", []string{"sagemaker:UpdateEndpointWeightsAndCapacities"}},
		{"ScaleCopies", "components", []string{"sagemaker:UpdateInferenceComponentRuntimeConfig"}},
		{"PutScaling", "*", []string{"application-autoscaling:RegisterScalableTarget", "application-autoscaling:DeregisterScalableTarget",
			"application-autoscaling:PutScalingPolicy", "application-autoscaling:DeleteScalingPolicy"}},
		{"PutAlarms", "alarms", []string{"cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms"}},
		{"MakeRole", "role", []string{"iam:CreateServiceLinkedRole"}},
	}
)

// grantsFor are the statements that a purpose needs.
func grantsFor(purpose string) []grant {
	switch purpose {
	case "reading":
		return reading
	case "measuring":
		return slices.Concat(reading, measuring)
	case "applying":
		return slices.Concat(reading, applying)
	case "proving":
		return slices.Concat(reading, measuring[:3]) // prove reads no logs
	}
	return nil
}

// actionsOf are the actions that a purpose needs, those on inference components only where there are some.
func actionsOf(purpose string, components bool) []string {
	var out []string
	for _, g := range grantsFor(purpose) {
		if g.resource != "components" || components {
			out = append(out, g.actions...)
		}
	}
	return out
}

const iamExample = `  # what a role that measures and applies needs, for one endpoint
  tts-bench iam --for measuring --endpoint speech-kokoro-82m
  tts-bench iam --for applying --endpoint speech-kokoro-82m --account 123456789012 --region eu-west-1`

func (a *app) iamCommand() *cobra.Command {
	var purpose, endpoint, region, account string
	cmd := &cobra.Command{
		Use:   "iam",
		Short: "print the least-privilege policy for reading, measuring, applying or proving",
		Long: `iam prints an IAM policy with the actions that the commands of one purpose call, each limited to the resources that it is
called on where IAM allows that. It calls nothing.

reading    drift, validate, watch
measuring  qmax, rates, ttotal, thaw, say
applying   apply
proving    prove`,
		Example: iamExample,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if !slices.Contains(purposes, purpose) {
				return exit.Misuse(fmt.Errorf("--for %q: one of %s", purpose, strings.Join(purposes, ", ")))
			}
			if strings.ContainsAny(endpoint+region+account, "\"\n ") {
				return exit.Misuse(errors.New("--endpoint, --region and --account are plain names"))
			}
			text, err := iamPolicy(purpose, endpoint, region, account)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.stdout, text)
			return err
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&purpose, "for", "reading", strings.Join(purposes, ", "))
	fl.StringVar(&endpoint, "endpoint", "*", "endpoint that it is limited to")
	fl.StringVar(&region, "region", "*", "region that it is limited to")
	fl.StringVar(&account, "account", "*", "account that it is limited to")
	return cmd
}

func iamPolicy(purpose, endpoint, region, account string) (string, error) {
	type statement struct {
		Sid       string
		Effect    string
		Action    []string
		Resource  any
		Condition any `json:",omitempty"`
	}
	arn := func(service, rest string) string {
		return "arn:aws:" + service + ":" + region + ":" + account + ":" + rest
	}
	doc := struct {
		Version   string
		Statement []statement
	}{Version: "2012-10-17"}
	for _, g := range grantsFor(purpose) {
		s := statement{Sid: g.sid, Effect: "Allow", Action: g.actions, Resource: "*"}
		switch g.resource {
		case "endpoint":
			s.Resource = arn("sagemaker", "endpoint/"+endpoint)
		case "sagemaker":
			s.Resource = []string{arn("sagemaker", "endpoint/"+endpoint), arn("sagemaker", "endpoint-config/*"), arn("sagemaker", "model/*")}
		case "components":
			s.Resource = arn("sagemaker", "inference-component/*")
		case "logs":
			s.Resource = []string{arn("logs", "log-group:/aws/sagemaker/Endpoints/"+endpoint+":*"), arn("logs", "log-group:/aws/sagemaker/InferenceComponents/*")}
		case "alarms":
			s.Resource = []string{arn("cloudwatch", "alarm:"+endpoint+"-*"), arn("cloudwatch", "alarm:TargetTracking-endpoint/"+endpoint+"/*")}
		case "role":
			s.Resource = "arn:aws:iam::" + account + ":role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
		}
		for _, action := range g.actions {
			if strings.HasPrefix(action, "application-autoscaling:") && !strings.Contains(action, ":Describe") {
				s.Condition = map[string]any{"StringEquals": map[string]any{
					"application-autoscaling:service-namespace": "sagemaker", "application-autoscaling:scalable-dimension": []string{artifact.InstanceCount, artifact.CopyCount}}}
			}
		}
		doc.Statement = append(doc.Statement, s)
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	return string(data), err
}

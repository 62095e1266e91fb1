package stack

import (
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"loadline/internal/artifact"
)

// gpuAMI is the host image with a driver (580) for containers of CUDA 12 and 13, and with what opens the WebSocket of a
// bidirectional stream to the container: AWS's own example of one deploys on it, and older ones leave the socket unopened.
const gpuAMI = "al2023-ami-sagemaker-inference-gpu-4-1"

// Seconds that an instance may take to start: to fetch its weights, and then to answer /ping.
const (
	downloadTimeout = 600
	startupTimeout  = 600
)

// endpoint is the stack of one model (SpeechEndpointStack): model, endpoint configuration, endpoint, its alarms and
// dashboard, and its scaling where the gate is open.
func endpoint(s scope, set Settings, m Model) {
	image, kind, count := any(m.Image), any(m.InstanceType), any(max(m.MinInstances, 1))
	if set.Parameters {
		image = s.parameter("Image", "The image, with its digest.", m.Image, `.+@sha256:[0-9a-f]{64}`)
		kind = s.parameter("InstanceType", "The instance type.", m.InstanceType, `ml\.[a-z0-9-]+\.[a-z0-9-]+`)
		count = s.parameter("InitialInstances", "Instances when the endpoint is made; a later change keeps those that run.", strconv.Itoa(max(m.MinInstances, 1)), `[1-9][0-9]*`)
	}
	env := object{}
	for k, v := range m.ContainerEnv {
		env[k] = v
	}
	env["ENDPOINT_NAME"], env["VARIANT_NAME"], env["SM_MODEL_ID"] = m.Endpoint, m.Variant, m.Name
	if d := m.QueueMaxDepth; d != nil { // which is the one place that says it
		delete(env, artifact.Bounds[0])
		if *d > 0 {
			env[artifact.Bounds[0]] = strconv.Itoa(*d)
		}
	}
	container := object{"Image": image, "Environment": env}
	variant := object{
		"VariantName": m.Variant, "InstanceType": kind, "InitialInstanceCount": count, "InitialVariantWeight": 1,
		"RoutingConfig": object{"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
		"ContainerStartupHealthCheckTimeoutInSeconds": startupTimeout,
	}
	if Pinned(m.Model) {
		container["ModelDataSource"] = object{"S3DataSource": object{"S3DataType": "S3Prefix", "CompressionType": "None",
			"S3Uri": subWith("s3://${Bucket}/"+weightsPrefix(m.Model), object{"Bucket": shared("WeightsBucket")})}}
		variant["ModelDataDownloadTimeoutInSeconds"] = downloadTimeout
	}
	if m.gpu() {
		variant["InferenceAmiVersion"] = gpuAMI
	}
	// Neither has a name: a change makes a new one, and the endpoint goes over to it. Nothing is fetched at start, so the
	// container needs no network.
	model := s.add("Model", "AWS::SageMaker::Model", object{"ExecutionRoleArn": shared("ExecutionRoleArn"), "EnableNetworkIsolation": true, "PrimaryContainer": container})
	variant["ModelName"] = model.att("ModelName")
	settings := object{"ProductionVariants": list{variant}}
	if every := m.metricsPeriod(); every > 0 {
		settings["MetricsConfig"] = object{"EnableEnhancedMetrics": true, "MetricPublishFrequencyInSeconds": every}
	}
	config := s.add("EndpointConfig", "AWS::SageMaker::EndpointConfig", settings)
	if settings["MetricsConfig"] != nil {
		config.unknownTo("E3002") // MetricsConfig, which CloudFormation has
	}
	// What the autoscaler set stays when the configuration changes.
	ep := s.add("Endpoint", "AWS::SageMaker::Endpoint", object{"EndpointName": m.Endpoint, "EndpointConfigName": config.att("EndpointConfigName"), "RetainAllVariantProperties": true})

	topic := any(shared("AlarmTopicArn"))
	if set.AlarmTopic != "" {
		topic = set.AlarmTopic
	}
	observability(s.construct("Observability"), m, topic)
	if m.Gate.Open && m.Plan != nil {
		autoscaling(s.construct("Autoscaling"), m, ep, topic)
	}
	awscdk.NewCfnOutput(s.c, jsii.String("EndpointName"), &awscdk.CfnOutputProps{Value: jsii.String(m.Endpoint)})
}

// parameter is a value that whoever deploys the template may give.
func (s scope) parameter(name, says, value, pattern string) object {
	p := &awscdk.CfnParameterProps{Type: jsii.String("String"), Description: jsii.String(says), AllowedPattern: jsii.String(pattern)}
	if value != "" {
		p.Default = jsii.String(value)
	}
	awscdk.NewCfnParameter(s.c, jsii.String(name), p)
	return object{"Ref": name}
}

// gpu says whether the instances have one: as models.yaml says, else by the family.
func (m *Model) gpu() bool {
	family := strings.TrimPrefix(m.InstanceType, "ml.")
	return m.GPUs > 0 || strings.HasPrefix(family, "g") || strings.HasPrefix(family, "p")
}

// metricsPeriod is how often, in seconds, the plan asks metrics to be published; 0: as they are. Concurrency comes every 10 s
// as it is; anything else below a minute is an enhanced metric.
func (m *Model) metricsPeriod() int {
	if !m.Gate.Open || m.Plan == nil {
		return 0
	}
	least := 60
	for _, a := range m.Plan.Alarms {
		if a.Period > 0 && a.Metric.Namespace == sagemaker && a.Metric.Name != "ConcurrentRequestsPerModel" {
			least = min(least, a.Period)
		}
	}
	if least == 60 {
		return 0
	}
	return least
}

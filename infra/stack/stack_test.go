package stack

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/gate"
	"loadline/internal/registry"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// made is the templates of all tests, by name of the case and of the stack: one kernel makes them all.
var made = map[string]map[string][]byte{}

// noNode is why nothing was made.
var noNode string

func TestMain(m *testing.M) {
	flag.Parse()
	if _, err := exec.LookPath("node"); err != nil {
		noNode = "templates are not made: Node is not on the PATH (the CDK needs it)"
		os.Exit(m.Run())
	}
	code := 1
	if err := makeAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.Exit(code)
}

// shipped is the model of this project's registry.
func shipped() (registry.Model, error) {
	file, err := registry.Load("../../models.yaml")
	if err != nil {
		return registry.Model{}, err
	}
	m, err := file.Model("kokoro-82m")
	if err != nil {
		return registry.Model{}, err
	}
	return *m, nil
}

// kokoro is a model, its weights in the image.
func kokoro() registry.Model {
	return registry.Model{Name: "kokoro-82m", Endpoint: "speech-kokoro-82m", Variant: "primary", InstanceType: "ml.g5.xlarge", StreamingMode: "response", MinInstances: 1, MaxInstances: 1,
		SLOMS: 3000, Percentile: 95, GPUs: 1, ContainerEnv: map[string]string{},
		Image: "000000000000.dkr.ecr.us-east-1.amazonaws.com/speech-kokoro-82m@sha256:8b1b96bc4dc0b30ddd84d8fe37af7c490937333c44a9f8f7d77b918c3d7eaced"}
}

// pinned is kokoro with weights that are synced.
func pinned() registry.Model {
	m := kokoro()
	m.Weights = registry.Weights{Repo: "onnx-community/Kokoro-82M-v1.0-ONNX", Revision: strings.Repeat("1", 40), SHA256: strings.Repeat("a", 64)}
	return m
}

// planned is a model whose gate is open for a plan of the rule. Its numbers stand here, so that the goldens do not follow the
// arithmetic.
func planned(rule string) (Model, error) {
	m := pinned()
	dims := map[string]string{"EndpointName": m.Endpoint, "VariantName": m.Variant}
	held := capacity.Metric{Namespace: "AWS/SageMaker", Name: "ConcurrentRequestsPerModel", Dimensions: dims}
	p := &artifact.Plan{Rule: rule, Verdict: capacity.Warn}
	p.RunID, p.CreatedAt = "01K0000000000000000000TEST", time.Date(2026, 8, 5, 0, 0, 0, 0, time.UTC)
	p.Target = artifact.Target{Model: m.Name, Endpoint: m.Endpoint, Variant: m.Variant, Transport: "response-stream"}
	p.Fingerprint = artifact.Fingerprint{Region: "us-east-1", InstanceType: m.InstanceType, ImageDigest: artifact.ImageDigest(m.Image), ContainerEnv: map[string]string{}, QueueBound: new(0)}
	p.Measured.QMax, p.Measured.QSource, p.Measured.Lag = 50, "certified at 95 % on 307 fresh samples, 0 late", capacity.Lag{T: 320, Provision: 260.2, Detection: 59.8}
	p.Findings = []capacity.Finding{{Name: "fleet_throughput", Verdict: capacity.Warn, Accepted: true}, {Name: "surge_slots", Verdict: capacity.Warn, Detail: "12.5 free slots fill in 2.8 s"}}
	p.Config = artifact.PlanConfig{Model: m.Name, InstanceType: m.InstanceType, MinInstances: 1, MaxInstances: 9, SLOMS: 3000, Percentile: 95, QueueMaxDepth: 50, InCooldown: 960}
	step := capacity.Alarm{Metric: held, Statistic: "Maximum", Evaluation: 3, Datapoints: 3, MissingData: "notBreaching"}
	if rule == capacity.RuleSlots {
		p.Slots.CWRatio = new(1.0)
		p.Config.ScalingTargetValue, p.Config.ScaleInThreshold, p.Config.OutCooldown = new(37.5), new(25.0), 30
		p.Policies = []capacity.Policy{
			{Name: capacity.PolicyConcurrency, Type: capacity.TargetTracking, Metric: capacity.Metric{Predefined: "SageMakerVariantConcurrentRequestsPerModelHighResolution"}, Period: 10,
				Target: new(37.5), NoScaleIn: true, OutCooldown: 30, InCooldown: 960},
			{Name: capacity.PolicyStepIn, Type: capacity.StepScaling, Metric: held, Statistic: "Maximum", Period: 60, Steps: []capacity.Step{{Upper: new(0.0), Change: -1}}, Adjustment: "ChangeInCapacity",
				OutCooldown: 30, InCooldown: 960},
		}
		step.Name, step.Policy, step.Period, step.Comparison, step.Threshold = "speech-kokoro-82m-primary-"+capacity.PolicyStepIn, capacity.PolicyStepIn, 60, "LessThanOrEqualToThreshold", 25
		step.Source = "C_scale_min × the CloudWatch ratio"
	} else {
		p.Config.ScalingTargetValue, p.Config.OutCooldown = new(776.6), 261
		p.Policies = []capacity.Policy{
			{Name: capacity.PolicyRate, Type: capacity.TargetTracking, Metric: capacity.Metric{Predefined: "SageMakerVariantInvocationsPerInstance"}, Statistic: "Sum", Period: 60, Target: new(776.6),
				OutCooldown: 261, InCooldown: 960},
			{Name: capacity.PolicyConcurrency, Type: capacity.StepScaling, Metric: held, Statistic: "Maximum", Period: 10, Steps: []capacity.Step{{Lower: new(0.0), Change: 25}},
				Adjustment: "PercentChangeInCapacity", NoScaleIn: true, OutCooldown: 261, InCooldown: 960},
		}
		step.Name, step.Policy, step.Period, step.Comparison, step.Threshold = "speech-kokoro-82m-primary-"+capacity.PolicyConcurrency, capacity.PolicyConcurrency, 10, "GreaterThanThreshold", 15
		step.Source = "what the busiest instance holds at λ*"
	}
	p.Alarms = []capacity.Alarm{step, {Name: "speech-kokoro-82m-primary-service-time", Metric: capacity.Metric{Namespace: "Loadline/Speech", Name: "ServiceTime", Dimensions: dims}, Statistic: "p95",
		Period: 60, Comparison: "GreaterThanThreshold", Threshold: 66.1, Unit: "Milliseconds", Evaluation: 3, Datapoints: 2, MissingData: "notBreaching", Source: "S_p95 at N = 1, which no queue lengthens"}}

	c := p.Config
	m.Plan, m.MinInstances, m.MaxInstances, m.ScalingTargetValue, m.ScaleInThreshold = "plan.json", c.MinInstances, c.MaxInstances, c.ScalingTargetValue, c.ScaleInThreshold
	m.QueueMaxDepth, m.ScaleOutCooldown, m.ScaleInCooldown = new(c.QueueMaxDepth), new(c.OutCooldown), new(c.InCooldown)
	d := gate.Decide(Declare(m, "us-east-1"), p, nil, "fleet_throughput")
	if !d.Open {
		return Model{}, fmt.Errorf("the gate is closed: %s", d.Explain())
	}
	return Model{Model: m, Gate: d, Plan: p}, nil
}

func makeAll() error {
	defer jsii.Close()
	ours, err := shipped()
	if err != nil {
		return err
	}
	flow, err := planned(capacity.RuleFlow)
	if err != nil {
		return err
	}
	slots, err := planned(capacity.RuleSlots)
	if err != nil {
		return err
	}
	off := Model{Model: flow.Model, Gate: gate.Decision{Model: flow.Name}}
	off.MaxInstances, off.MinInstances = 1, 1
	unmeasured := Model{Model: flow.Model}
	unmeasured.Model.Plan = ""
	unmeasured.MaxInstances = 9
	unmeasured.Gate = gate.Decide(Declare(unmeasured.Model, "us-east-1"), nil, nil)
	bidi := Model{Model: kokoro()}
	bidi.Name, bidi.Endpoint, bidi.StreamingMode, bidi.InstanceType, bidi.GPUs, bidi.ContainerEnv = "piper.de", "speech-piper-de", "bidirectional", "ml.c7i.xlarge", 0, map[string]string{"SCHED": "fifo", "ENDPOINT_NAME": "another", "MAX_QUEUE_DEPTH": "7"}
	bidi.QueueMaxDepth = new(0)
	fast := flow
	fast.Plan = new(*flow.Plan)
	fast.Plan.Alarms = slices.Clone(flow.Plan.Alarms)
	fast.Plan.Alarms[0].Metric = capacity.Metric{Namespace: "AWS/SageMaker", Name: "InvocationsPerInstance", Dimensions: flow.Plan.Alarms[0].Metric.Dimensions}
	for name, c := range map[string]struct {
		s      Settings
		models []Model
	}{
		"flow": {Settings{}, []Model{flow}}, "slots": {Settings{AlarmTopic: "arn:aws:sns:us-east-1:000000000000:people"}, []Model{slots}},
		"off": {Settings{}, []Model{off, bidi}}, "unmeasured": {Settings{}, []Model{unmeasured}}, "fast": {Settings{}, []Model{fast}},
		"published": {Settings{Parameters: true}, []Model{{Model: ours}}},
		"clients":   {Settings{Clients: []string{"arn:aws:iam::000000000000:role/agents"}, TrustAccount: true, AlarmEmail: "people@example.com"}, nil},
	} {
		dir, err := os.MkdirTemp("", "speech-infra-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		var all []registry.Model
		for _, m := range c.models {
			all = append(all, m.Model)
		}
		if err := Synth(dir, c.s, all, c.models); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.template.json"))
		if err != nil {
			return err
		}
		made[name] = map[string][]byte{}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			made[name][strings.TrimSuffix(filepath.Base(f), ".template.json")] = append(data, '\n')
		}
	}
	return nil
}

func needNode(t *testing.T) {
	t.Helper()
	if noNode != "" {
		t.Skip(noNode)
	}
}

const kokoroStack = "Speech-kokoro-82m"

// TestClosedGateIsOff: an unmeasured model with room to scale gets what a model without gets, byte for byte.
func TestClosedGateIsOff(t *testing.T) {
	needNode(t)
	off, unmeasured := made["off"][kokoroStack], made["unmeasured"][kokoroStack]
	if len(off) == 0 || !bytes.Equal(off, unmeasured) {
		t.Errorf("the templates differ:\n%s", cmp.Diff(string(off), string(unmeasured)))
	}
	for _, kind := range []string{"AWS::ApplicationAutoScaling", "AWS::Events::Rule", "at-max", "service-time"} {
		if strings.Contains(string(off), kind) {
			t.Errorf("scaling is off, and there is a %s", kind)
		}
	}
	if !strings.Contains(string(off), "first-audio-burn") || !strings.Contains(string(off), "AWS::CloudWatch::Dashboard") {
		t.Error("an endpoint that does not scale is not watched")
	}
}

// TestGolden: the templates are those under testdata, and those that are published for people without Node.
func TestGolden(t *testing.T) {
	needNode(t)
	for path, data := range map[string][]byte{
		"testdata/flow.json": made["flow"][kokoroStack], "testdata/slots.json": made["slots"][kokoroStack], "testdata/off.json": made["off"][kokoroStack],
		"testdata/modelcache.json":                              made["flow"][ModelCache],
		"../templates/" + Foundation + ".template.json":         made["published"][Foundation],
		"../templates/" + ModelCache + ".template.json":         made["published"][ModelCache],
		"../templates/" + Name("kokoro-82m") + ".template.json": made["published"][kokoroStack],
	} {
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(data)); diff != "" {
			t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
		}
	}
}

// template is one that was made, to be asked.
type template struct {
	Resources map[string]struct {
		Type           string
		Properties     map[string]any
		DependsOn      any
		DeletionPolicy string
	}
	Outputs, Parameters map[string]any
}

func read(t *testing.T, name, stack string) template {
	t.Helper()
	needNode(t)
	var x template
	if err := json.Unmarshal(made[name][stack], &x); err != nil {
		t.Fatalf("%s %s: %v", name, stack, err)
	}
	return x
}

// at walks into a value: keys of objects, numbers of lists.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// TestFoundation: roles that may do what they need, data that stays, a topic that alarms can reach.
func TestFoundation(t *testing.T) {
	x := read(t, "published", Foundation)
	props := func(id string) map[string]any { return x.Resources[id].Properties }
	for _, id := range []string{"Key", "Weights", "Repository"} {
		if x.Resources[id].DeletionPolicy != "Retain" {
			t.Errorf("%s goes with its stack", id)
		}
	}
	if props("Repository")["ImageTagMutability"] != "IMMUTABLE" || at(props("Repository"), "ImageScanningConfiguration", "ScanOnPush") != true {
		t.Error("tags of the repository move, or nothing is scanned")
	}
	for id, r := range x.Resources {
		if r.Type == "AWS::IAM::Role" && r.Properties["RoleName"] != nil {
			t.Errorf("%s has a fixed name, which a second region would not find free", id)
		}
	}
	if _, there := x.Resources["ClientRole"]; there {
		t.Error("a client role for nobody")
	}
	if got := at(props("AlarmsPolicy"), "PolicyDocument", "Statement", 0, "Principal", "Service"); got != "cloudwatch.amazonaws.com" {
		t.Errorf("alarms cannot publish: %v", got)
	}
	uses := map[string]bool{}
	for i := range 4 {
		uses[fmt.Sprint(at(props("Key"), "KeyPolicy", "Statement", i, "Principal", "Service"))] = true
	}
	if !uses["cloudwatch.amazonaws.com"] || !uses["events.amazonaws.com"] {
		t.Error("what alarms publish cannot be encrypted: they would notify nobody")
	}
	execution := fmt.Sprint(at(props("ExecutionRole"), "Policies", 0, "PolicyDocument"))
	for _, want := range []string{"log-group:/aws/sagemaker/Endpoints/*", "weights/*", "repository/speech-kokoro-82m", "kms:Decrypt"} {
		if !strings.Contains(execution, want) {
			t.Errorf("the execution role lacks %s: %s", want, execution)
		}
	}
	for _, no := range []string{"s3:Put", "logs:*", "sagemaker:"} {
		if strings.Contains(execution, no) {
			t.Errorf("the execution role may %s", no)
		}
	}
	for _, name := range []string{"ExecutionRoleArn", "AlarmTopicArn", "RepositoryUri", "WeightsBucket", "KeyArn", "ImageBuildProject", "InvokePolicyArn"} {
		if at(x.Outputs, name, "Export", "Name") != Foundation+"-"+name {
			t.Errorf("%s is not exported", name)
		}
	}
	spec, _ := at(props("ImageBuild"), "Source", "BuildSpec").(string)
	if !strings.Contains(spec, "com.amazonaws.sagemaker.capabilities.bidirectional-streaming=true") {
		t.Error("images are built without the label that bidirectional streams need")
	}

	x = read(t, "clients", Foundation)
	who, _ := at(x.Resources["ClientRole"].Properties, "AssumeRolePolicyDocument", "Statement", 0, "Principal", "AWS").([]any)
	if len(who) != 2 || who[0] != "arn:aws:iam::000000000000:role/agents" || !strings.HasSuffix(fmt.Sprint(at(who[1], "Fn::Sub")), ":root") {
		t.Errorf("who may be a client: %v", who)
	}
	if at(x.Resources["AlarmsEmail"].Properties, "Endpoint") != "people@example.com" {
		t.Error("nobody is told by mail")
	}
}

// TestModelCache: only what is pinned is synced, and what is synced is checked.
func TestModelCache(t *testing.T) {
	x := read(t, "flow", ModelCache)
	w := x.Resources["WeightsKokoro82m"]
	if w.Type != "Custom::SpeechWeights" || w.Properties["Revision"] != strings.Repeat("1", 40) || w.Properties["SHA256"] != strings.Repeat("a", 64) {
		t.Errorf("what is synced: %+v", w)
	}
	for id := range read(t, "published", ModelCache).Resources {
		if strings.HasPrefix(id, "Weights") {
			t.Errorf("%s: weights that are not pinned are synced", id)
		}
	}
	role := fmt.Sprint(at(x.Resources["SyncRole"].Properties, "Policies", 0, "PolicyDocument"))
	if strings.Contains(role, "s3:Delete") || strings.Contains(role, "s3:GetObject") || !strings.Contains(role, "s3:PutObject") {
		t.Errorf("the sync does more than to put: %s", role)
	}
}

// TestEndpoint: model by digest and data source, least-outstanding routing, isolation, live counts kept (A1).
func TestEndpoint(t *testing.T) {
	x := read(t, "flow", kokoroStack)
	model, config := x.Resources["Model"].Properties, x.Resources["EndpointConfig"].Properties
	variant := at(config, "ProductionVariants", 0)
	for _, c := range []struct{ what, got, want any }{
		{"isolation", model["EnableNetworkIsolation"], true},
		{"depth", at(model, "PrimaryContainer", "Environment", "MAX_QUEUE_DEPTH"), "50"},
		{"weights", at(model, "PrimaryContainer", "ModelDataSource", "S3DataSource", "S3DataType"), "S3Prefix"},
		{"variant", at(variant, "VariantName"), "primary"},
		{"type", at(variant, "InstanceType"), "ml.g5.xlarge"},
		{"routing", at(variant, "RoutingConfig", "RoutingStrategy"), "LEAST_OUTSTANDING_REQUESTS"},
		{"driver", at(variant, "InferenceAmiVersion"), gpuAMI},
		{"count", at(variant, "InitialInstanceCount"), 1.0},
		{"live counts", x.Resources["Endpoint"].Properties["RetainAllVariantProperties"], true},
		{"a desired count", x.Resources["Endpoint"].Properties["ExcludeRetainedVariantProperties"], nil},
		{"metrics at 10 s for concurrency, which comes so", config["MetricsConfig"], nil},
		{"metrics at 10 s where the plan asks", at(read(t, "fast", kokoroStack).Resources["EndpointConfig"].Properties, "MetricsConfig", "MetricPublishFrequencyInSeconds"), 10.0},
	} {
		if c.got != c.want {
			t.Errorf("%v: %v, not %v", c.what, c.got, c.want)
		}
	}
	if image := fmt.Sprint(at(model, "PrimaryContainer", "Image")); artifact.ImageDigest(image) == "" {
		t.Errorf("the image is %s", image)
	}
	for _, id := range []string{"Model", "EndpointConfig"} {
		for k := range x.Resources[id].Properties {
			if strings.HasSuffix(k, "Name") {
				t.Errorf("%s has a name: it could not be replaced", id)
			}
		}
	}
	cpu := read(t, "off", "Speech-piper-de")
	variant = at(cpu.Resources["EndpointConfig"].Properties, "ProductionVariants", 0)
	if at(variant, "InferenceAmiVersion") != nil || at(variant, "ModelDataDownloadTimeoutInSeconds") != nil {
		t.Errorf("a model without GPU and weights: %v", variant)
	}
	if env := at(cpu.Resources["Model"].Properties, "PrimaryContainer", "Environment"); at(env, "SCHED") != "fifo" || at(env, "MAX_QUEUE_DEPTH") != nil || at(env, "ENDPOINT_NAME") != "speech-piper-de" {
		t.Errorf("environment %v", env)
	}
}

// TestEndpointAutoscaling: policies exactly as the plan lists them.
func TestEndpointAutoscaling(t *testing.T) {
	needNode(t)
	for _, rule := range []string{capacity.RuleFlow, capacity.RuleSlots} {
		m, err := planned(rule)
		if err != nil {
			t.Fatal(err)
		}
		x := read(t, rule, kokoroStack)
		var policies, alarms int
		for _, r := range x.Resources {
			switch r.Type {
			case "AWS::ApplicationAutoScaling::ScalingPolicy":
				policies++
			case "AWS::CloudWatch::Alarm":
				alarms++
			}
		}
		if policies != len(m.Plan.Policies) || alarms != len(m.Plan.Alarms)+6 { // and of health: three always, three of scaling
			t.Errorf("%s: %d policies and %d alarms for a plan of %d and %d", rule, policies, alarms, len(m.Plan.Policies), len(m.Plan.Alarms))
		}
		target := x.Resources["AutoscalingTarget"]
		if at(target.DependsOn, 0) != "Endpoint" || target.Properties["ResourceId"] != "endpoint/speech-kokoro-82m/variant/primary" || target.Properties["RoleARN"] != nil ||
			target.Properties["MaxCapacity"] != float64(m.Plan.Config.MaxInstances) || target.Properties["MinCapacity"] != float64(m.Plan.Config.MinInstances) {
			t.Errorf("%s: the target is %+v", rule, target)
		}
		for _, p := range m.Plan.Policies {
			got := x.Resources["Autoscaling"+logicalID(p.Name)].Properties
			body := at(got, "StepScalingPolicyConfiguration")
			cooldown := map[bool]int{true: p.OutCooldown, false: p.InCooldown}[p.NoScaleIn]
			if p.Type == capacity.TargetTracking {
				body = at(got, "TargetTrackingScalingPolicyConfiguration")
				if at(body, "TargetValue") != *p.Target || at(body, "DisableScaleIn") != p.NoScaleIn || at(body, "ScaleOutCooldown") != float64(p.OutCooldown) ||
					at(body, "ScaleInCooldown") != float64(p.InCooldown) || at(body, "PredefinedMetricSpecification", "PredefinedMetricType") != p.Metric.Predefined {
					t.Errorf("%s: %s is %v", rule, p.Name, body)
				}
			} else if at(body, "AdjustmentType") != p.Adjustment || at(body, "Cooldown") != float64(cooldown) || at(body, "MetricAggregationType") != p.Statistic ||
				at(body, "StepAdjustments", 0, "ScalingAdjustment") != float64(p.Steps[0].Change) {
				t.Errorf("%s: %s is %v", rule, p.Name, body)
			}
			if got["PolicyName"] != p.Name {
				t.Errorf("%s: %v", rule, got)
			}
		}
		for _, a := range m.Plan.Alarms {
			got := x.Resources["Autoscaling"+logicalID(a.Name)+"Alarm"].Properties
			stat := got["Statistic"]
			if a.Statistic[0] == 'p' {
				stat = got["ExtendedStatistic"]
			}
			if got["AlarmName"] != a.Name || got["Threshold"] != a.Threshold || got["Period"] != float64(a.Period) || got["EvaluationPeriods"] != float64(a.Evaluation) || stat != a.Statistic ||
				got["TreatMissingData"] != a.MissingData || got["ComparisonOperator"] != a.Comparison || got["Namespace"] != a.Metric.Namespace || at(got["Dimensions"], 1, "Value") != "primary" {
				t.Errorf("%s: alarm %s is %v", rule, a.Name, got)
			}
			if acts := at(got["AlarmActions"], 0, "Ref"); a.Policy != "" && acts != "Autoscaling"+logicalID(a.Policy) {
				t.Errorf("%s: alarm %s does %v", rule, a.Name, got["AlarmActions"])
			}
		}
	}
}

// TestEndpointObservability: alarms that mean something, each with somebody to tell.
func TestEndpointObservability(t *testing.T) {
	x := read(t, "slots", kokoroStack)
	for name, want := range map[string][]string{
		"ObservabilityFirstAudioBurn": {"FirstAudio", "Loadline/Speech", "p95", "3000"},
		"ObservabilityShed":           {"Rejected", "Admitted"},
		"ObservabilityBroken":         {"Invocation5XXErrors", "Rejected", "failed - FILL(refused, 0)"},
		"AutoscalingAtMax":            {"asked / each", "8.5"},
		"AutoscalingScalingStuck":     {"ConcurrentRequestsPerModel", "Maximum", "37.5"},
		"AutoscalingSignalLost":       {"FILL(held, -1) < 0"},
	} {
		p := x.Resources[name].Properties
		text := fmt.Sprint(p)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q: %s", name, w, text)
			}
		}
		if at(p["AlarmActions"], 0) != "arn:aws:sns:us-east-1:000000000000:people" || p["TreatMissingData"] != "notBreaching" {
			t.Errorf("%s tells %v", name, p["AlarmActions"])
		}
	}
	// The published alarm at 65 ms was of a time that included the queue: this one leaves it out.
	service := x.Resources["Autoscaling"+logicalID("speech-kokoro-82m-primary-service-time")+"Alarm"].Properties
	if service["MetricName"] != "ServiceTime" || service["Unit"] != "Milliseconds" || at(service["AlarmActions"], 0) != "arn:aws:sns:us-east-1:000000000000:people" {
		t.Errorf("service time: %v", service)
	}
	if got := fmt.Sprint(at(x.Resources["AutoscalingScalingFailed"].Properties, "EventPattern", "detail", "EndpointStatus")); !strings.Contains(got, "ROLLING_BACK") {
		t.Errorf("failures of scaling: %s", got)
	}
	body := fmt.Sprint(at(x.Resources["ObservabilityDashboard"].Properties, "DashboardBody", "Fn::Sub"))
	var d struct {
		Widgets []struct {
			Properties struct {
				Title       string
				Metrics     []any
				Annotations struct{ Horizontal []struct{ Label string } }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil || len(d.Widgets) != 6 {
		t.Fatalf("%d graphs, %v", len(d.Widgets), err)
	}
	var labels []string
	for _, w := range d.Widgets {
		for _, a := range w.Properties.Annotations.Horizontal {
			labels = append(labels, a.Label)
		}
	}
	if want := []string{"promise", "scale-out", "scale-in", "full", "min", "max"}; !slices.Equal(labels, want) {
		t.Errorf("drawn across the graphs: %v, not %v", labels, want)
	}
}

// TestSignals: every metric that a policy or an alarm reads is published where it looks, for the variant (A4, A8).
func TestSignals(t *testing.T) {
	needNode(t)
	published := map[string]string{
		"CPUUtilization": hosts, "GPUUtilization": hosts, "GPUMemoryUtilization": hosts, "Invocations": sagemaker, "InvocationsPerInstance": sagemaker, "Invocation5XXErrors": sagemaker,
		"InvocationModelErrors": sagemaker, "ConcurrentRequestsPerModel": sagemaker, "FirstAudio": container, "ServiceTime": container, "QueueWait": container, "Rejected": container,
		"Admitted": container, "ActiveStreams": container, "QueueDepth": container, "Underruns": container, "Stale": container, "Cancelled": container,
	}
	for _, name := range []string{"flow", "slots", "off"} {
		for id, r := range read(t, name, kokoroStack).Resources {
			if r.Type != "AWS::CloudWatch::Alarm" {
				continue
			}
			metrics, _ := r.Properties["Metrics"].([]any)
			if r.Properties["MetricName"] != nil {
				metrics = append(metrics, map[string]any{"MetricStat": map[string]any{"Metric": r.Properties}})
			}
			for _, m := range metrics {
				metric := at(m, "MetricStat", "Metric")
				if metric == nil {
					continue // an expression
				}
				if want := published[fmt.Sprint(at(metric, "MetricName"))]; want == "" || at(metric, "Namespace") != want || at(metric, "Dimensions", 0, "Value") != "speech-kokoro-82m" || at(metric, "Dimensions", 1, "Value") != "primary" {
					t.Errorf("%s %s reads %v", name, id, metric)
				}
			}
		}
	}
}

// TestStackNames: two models are two stacks.
func TestStackNames(t *testing.T) {
	a, b := kokoro(), kokoro()
	a.Name, b.Name = "a.b", "a_b"
	err := Synth(t.TempDir(), Settings{}, nil, []Model{{Model: a}, {Model: b}})
	if err == nil || !strings.Contains(err.Error(), "would both be stack Speech-a-b") {
		t.Errorf("%v", err)
	}
}

// TestPublished: the template for those without Node takes image, type and count, and says nothing of scaling.
func TestPublished(t *testing.T) {
	x := read(t, "published", kokoroStack)
	for _, p := range []string{"Image", "InstanceType", "InitialInstances"} {
		if x.Parameters[p] == nil {
			t.Errorf("no parameter %s", p)
		}
	}
	for id, r := range x.Resources {
		if strings.HasPrefix(r.Type, "AWS::ApplicationAutoScaling") {
			t.Errorf("%s: a template without a plan scales", id)
		}
	}
}

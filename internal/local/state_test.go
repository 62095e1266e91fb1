package local

import (
	"encoding/json"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aastypes "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker"
	smtypes "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
	"github.com/google/go-cmp/cmp"
)

// shelf is where an account's state is kept.
type shelf struct {
	mu    sync.Mutex
	state []byte
}

func (s *shelf) save(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = slices.Clone(b)
	return nil
}

// told is what an account says of what it was told.
func (w *world) told(t *testing.T) (out struct {
	Endpoint  *sm.DescribeEndpointOutput
	Config    *sm.DescribeEndpointConfigOutput
	Model     *sm.DescribeModelOutput
	Tags      *sm.ListTagsOutput
	Targets   *aas.DescribeScalableTargetsOutput
	Policies  *aas.DescribeScalingPoliciesOutput
	Scheduled *aas.DescribeScheduledActionsOutput
	Alarms    *cw.DescribeAlarmsOutput
	Dashboard *cw.GetDashboardOutput
}) {
	t.Helper()
	var errs [9]error
	ctx := t.Context()
	out.Endpoint, errs[0] = w.sm.DescribeEndpoint(ctx, &sm.DescribeEndpointInput{EndpointName: aws.String(speech)})
	out.Config, errs[1] = w.sm.DescribeEndpointConfig(ctx, &sm.DescribeEndpointConfigInput{EndpointConfigName: aws.String("c")})
	out.Model, errs[2] = w.sm.DescribeModel(ctx, &sm.DescribeModelInput{ModelName: aws.String("m")})
	out.Tags, errs[3] = w.sm.ListTags(ctx, &sm.ListTagsInput{ResourceArn: out.Endpoint.EndpointArn})
	out.Targets, errs[4] = w.aas.DescribeScalableTargets(ctx, &aas.DescribeScalableTargetsInput{ServiceNamespace: "sagemaker"})
	out.Policies, errs[5] = w.aas.DescribeScalingPolicies(ctx, &aas.DescribeScalingPoliciesInput{ServiceNamespace: "sagemaker"})
	out.Scheduled, errs[6] = w.aas.DescribeScheduledActions(ctx, &aas.DescribeScheduledActionsInput{ServiceNamespace: "sagemaker"})
	out.Alarms, errs[7] = w.cw.DescribeAlarms(ctx, &cw.DescribeAlarmsInput{})
	out.Dashboard, errs[8] = w.cw.GetDashboard(ctx, &cw.GetDashboardInput{DashboardName: aws.String("d")})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestState restarts an account that has been told much: it says the same afterwards, and its endpoint serves.
func TestState(t *testing.T) {
	kept := &shelf{}
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}, Save: kept.save}, ok)
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.sm.CreateModel(ctx, &sm.CreateModelInput{ModelName: aws.String("m"), ExecutionRoleArn: aws.String("arn:aws:iam::000000000000:role/x"),
		PrimaryContainer: &smtypes.ContainerDefinition{Image: aws.String("image"), Environment: map[string]string{"A": "b"}}}))
	must(w.sm.CreateEndpointConfig(ctx, &sm.CreateEndpointConfigInput{EndpointConfigName: aws.String("c"), ProductionVariants: []smtypes.ProductionVariant{
		{VariantName: aws.String("primary"), ModelName: aws.String("m"), InstanceType: "ml.g5.xlarge", InitialInstanceCount: aws.Int32(2)}}}))
	must(w.sm.UpdateEndpoint(ctx, &sm.UpdateEndpointInput{EndpointName: aws.String(speech), EndpointConfigName: aws.String("c")}))
	w.settled(t)
	must(nil, w.set(t, 3))
	arn := w.settled(t).EndpointArn
	must(w.sm.AddTags(ctx, &sm.AddTagsInput{ResourceArn: arn, Tags: []smtypes.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}))
	id, dimension := aws.String("endpoint/"+speech+"/variant/primary"), aastypes.ScalableDimension(instanceCount)
	must(w.aas.PutScalingPolicy(ctx, &aas.PutScalingPolicyInput{PolicyName: aws.String("track"), PolicyType: "TargetTrackingScaling", ServiceNamespace: "sagemaker", ResourceId: id, ScalableDimension: dimension,
		TargetTrackingScalingPolicyConfiguration: &aastypes.TargetTrackingScalingPolicyConfiguration{TargetValue: aws.Float64(5),
			PredefinedMetricSpecification: &aastypes.PredefinedMetricSpecification{PredefinedMetricType: "SageMakerVariantInvocationsPerInstance"}}}))
	must(w.aas.PutScheduledAction(ctx, &aas.PutScheduledActionInput{ScheduledActionName: aws.String("dawn"), ServiceNamespace: "sagemaker", ResourceId: id, ScalableDimension: dimension,
		Schedule: aws.String("cron(0 6 * * ? *)"), Timezone: aws.String("Europe/Berlin"), ScalableTargetAction: &aastypes.ScalableTargetAction{MinCapacity: aws.Int32(2)}}))
	must(w.cw.PutDashboard(ctx, &cw.PutDashboardInput{DashboardName: aws.String("d"), DashboardBody: aws.String(`{"widgets":[]}`)}))
	must(w.cw.PutMetricAlarm(ctx, &cw.PutMetricAlarmInput{AlarmName: aws.String("mine"), Namespace: aws.String("N"), MetricName: aws.String("m"), Statistic: cwtypes.StatisticMaximum,
		Period: aws.Int32(60), EvaluationPeriods: aws.Int32(1), Threshold: aws.Float64(1), ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold}))
	load := cwtypes.Metric{Namespace: aws.String("N"), MetricName: aws.String("m")}
	must(w.cw.PutMetricAlarm(ctx, &cw.PutMetricAlarmInput{AlarmName: aws.String("math"), EvaluationPeriods: aws.Int32(1), Threshold: aws.Float64(1), ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold,
		Metrics: []cwtypes.MetricDataQuery{{Id: aws.String("e"), Expression: aws.String("m * 2")},
			{Id: aws.String("m"), ReturnData: aws.Bool(false), MetricStat: &cwtypes.MetricStat{Metric: &load, Period: aws.Int32(60), Stat: aws.String("Sum")}}}}))
	before := w.told(t)
	if err := w.end(); err != nil {
		t.Fatal(err)
	}

	again := serving(t, Config{State: kept.state, Save: kept.save}, ok)
	after := again.told(t)
	// Without when it came into service, and what the answers carry about themselves.
	later := regexp.MustCompile(`"(LastModifiedTime|ResolutionTime|StateTransitionedTimestamp)": ?"[^"]*"|"ResultMetadata": ?\{[^}]*\}`)
	plain := func(v any) string {
		b, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return later.ReplaceAllString(string(b), "")
	}
	if d := cmp.Diff(plain(before), plain(after)); d != "" {
		t.Error(d)
	}
	if _, err := again.invoke(t, "x"); err != nil {
		t.Error(err)
	}
}

func TestStateRefusesWhatIsNone(t *testing.T) {
	for _, bad := range []string{"", "{", "{}", `{"Schema":"loadline/account/9"}`} {
		l, err := New(Config{State: []byte(bad)})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Run(t.Context()); err == nil {
			t.Errorf("%q was taken for a state", bad)
		}
	}
}

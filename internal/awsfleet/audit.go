package awsfleet

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
	"github.com/aws/smithy-go/middleware"

	"loadline/internal/audit"
	"loadline/internal/capacity"
)

// Auditor reads what is deployed of one account, and writes nothing. Make it with NewAuditor; it is for one goroutine.
type Auditor struct {
	cfg     aws.Config
	aas     *applicationautoscaling.Client
	cw      *cloudwatch.Client
	sm      *sagemaker.Client
	iam     *iam.Client
	calls   int
	quotas  map[string]int
	role    *bool
	account []audit.Unread // what could not be read of the account
	looked  map[string]bool
}

// NewAuditor counts its calls.
func NewAuditor(cfg aws.Config) *Auditor {
	a := &Auditor{quotas: map[string]int{}, looked: map[string]bool{}}
	a.cfg = cfg.Copy()
	a.cfg.APIOptions = append(slices.Clone(cfg.APIOptions), func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("LoadlineCount", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			a.calls++
			return next.HandleInitialize(ctx, in)
		}), middleware.Before)
	})
	a.aas, a.cw = applicationautoscaling.NewFromConfig(a.cfg), cloudwatch.NewFromConfig(a.cfg)
	a.sm, a.iam = sagemaker.NewFromConfig(a.cfg), iam.NewFromConfig(a.cfg)
	return a
}

// Calls is how many API calls were made so far.
func (a *Auditor) Calls() int { return a.calls }

const instanceCount = aas.ScalableDimensionSageMakerVariantDesiredInstanceCount

func dimensionOf(resource string) aas.ScalableDimension {
	return aas.ScalableDimension(audit.Dimension(resource))
}

// reading is one endpoint being read.
type reading struct {
	*Auditor
	ctx context.Context
	d   audit.Deployed
}

// failed keeps why something could not be read, and says whether it was.
func (r *reading) failed(what string, err error) bool {
	if err == nil {
		return false
	}
	r.d.Unread = append(r.d.Unread, audit.Unread{What: what, Why: plain(err).Error()})
	return true
}

// Endpoint reads one endpoint, the named variants' scaling included whether or not they exist. Only the end of ctx is an
// error: what could not be read is in the result.
func (a *Auditor) Endpoint(ctx context.Context, endpoint string, variants ...string) (audit.Deployed, error) {
	return a.Component(ctx, endpoint, "", variants...)
}

// Component reads an endpoint as Endpoint does, and with it the inference component of that name and its scaling; "" is
// none.
func (a *Auditor) Component(ctx context.Context, endpoint, component string, variants ...string) (audit.Deployed, error) {
	began := a.calls
	r := &reading{Auditor: a, ctx: ctx, d: audit.Deployed{Region: a.cfg.Region, Endpoint: endpoint}}
	r.live()
	for _, v := range r.d.Variants {
		if !slices.Contains(variants, v.Name) {
			variants = append(variants, v.Name)
		}
	}
	if component != "" {
		r.component(component)
	}
	r.scaling(variants, component)
	r.alarms(component)
	if !r.d.Missing {
		r.traffic(variants)
		r.accountWide()
	}
	r.d.Calls = a.calls - began
	return r.d, context.Cause(ctx)
}

// live reads the endpoint, its config, and the models of its variants.
func (r *reading) live() {
	out, err := r.sm.DescribeEndpoint(r.ctx, &sagemaker.DescribeEndpointInput{EndpointName: &r.d.Endpoint})
	if is(err, "ValidationException", "Could not find endpoint") {
		r.d.Missing = true
		return
	}
	if r.failed("endpoint", err) {
		return
	}
	r.d.Status, r.d.Reason, r.d.Modified = string(out.EndpointStatus), aws.ToString(out.FailureReason), aws.ToTime(out.LastModifiedTime)
	conf, err := r.sm.DescribeEndpointConfig(r.ctx, &sagemaker.DescribeEndpointConfigInput{EndpointConfigName: out.EndpointConfigName})
	if r.failed("endpoint", err) {
		return
	}
	models := map[string][]sm.ContainerDefinition{}
	for i := range out.ProductionVariants {
		pv := &out.ProductionVariants[i]
		v := audit.Variant{Name: aws.ToString(pv.VariantName), Desired: int(aws.ToInt32(pv.DesiredInstanceCount)), Current: int(aws.ToInt32(pv.CurrentInstanceCount)),
			ImageDigest: deployedDigest(pv), Routing: string(sm.RoutingStrategyRandom), Async: out.AsyncInferenceConfig != nil}
		at := slices.IndexFunc(conf.ProductionVariants, func(c sm.ProductionVariant) bool { return aws.ToString(c.VariantName) == v.Name })
		if at >= 0 {
			c := conf.ProductionVariants[at]
			v.InstanceType, v.Initial, v.Serverless = string(c.InstanceType), int(aws.ToInt32(c.InitialInstanceCount)), c.ServerlessConfig != nil
			if c.RoutingConfig != nil {
				v.Routing = string(c.RoutingConfig.RoutingStrategy)
			}
			r.model(&v, c.ModelName, models)
		}
		if m := conf.MetricsConfig; m != nil {
			v.Enhanced, v.MetricsPeriod = aws.ToBool(m.EnableEnhancedMetrics), int(m.MetricPublishFrequencyInSeconds)
			if v.MetricsPeriod == 0 {
				v.MetricsPeriod = 60
			}
		}
		r.d.Variants = append(r.d.Variants, v)
	}
	tags := map[string]string{}
	pages := sagemaker.NewListTagsPaginator(r.sm, &sagemaker.ListTagsInput{ResourceArn: out.EndpointArn})
	for pages.HasMorePages() {
		page, err := pages.NextPage(r.ctx)
		if r.failed("tags", err) {
			return
		}
		for _, t := range page.Tags {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
	}
	r.d.Tags = tags
}

func (r *reading) model(v *audit.Variant, name *string, models map[string][]sm.ContainerDefinition) {
	if name == nil {
		return
	}
	containers, known := models[*name]
	if !known {
		var err error
		if containers, err = ofModel(r.ctx, r.sm, name); r.failed("model", err) {
			return
		}
		models[*name] = containers
	}
	runs(v, containers)
}

// scaling reads targets by their exact ids, in batches that AWS answers whole, and what hangs on each.
func (r *reading) scaling(variants []string, component string) {
	var ids []string
	for _, v := range variants {
		ids = append(ids, audit.Resource(r.d.Endpoint, v))
	}
	batches := slices.Collect(slices.Chunk(ids, 50))
	if component != "" {
		batches = append(batches, []string{audit.ComponentResource(component)})
	}
	for _, batch := range batches {
		out, err := r.aas.DescribeScalableTargets(r.ctx, &applicationautoscaling.DescribeScalableTargetsInput{
			ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceIds: batch, ScalableDimension: dimensionOf(batch[0])})
		if r.failed("targets", err) {
			return
		}
		for _, t := range out.ScalableTargets {
			r.d.Targets = append(r.d.Targets, targetOf(t))
		}
	}
	for _, t := range r.d.Targets {
		r.policies(t.Resource)
		r.schedules(t.Resource)
		r.activities(t.Resource)
	}
}

func targetOf(t aas.ScalableTarget) audit.Target {
	out := audit.Target{Resource: aws.ToString(t.ResourceId), Min: int(aws.ToInt32(t.MinCapacity)), Max: int(aws.ToInt32(t.MaxCapacity))}
	if s := t.SuspendedState; s != nil { // absent and {} are the same as all active
		out.Out, out.In, out.Sched = aws.ToBool(s.DynamicScalingOutSuspended), aws.ToBool(s.DynamicScalingInSuspended), aws.ToBool(s.ScheduledScalingSuspended)
	}
	return out
}

func (r *reading) policies(resource string) {
	pages := applicationautoscaling.NewDescribeScalingPoliciesPaginator(r.aas, &applicationautoscaling.DescribeScalingPoliciesInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: &resource, ScalableDimension: dimensionOf(resource)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(r.ctx)
		if r.failed("policies", err) {
			return
		}
		for _, p := range page.ScalingPolicies {
			r.d.Policies = append(r.d.Policies, policyOf(p))
		}
	}
}

func policyOf(p aas.ScalingPolicy) audit.Policy {
	out := audit.Policy{Name: aws.ToString(p.PolicyName), ARN: aws.ToString(p.PolicyARN), Resource: aws.ToString(p.ResourceId), Type: string(p.PolicyType)}
	for _, a := range p.Alarms {
		out.Alarms = append(out.Alarms, aws.ToString(a.AlarmName))
	}
	if t := p.TargetTrackingScalingPolicyConfiguration; t != nil {
		out.Type, out.Target, out.NoScaleIn = capacity.TargetTracking, t.TargetValue, aws.ToBool(t.DisableScaleIn)
		out.OutCooldown, out.InCooldown = whole(t.ScaleOutCooldown), whole(t.ScaleInCooldown)
		if m := t.PredefinedMetricSpecification; m != nil {
			out.Metric.Predefined = string(m.PredefinedMetricType)
		}
		if m := t.CustomizedMetricSpecification; m != nil {
			out.Metric = capacity.Metric{Namespace: aws.ToString(m.Namespace), Name: aws.ToString(m.MetricName), Dimensions: map[string]string{}}
			out.Statistic = string(m.Statistic)
			for _, d := range m.Dimensions {
				out.Metric.Dimensions[aws.ToString(d.Name)] = aws.ToString(d.Value)
			}
		}
	}
	if s := p.StepScalingPolicyConfiguration; s != nil {
		out.Type, out.Adjustment, out.Statistic, out.Cooldown = capacity.StepScaling, string(s.AdjustmentType), string(s.MetricAggregationType), whole(s.Cooldown)
		for _, a := range s.StepAdjustments {
			out.Steps = append(out.Steps, capacity.Step{Lower: a.MetricIntervalLowerBound, Upper: a.MetricIntervalUpperBound, Change: int(aws.ToInt32(a.ScalingAdjustment))})
		}
	}
	return out
}

func whole(v *int32) *int {
	if v == nil {
		return nil
	}
	return new(int(*v))
}

func (r *reading) schedules(resource string) {
	pages := applicationautoscaling.NewDescribeScheduledActionsPaginator(r.aas, &applicationautoscaling.DescribeScheduledActionsInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: &resource, ScalableDimension: dimensionOf(resource)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(r.ctx)
		if r.failed("schedules", err) {
			return
		}
		for _, s := range page.ScheduledActions {
			out := audit.Schedule{Name: aws.ToString(s.ScheduledActionName), Resource: resource, Expression: aws.ToString(s.Schedule), End: aws.ToTime(s.EndTime)}
			if a := s.ScalableTargetAction; a != nil {
				out.Min, out.Max = whole(a.MinCapacity), whole(a.MaxCapacity)
			}
			r.d.Schedules = append(r.d.Schedules, out)
		}
	}
}

var setCount = regexp.MustCompile(`desired instance count to (\d+)`)

// activities finds the count that the scaler set last, and when it held still: listings leave that out unless it is asked for.
func (r *reading) activities(resource string) {
	out, err := r.aas.DescribeScalingActivities(r.ctx, &applicationautoscaling.DescribeScalingActivitiesInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: &resource, ScalableDimension: dimensionOf(resource), MaxResults: aws.Int32(50), IncludeNotScaledActivities: aws.Bool(true)})
	if r.failed("activities", err) {
		return
	}
	for _, a := range out.ScalingActivities { // newest first
		if codes := notScaled(a); len(codes) > 0 {
			r.d.Held = append(r.d.Held, audit.Held{Resource: resource, At: aws.ToTime(a.StartTime), Codes: codes})
		}
	}
	for _, a := range out.ScalingActivities {
		m := setCount.FindStringSubmatch(aws.ToString(a.Description))
		if a.StatusCode != aas.ScalingActivityStatusCodeSuccessful || m == nil {
			continue
		}
		for i := range r.d.Variants {
			if v := &r.d.Variants[i]; audit.Resource(r.d.Endpoint, v.Name) == resource {
				v.LastSet, _ = strconv.Atoi(m[1])
				v.LastSetAt = aws.ToTime(a.EndTime)
			}
		}
		return
	}
}

// alarms reads those of the policies, and those whose names say that they were made for the endpoint.
func (r *reading) alarms(component string) {
	seen := map[string]bool{}
	add := func(alarms []cw.MetricAlarm) {
		for _, a := range alarms {
			if name := aws.ToString(a.AlarmName); !seen[name] {
				seen[name] = true
				r.d.Alarms = append(r.d.Alarms, alarmOf(a))
			}
		}
	}
	var names []string
	for _, p := range r.d.Policies {
		names = append(names, p.Alarms...)
	}
	for batch := range slices.Chunk(names, 100) {
		out, err := r.cw.DescribeAlarms(r.ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: batch, MaxRecords: aws.Int32(100)})
		if r.failed("alarms", err) {
			return
		}
		add(out.MetricAlarms)
	}
	prefixes := []string{"TargetTracking-endpoint/" + r.d.Endpoint + "/", r.d.Endpoint + "-"}
	if component != "" {
		prefixes = append(prefixes, "TargetTracking-"+audit.ComponentResource(component)+"-")
	}
	for _, prefix := range prefixes {
		pages := cloudwatch.NewDescribeAlarmsPaginator(r.cw, &cloudwatch.DescribeAlarmsInput{AlarmNamePrefix: &prefix, MaxRecords: aws.Int32(100)})
		for n := 0; pages.HasMorePages() && n < 3; n++ {
			page, err := pages.NextPage(r.ctx)
			if r.failed("alarms", err) {
				return
			}
			add(page.MetricAlarms)
		}
	}
}

func alarmOf(a cw.MetricAlarm) audit.Alarm {
	out := audit.Alarm{Name: aws.ToString(a.AlarmName), ARN: aws.ToString(a.AlarmArn), Statistic: string(a.Statistic), Period: int(aws.ToInt32(a.Period)),
		Comparison: string(a.ComparisonOperator), Threshold: aws.ToFloat64(a.Threshold), Evaluation: int(aws.ToInt32(a.EvaluationPeriods)),
		Datapoints: int(aws.ToInt32(a.DatapointsToAlarm)), MissingData: aws.ToString(a.TreatMissingData), Enabled: aws.ToBool(a.ActionsEnabled),
		Actions: a.AlarmActions, State: string(a.StateValue), Since: aws.ToTime(a.StateTransitionedTimestamp)}
	if out.Since.IsZero() {
		out.Since = aws.ToTime(a.StateUpdatedTimestamp)
	}
	out.Unit = string(a.Unit)
	if x := aws.ToString(a.ExtendedStatistic); x != "" {
		out.Statistic = x
	}
	out.Metric = capacity.Metric{Namespace: aws.ToString(a.Namespace), Name: aws.ToString(a.MetricName), Dimensions: map[string]string{}}
	for _, d := range a.Dimensions {
		out.Metric.Dimensions[aws.ToString(d.Name)] = aws.ToString(d.Value)
	}
	return out
}

// traffic is how many requests came in ten minutes.
func (r *reading) traffic(variants []string) {
	if len(variants) == 0 {
		return
	}
	v := &Variant{region: r.cfg.Region, endpoint: r.d.Endpoint, name: variants[0], cloudwatch: r.cw}
	n, err := v.invocations(r.ctx)
	if !r.failed("traffic", err) {
		r.d.Invocations = &n
	}
}

// accountWide reads the quota of the endpoint's instance types and the scaler's role, once for all endpoints.
func (r *reading) accountWide() {
	r.d.Quota = r.quotas
	for _, v := range r.d.Variants {
		if v.InstanceType == "" || r.looked[v.InstanceType] {
			continue
		}
		r.looked[v.InstanceType] = true
		q, err := Quota(r.ctx, r.Auditor.cfg, v.InstanceType)
		if err != nil {
			r.account = append(r.account, audit.Unread{What: "quota", Why: plain(err).Error()})
			continue
		}
		r.quotas[v.InstanceType] = q
	}
	if !r.looked["role"] {
		r.looked["role"] = true
		_, err := r.iam.GetRole(r.ctx, &iam.GetRoleInput{RoleName: aws.String(audit.LinkedRole)})
		switch {
		case err == nil:
			r.role = new(true)
		case is(err, "NoSuchEntity", "") || is(err, "NoSuchEntityException", ""):
			r.role = new(false)
		default:
			r.account = append(r.account, audit.Unread{What: "role", Why: plain(err).Error()})
		}
	}
	r.d.Role = r.role
	r.d.Unread = append(r.d.Unread, r.account...)
}

// Foreign lists the scalable targets of endpoints that are not in known.
func (a *Auditor) Foreign(ctx context.Context, known func(endpoint string) bool) ([]audit.Finding, error) {
	pages := applicationautoscaling.NewDescribeScalableTargetsPaginator(a.aas, &applicationautoscaling.DescribeScalableTargetsInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ScalableDimension: instanceCount, MaxResults: aws.Int32(50)})
	var found []audit.Finding
	for n := 0; pages.HasMorePages() && n < 10; n++ {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return found, unread("list the account's scalable targets", err)
		}
		for _, t := range page.ScalableTargets {
			part := strings.Split(aws.ToString(t.ResourceId), "/")
			if len(part) != 4 || known(part[1]) {
				continue
			}
			exists := true
			if _, err := a.sm.DescribeEndpoint(ctx, &sagemaker.DescribeEndpointInput{EndpointName: &part[1]}); is(err, "ValidationException", "Could not find endpoint") {
				exists = false
			}
			r := &reading{Auditor: a, ctx: ctx}
			if !exists {
				r.policies(aws.ToString(t.ResourceId))
			}
			found = append(found, audit.Foreign(targetOf(t), r.d.Policies, exists))
		}
	}
	return found, nil
}

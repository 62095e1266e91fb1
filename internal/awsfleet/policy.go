package awsfleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"loadline/internal/freeze"
)

// Release lets scaling add instances, and nothing else: removals and scheduled actions stay suspended. Max is the bound that
// the target had before it was frozen.
func (v *Variant) Release(ctx context.Context) error {
	return v.register(ctx, &freeze.Target{Suspended: freeze.Flags{In: true, Sched: true}})
}

// Fired is when, since a time, the first alarm of the variant's policies fired and when the first scaling activity began;
// zero for what has not been seen.
func (v *Variant) Fired(ctx context.Context, since time.Time) (alarm, decision time.Time, err error) {
	alarms, err := v.ScaleOutAlarms(ctx)
	if err != nil {
		return alarm, decision, err
	}
	for _, a := range alarms {
		at := aws.ToTime(a.StateTransitionedTimestamp)
		if at.IsZero() {
			at = aws.ToTime(a.StateUpdatedTimestamp)
		}
		if a.StateValue == cw.StateValueAlarm && !at.Before(since) && (alarm.IsZero() || at.Before(alarm)) {
			alarm = at
		}
	}
	out, err := v.scaling.DescribeScalingActivities(ctx, &applicationautoscaling.DescribeScalingActivitiesInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: aws.String(v.resource()),
		ScalableDimension: v.dimension(), MaxResults: aws.Int32(50),
	})
	if err != nil {
		return alarm, decision, cause(ctx, unread("read the scaling activities of "+v.resource(), err))
	}
	for _, a := range out.ScalingActivities {
		if at := aws.ToTime(a.StartTime); !at.Before(since) && a.StatusCode != aas.ScalingActivityStatusCodeFailed && (decision.IsZero() || at.Before(decision)) {
			decision = at
		}
	}
	return alarm, decision, nil
}

// ScaleOutAlarms are the alarms of the variant's policies that fire on more load than is wanted.
func (v *Variant) ScaleOutAlarms(ctx context.Context) ([]cw.MetricAlarm, error) {
	pages := applicationautoscaling.NewDescribeScalingPoliciesPaginator(v.scaling, &applicationautoscaling.DescribeScalingPoliciesInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: aws.String(v.resource()),
		ScalableDimension: v.dimension(),
	})
	var names []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, cause(ctx, unread("read the policies of "+v.resource(), err))
		}
		for _, p := range page.ScalingPolicies {
			for _, a := range p.Alarms {
				names = append(names, aws.ToString(a.AlarmName))
			}
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	out, err := v.cloudwatch.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: names[:min(len(names), 100)]})
	if err != nil {
		return nil, cause(ctx, unread("read the alarms of "+v.resource(), err))
	}
	var above []cw.MetricAlarm
	for _, a := range out.MetricAlarms {
		switch a.ComparisonOperator {
		case cw.ComparisonOperatorGreaterThanThreshold, cw.ComparisonOperatorGreaterThanOrEqualToThreshold:
			above = append(above, a)
		}
	}
	return above, nil
}

// firing is those of them that fire.
func (v *Variant) firing(ctx context.Context) ([]cw.MetricAlarm, error) {
	alarms, err := v.ScaleOutAlarms(ctx)
	return slices.DeleteFunc(alarms, func(a cw.MetricAlarm) bool { return a.StateValue != cw.StateValueAlarm }), err
}

// published is the time that a metric of the platform is given until it can be read.
const published = time.Minute

// calm waits until alarms that fire do so no more, as long as they take to see that a load has ended: two periods, of which
// the first may be half loaded, and publication. What fires after that has another cause, for which scaling is needed.
func (v *Variant) calm(ctx context.Context, firing []cw.MetricAlarm) {
	if len(firing) == 0 {
		return
	}
	limit := time.Duration(0)
	for _, a := range firing {
		limit = max(limit, 2*time.Duration(aws.ToInt32(a.Period))*time.Second+published)
	}
	name := aws.ToString(firing[0].AlarmName)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b := backoff{next: v.Poll, most: 20 * v.Poll}
	for {
		v.Say(fmt.Sprintf("its alarm still fires: scaling stays suspended until that is over, at most %s", limit))
		if b.pause(ctx) != nil {
			v.Note(fmt.Sprintf("alarm %s still fires %s after the load: its policies are let act on it", name, limit))
			return
		}
		switch still, err := v.firing(ctx); {
		case err != nil: // perhaps the next look can
		case len(still) == 0:
			return
		default:
			name = aws.ToString(still[0].AlarmName)
		}
	}
}

// Detection is how long the fastest deployed scale-out alarm on a high-resolution metric takes, publication left out; 0 when
// none is deployed.
func (v *Variant) Detection(ctx context.Context) (time.Duration, error) {
	alarms, err := v.ScaleOutAlarms(ctx)
	if err != nil {
		return 0, err
	}
	best := time.Duration(0)
	for _, a := range alarms {
		period := time.Duration(aws.ToInt32(a.Period)) * time.Second
		n := aws.ToInt32(a.DatapointsToAlarm)
		if n == 0 {
			n = aws.ToInt32(a.EvaluationPeriods)
		}
		if d := period * time.Duration(n); period < time.Minute && d > 0 && (best == 0 || d < best) {
			best = d
		}
	}
	return best, nil
}

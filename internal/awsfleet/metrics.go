package awsfleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"loadline/internal/exit"
	"loadline/internal/measure"
)

// Read asks CloudWatch for the variant's metrics between from and to, rounded outwards to whole minutes. A metric of
// which nothing is published is absent from the answer. Of an inference component they are its own, per copy.
func (v *Variant) Read(ctx context.Context, metrics []measure.Metric, from, to time.Time) (map[measure.Metric][]measure.Point, error) {
	from, to = from.Truncate(time.Minute), to.Add(time.Minute-1).Truncate(time.Minute)
	queries := make([]cw.MetricDataQuery, len(metrics))
	for i, m := range metrics {
		queries[i] = cw.MetricDataQuery{
			Id: aws.String(fmt.Sprintf("m%d", i)),
			MetricStat: &cw.MetricStat{
				Metric: v.published(m),
				Period: aws.Int32(int32(m.Period / time.Second)),
				Stat:   &m.Stat,
			},
		}
	}
	pages := cloudwatch.NewGetMetricDataPaginator(v.cloudwatch, &cloudwatch.GetMetricDataInput{
		StartTime: &from, EndTime: &to, MetricDataQueries: queries, ScanBy: cw.ScanByTimestampAscending,
	})
	points := map[measure.Metric][]measure.Point{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, cause(ctx, unread("read the metrics of endpoint "+v.endpoint, err))
		}
		for _, r := range page.MetricDataResults {
			var i int
			if _, err := fmt.Sscanf(aws.ToString(r.Id), "m%d", &i); err != nil || i >= len(metrics) {
				continue
			}
			for j := range min(len(r.Timestamps), len(r.Values)) {
				points[metrics[i]] = append(points[metrics[i]], measure.Point{At: r.Timestamps[j], Value: r.Values[j]})
			}
		}
	}
	return points, nil
}

// perCopy are the names, and the namespace, under which an inference component has what a variant has.
var perCopy = map[string]string{
	"ConcurrentRequestsPerModel": "ConcurrentRequestsPerCopy",
	"Invocations":                "InvocationsPerCopy",
	"/aws/sagemaker/Endpoints":   "/aws/sagemaker/InferenceComponents",
}

// published is where a metric of the variant, or of its component, is.
func (v *Variant) published(m measure.Metric) *cw.Metric {
	if v.component == "" {
		return &cw.Metric{Namespace: &m.Namespace, MetricName: &m.Name, Dimensions: []cw.Dimension{
			{Name: aws.String("EndpointName"), Value: &v.endpoint},
			{Name: aws.String("VariantName"), Value: &v.name},
		}}
	}
	of := func(name string) *string { return aws.String(cmp.Or(perCopy[name], name)) }
	return &cw.Metric{Namespace: of(m.Namespace), MetricName: of(m.Name), Dimensions: []cw.Dimension{
		{Name: aws.String("InferenceComponentName"), Value: &v.component},
	}}
}

// invocations is how many requests the variant, or each copy of its component, served in the last ten minutes.
func (v *Variant) invocations(ctx context.Context) (float64, error) {
	m := measure.Metric{Namespace: "AWS/SageMaker", Name: "Invocations", Stat: "Sum", Period: time.Minute}
	now := time.Now()
	points, err := v.Read(ctx, []measure.Metric{m}, now.Add(-10*time.Minute), now)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, p := range points[m] {
		sum += p.Value
	}
	return sum, nil
}

// Firing is the names of those alarms that are in ALARM. An alarm that does not exist is an error: a guard that is not
// there guards nothing.
func (v *Variant) Firing(ctx context.Context, alarms []string) ([]string, error) {
	state := map[string]cw.StateValue{}
	for batch := range slices.Chunk(alarms, 100) {
		out, err := v.cloudwatch.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{
			AlarmNames: batch, AlarmTypes: []cw.AlarmType{cw.AlarmTypeMetricAlarm, cw.AlarmTypeCompositeAlarm}, MaxRecords: aws.Int32(100),
		})
		if err != nil {
			return nil, cause(ctx, unread("read the alarms "+strings.Join(batch, ", "), err))
		}
		for _, a := range out.MetricAlarms {
			state[aws.ToString(a.AlarmName)] = a.StateValue
		}
		for _, a := range out.CompositeAlarms {
			state[aws.ToString(a.AlarmName)] = a.StateValue
		}
	}
	var firing []string
	for _, name := range alarms {
		switch s, ok := state[name]; {
		case !ok:
			return nil, exit.Refuse(fmt.Errorf("there is no alarm %q in %s", name, v.region))
		case s == cw.StateValueAlarm:
			firing = append(firing, name)
		}
	}
	return firing, nil
}

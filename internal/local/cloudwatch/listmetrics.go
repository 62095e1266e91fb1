package cloudwatch

import (
	"context"
	"slices"

	"loadline/internal/local/service"
	"loadline/internal/metric"
	"loadline/internal/wire"
)

const mostListedMetrics = 500 // of one page

type listMetricsIn struct {
	Namespace, MetricName, NextToken, RecentlyActive *string
	Dimensions                                       []struct{ Name, Value *string }
}

type listMetricsOut struct {
	Metrics   []listedMetric
	NextToken string `json:",omitempty"`
}

type listedMetric struct {
	Namespace, MetricName string
	Dimensions            []Dimension
}

// listMetrics lists what has data: a metric that is only named is not there, as in CloudWatch.
func (c *CloudWatch) listMetrics(_ context.Context, in *listMetricsIn) (*listMetricsOut, error) {
	all := []listedMetric{}
	for _, k := range c.metrics.Keys() {
		if service.Or(in.Namespace, k.Namespace) != k.Namespace || service.Or(in.MetricName, k.Name) != k.Name {
			continue
		}
		dims := k.Dimensions()
		whole := true
		for _, want := range in.Dimensions {
			whole = whole && slices.ContainsFunc(dims, func(d metric.Dimension) bool {
				return d.Name == service.Or(want.Name, "") && service.Or(want.Value, d.Value) == d.Value
			})
		}
		if !whole {
			continue
		}
		m := listedMetric{k.Namespace, k.Name, []Dimension{}}
		for _, d := range dims {
			m.Dimensions = append(m.Dimensions, Dimension(d))
		}
		all = append(all, m)
	}
	page, next, err := service.Page(all, nil, in.NextToken, mostListedMetrics, mostListedMetrics, wire.CloudwatchNextToken)
	return &listMetricsOut{page, next}, err
}

package cloudwatch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loadline/internal/local/service"
	"loadline/internal/metric"
	"loadline/internal/wire"
)

type getDataIn struct {
	MetricDataQueries  []Query
	StartTime, EndTime *wire.Stamp
	NextToken          *string
	ScanBy             *string
	MaxDatapoints      *int
}

// Query is one of those that are read, or computed with, together.
type Query struct {
	Id         *string
	Expression *string     `json:",omitempty"`
	Label      *string     `json:",omitempty"`
	ReturnData *bool       `json:",omitempty"`
	MetricStat *metricStat `json:",omitempty"`
}

type metricStat struct {
	Metric struct {
		Namespace, MetricName *string
		Dimensions            []Dimension `json:",omitempty"`
	}
	Period *int `json:",omitempty"`
	Stat   *string
	Unit   *string `json:",omitempty"`
}

type getDataOut struct {
	MetricDataResults []dataResult
	NextToken         string `json:",omitempty"`
}

type dataResult struct {
	Id         string
	Label      string
	Timestamps []wire.Stamp
	Values     []float64
	StatusCode string
}

func (c *CloudWatch) getMetricData(_ context.Context, in *getDataIn) (*getDataOut, error) {
	if len(in.MetricDataQueries) == 0 || len(in.MetricDataQueries) > mostQueries {
		return nil, wire.Refuse(wire.ValidationError, "The collection MetricDataQueries must have between 1 and %d members, it has %d.", mostQueries, len(in.MetricDataQueries))
	}
	limit := service.Or(in.MaxDatapoints, mostPageData)
	if limit < 1 || limit > mostPageData {
		return nil, wire.Refuse(wire.ValidationError, "The value %d for parameter MaxDatapoints is invalid: it must be between 1 and %d.", limit, mostPageData)
	}
	skip := 0
	if in.NextToken != nil {
		var err error
		if skip, err = strconv.Atoi(strings.TrimPrefix(*in.NextToken, "after-")); err != nil || skip < 0 {
			return nil, wire.Refuse(wire.CloudwatchNextToken, "The token %q is not valid.", *in.NextToken)
		}
	}
	ids := map[string]bool{}
	for _, q := range in.MetricDataQueries {
		if err := checkQuery(&q, in, ids); err != nil {
			return nil, err
		}
	}
	of := mathOf(in.MetricDataQueries, func(m *metricStat) []metric.Bucket {
		buckets, _ := c.read(key(*m.Metric.Namespace, *m.Metric.MetricName, m.Metric.Dimensions), m.Unit, in.StartTime.Time, in.EndTime.Time, *m.Period)
		return buckets
	})
	out := &getDataOut{MetricDataResults: []dataResult{}}
	seen, given := 0, 0 // datapoints of all pages, and of this one
	for _, q := range in.MetricDataQueries {
		s, err := of.series(*q.Id)
		if err != nil {
			return nil, wire.Refuse(wire.ValidationError, "Error in expression %q: %v", *q.Id, err)
		}
		if !service.Or(q.ReturnData, true) {
			continue
		}
		times, values := s.inOrder()
		if service.Or(in.ScanBy, "TimestampDescending") == "TimestampDescending" {
			slices.Reverse(times)
			slices.Reverse(values)
		}
		res := dataResult{*q.Id, service.Or(q.Label, *q.Id), []wire.Stamp{}, []float64{}, "Complete"}
		if q.MetricStat != nil {
			res.Label = service.Or(q.Label, *q.MetricStat.Metric.MetricName)
		}
		for i, v := range values {
			if seen++; seen <= skip {
				continue
			}
			if given == limit {
				res.StatusCode, out.NextToken = "PartialData", fmt.Sprintf("after-%d", skip+given)
				break
			}
			given++
			res.Timestamps, res.Values = append(res.Timestamps, wire.At(times[i])), append(res.Values, v)
		}
		out.MetricDataResults = append(out.MetricDataResults, res)
	}
	return out, nil
}

// mathOf looks queries up by their ids, each once.
func mathOf(queries []Query, read func(*metricStat) []metric.Bucket) mathQueries {
	byID := map[string]*Query{}
	for i := range queries {
		byID[*queries[i].Id] = &queries[i]
	}
	known, underway := map[string]points{}, map[string]bool{}
	var of mathQueries
	of.series = func(id string) (points, error) {
		q := byID[id]
		switch {
		case known[id] != nil:
			return known[id], nil
		case q == nil:
			return nil, fmt.Errorf("there is no query %q", id)
		case underway[id]:
			return nil, fmt.Errorf("the query %q depends on itself", id)
		}
		underway[id] = true
		s, err := points{}, error(nil)
		if m := q.MetricStat; m != nil {
			buckets := read(m)
			for i := range buckets {
				if v, ok := value(&buckets[i].Set, *m.Stat); ok {
					s[buckets[i].Start.Unix()] = v
				}
			}
		} else {
			s, err = of.evaluate(*q.Expression)
		}
		known[id], underway[id] = s, false
		return s, err
	}
	of.metrics = func(part string) []points {
		var out []points
		for _, q := range queries {
			if q.MetricStat != nil && strings.Contains(*q.Id, part) {
				s, _ := of.series(*q.Id) // a metric without data is an empty one
				out = append(out, s)
			}
		}
		return out
	}
	return of
}

func checkQuery(q *Query, in *getDataIn, ids map[string]bool) error {
	id := service.Or(q.Id, "")
	if id == "" || id[0] < 'a' || id[0] > 'z' || ids[id] {
		return wire.Refuse(wire.ValidationError, "The value %q for parameter Id is invalid: each query needs its own, starting with a lower-case letter.", id)
	}
	ids[id] = true
	m := q.MetricStat
	switch {
	case (q.Expression != nil) == (m != nil):
		return wire.Refuse(wire.ValidationError, "The query %q needs either a MetricStat or an Expression.", id)
	case in.StartTime == nil || in.EndTime == nil:
		return wire.Refuse(wire.ValidationError, "The parameters StartTime and EndTime are required.")
	case m == nil:
		return nil
	case service.Or(m.Metric.Namespace, "") == "" || service.Or(m.Metric.MetricName, "") == "":
		return wire.Refuse(wire.ValidationError, "The query %q needs a Namespace and a MetricName.", id)
	case m.Period == nil:
		return wire.Refuse(wire.ValidationError, "The query %q needs a Period.", id)
	case !in.StartTime.Before(in.EndTime.Time):
		return wire.Refuse(wire.ValidationError, "The parameter StartTime must be less than the parameter EndTime.")
	}
	if err := checkPeriod(*m.Period); err != nil {
		return wire.Refuse(wire.ValidationError, "%s", err.Message)
	}
	stat := service.Or(m.Stat, "")
	if _, ok := percentile(stat); !ok && simple[stat] == nil {
		return wire.Refuse(wire.ValidationError, "The value %q for parameter Stat is invalid: SampleCount, Average, Sum, Minimum, Maximum and percentiles are part of this local account.", stat)
	}
	return nil
}

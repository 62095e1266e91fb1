package cloudwatch

import (
	"encoding/json"
	"math"
	"time"

	"loadline/internal/alarm"
	"loadline/internal/local/service"
	"loadline/internal/metric"
	"loadline/internal/wire"
)

// Reader gives alarms their datapoints: those that have been published.
type Reader struct{ Metrics *metric.Store }

// Read is the datapoints of an alarm.
func (r Reader) Read(q *alarm.Query, period time.Duration, end, now time.Time, values []float64) {
	for i := range values {
		values[i] = math.NaN()
	}
	if q.Math != "" {
		r.readMath(QueriesOf(q), period, end, now, values)
		return
	}
	dims := make([]metric.Dimension, len(q.Dims))
	for i, d := range q.Dims {
		dims[i] = metric.Dimension(d)
	}
	series := r.Metrics.Find(metric.Key{Namespace: q.Namespace, Name: q.Name, Dims: metric.JoinDims(dims)})
	if series == nil || q.Unit != "" && q.Unit != series.Unit() {
		return
	}
	for _, b := range series.Read(end.Add(-time.Duration(len(values))*period), end, period, now) {
		if v, ok := value(&b.Set, q.Statistic); ok {
			values[int(end.Sub(b.Start)/period)-1] = v
		}
	}
}

// readMath is the datapoints of an alarm on metric math: those of the one query that returns data.
func (r Reader) readMath(queries []Query, period time.Duration, end, now time.Time, values []float64) {
	start := end.Add(-time.Duration(len(values)) * period)
	of := mathOf(queries, func(m *metricStat) []metric.Bucket {
		series := r.Metrics.Find(key(*m.Metric.Namespace, *m.Metric.MetricName, m.Metric.Dimensions))
		if series == nil || m.Unit != nil && *m.Unit != series.Unit() {
			return nil
		}
		return series.Read(start, end, period, now)
	})
	for _, q := range queries {
		if !service.Or(q.ReturnData, true) {
			continue
		}
		found, err := of.series(*q.Id)
		if err != nil {
			continue // an expression that fails has no data
		}
		for at, v := range found {
			if i := int((end.Unix()-at)/int64(period/time.Second)) - 1; i >= 0 && i < len(values) {
				values[i] = v
			}
		}
	}
}

// MathQuery checks the queries that an alarm or a policy computes with: one of them returns data, and they have one
// period. It is given for those of policies, which name none, and it is theirs.
func MathQuery(queries []Query, given *int) (alarm.Query, int, error) {
	period := given
	ids, returning := map[string]bool{}, 0
	now := wire.At(time.Unix(0, 0))
	later := wire.At(time.Unix(60, 0))
	for i := range queries {
		q := &queries[i]
		if q.MetricStat != nil && given != nil {
			q.MetricStat.Period = given
		}
		if err := checkQuery(q, &getDataIn{StartTime: &now, EndTime: &later}, ids); err != nil {
			return alarm.Query{}, 0, err
		}
		if m := q.MetricStat; m != nil {
			if period != nil && *m.Period != *period {
				return alarm.Query{}, 0, wire.Refuse(wire.ValidationError, "The queries must have the same Period: %d and %d are among them.", *period, *m.Period)
			}
			period = m.Period
		}
		if service.Or(q.ReturnData, true) {
			returning++
		}
	}
	switch {
	case returning != 1:
		return alarm.Query{}, 0, wire.Refuse(wire.ValidationError, "Exactly one of the queries must return data, %d do.", returning)
	case period == nil:
		return alarm.Query{}, 0, wire.Refuse(wire.ValidationError, "At least one of the queries must have a MetricStat.")
	}
	b, err := json.Marshal(queries)
	return alarm.Query{Math: string(b)}, *period, err
}

// QueriesOf is the queries that MathQuery made it of.
func QueriesOf(q *alarm.Query) []Query {
	var queries []Query
	if err := json.Unmarshal([]byte(q.Math), &queries); err != nil {
		return nil // MathQuery has written it
	}
	return queries
}

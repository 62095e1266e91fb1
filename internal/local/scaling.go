package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"loadline/internal/alarm"
	"loadline/internal/autoscale"
	"loadline/internal/fleet"
	"loadline/internal/local/service"
	"loadline/internal/metric"
	"loadline/internal/wire"
)

// scaled is the account as the autoscaler sees it: the capacities that it scales, and the metrics that its alarms read.
// l.mu is held.
type scaled struct{ *Local }

// Capacity of a scalable resource.
func (s scaled) Capacity(resource string) (autoscale.Capacity, error) {
	r, err := autoscale.ParseResource(resource)
	if err != nil {
		return autoscale.Capacity{}, err
	}
	if r.Component != "" {
		_, _, c, err := s.componentNamed(&r.Component)
		if err != nil {
			return autoscale.Capacity{}, fmt.Errorf("Could not find inference component %q.", s.componentARN(r.Component))
		}
		return autoscale.Capacity{Desired: c.Desired, Current: c.Current(), Busy: c.Status != fleet.InService, Reason: c.Reason}, nil
	}
	ep := s.endpoints[r.Endpoint]
	if ep == nil {
		return autoscale.Capacity{}, fmt.Errorf("Could not find endpoint %q.", s.endpointARN(r.Endpoint))
	}
	for _, v := range ep.fleet.Variants() {
		if v.Name == r.Variant {
			return autoscale.Capacity{Desired: v.Desired, Current: v.Current(), Busy: ep.fleet.Status != fleet.InService, Reason: ep.fleet.Reason}, nil
		}
	}
	return autoscale.Capacity{}, fmt.Errorf("Could not find variant %q in endpoint %q.", r.Variant, s.endpointARN(r.Endpoint))
}

// SetCapacity does what UpdateEndpointWeightsAndCapacities does; its refusals are worded as they reach activities.
func (s scaled) SetCapacity(resource string, _ time.Time, desired int) error {
	r, err := autoscale.ParseResource(resource)
	if err != nil {
		return err
	}
	if r.Component != "" {
		var ep *endpoint
		if _, ep, _, err = s.componentNamed(&r.Component); err == nil {
			err = s.setCopies(ep, r.Component, desired)
		}
	} else {
		err = s.setCapacity(s.endpoints[r.Endpoint], []fleet.Change{{Variant: r.Variant, Desired: &desired}})
	}
	var f *wire.Fault
	if errors.As(err, &f) {
		return fmt.Errorf("%s (Service: AmazonSageMaker; Status Code: %d; Error Code: %s; Request ID: %s)", f.Message, f.Status(), f.Code, service.RequestID())
	}
	return err
}

// Read is the datapoints of an alarm.
func (s scaled) Read(q *alarm.Query, period time.Duration, end, now time.Time, values []float64) {
	for i := range values {
		values[i] = math.NaN()
	}
	if q.Math != "" {
		s.readMath(mathOfQuery(q), period, end, now, values)
		return
	}
	dims := make([]metric.Dimension, len(q.Dims))
	for i, d := range q.Dims {
		dims[i] = metric.Dimension(d)
	}
	series := s.metrics.Find(metric.Key{Namespace: q.Namespace, Name: q.Name, Dims: metric.JoinDims(dims)})
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
func (s scaled) readMath(queries []dataQuery, period time.Duration, end, now time.Time, values []float64) {
	start := end.Add(-time.Duration(len(values)) * period)
	of := mathOf(queries, func(m *metricStat) []metric.Bucket {
		series := s.metrics.Find(key(*m.Metric.Namespace, *m.Metric.MetricName, m.Metric.Dimensions))
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

// mathQuery checks the queries that an alarm or a policy computes with: one of them returns data, and they have one
// period. It is given for those of policies, which name none, and it is theirs.
func mathQuery(queries []dataQuery, given *int) (alarm.Query, int, error) {
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

// mathOfQuery is the queries that mathQuery made it of.
func mathOfQuery(q *alarm.Query) []dataQuery {
	var queries []dataQuery
	if err := json.Unmarshal([]byte(q.Math), &queries); err != nil {
		return nil // mathQuery has written it
	}
	return queries
}

// settled tells the autoscaler that an endpoint's change has ended. l.mu is held.
func (l *Local) settled(ep *endpoint) {
	for _, v := range ep.fleet.Variants() {
		l.scaler.Settled(l.now(), autoscale.Resource{Endpoint: ep.fleet.Name, Variant: v.Name}.ID())
	}
}

// scaleFault is the autoscaler's refusal on the wire.
func scaleFault(err error) error {
	var e *autoscale.Error
	if errors.As(err, &e) {
		return wire.Refuse(e.Code, "%s", e.Message)
	}
	return err
}

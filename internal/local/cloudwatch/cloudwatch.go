// Package cloudwatch is CloudWatch of a local account: its metrics as they are put, read, listed and computed with, the
// alarms on them as they are described, and dashboards.
//
// It decides what a reading gives and what it refuses, as AWS does, and works out metric math. What a metric's period
// holds is package metric's, when an alarm goes off and what it does package alarm's and its owner's; dashboards are kept
// and never drawn.
//
//	store := metric.NewStore()
//	scaler := autoscale.New(autoscale.Config{Data: cloudwatch.Reader{store}, …})
//	c := cloudwatch.New(cloudwatch.Config{Metrics: store, Alarms: scaler, Lock: &mu, …})
//	front.Services = append(front.Services, c.Service())
package cloudwatch

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"loadline/internal/alarm"
	"loadline/internal/local/service"
	"loadline/internal/metric"
	"loadline/internal/wire"
)

// Alarms are on the metrics, and act on more than them: they are the autoscaler's.
type Alarms interface {
	Alarms() []alarm.Alarm
	Alarm(name string) (alarm.Alarm, bool)
	Changes(name string) []alarm.Change
	PutAlarm(now time.Time, a alarm.Alarm) error
	DeleteAlarm(name string) bool
	EnableActions(name string, on bool)
	SetAlarmState(now time.Time, name string, s alarm.State, reason string) error
}

// Config of New. All of it must be given.
type Config struct {
	Account service.Account
	Now     func() time.Time
	Log     *log.Logger
	Tags    *service.Tags
	Metrics *metric.Store
	// Publish closes the periods that have ended by now, before metrics are read.
	Publish func(now time.Time)
	Alarms  Alarms
	Lock    sync.Locker // held while Alarms is asked
	Changed func()      // called, under Lock, when the alarms have changed: something may be due at another time
}

// CloudWatch is the service. It is safe for concurrent use.
type CloudWatch struct {
	account service.Account
	now     func() time.Time
	log     *log.Logger
	tags    *service.Tags
	metrics *metric.Store
	publish func(now time.Time)
	alarms  Alarms
	lock    sync.Locker
	changed func()

	mu         sync.Mutex // guards dashboards; taken after lock
	dashboards map[string]*Dashboard
}

// New is CloudWatch without dashboards.
func New(cfg Config) *CloudWatch {
	return &CloudWatch{account: cfg.Account, now: cfg.Now, log: cfg.Log, tags: cfg.Tags, metrics: cfg.Metrics, publish: cfg.Publish,
		alarms: cfg.Alarms, lock: cfg.Lock, changed: cfg.Changed, dashboards: map[string]*Dashboard{}}
}

// Service is its operations.
func (c *CloudWatch) Service() service.Service {
	return service.Service{Target: "GraniteServiceVersion20100801", Name: "cloudwatch", CBOR: true, Version: "2010-08-01", Namespace: "http://monitoring.amazonaws.com/doc/2010-08-01/", Operations: service.Operations{
		"GetMetricStatistics": service.Op(c.getMetricStatistics),
		"GetMetricData":       service.Op(c.getMetricData),
		"PutMetricData":       service.Op(c.putMetricData),
		"PutMetricAlarm":      service.Op(c.putMetricAlarm),
		"DescribeAlarms":      service.Op(c.describeAlarms),
		"DeleteAlarms":        service.Op(c.deleteAlarms),
		"SetAlarmState":       service.Op(c.setAlarmState),
		"EnableAlarmActions":  service.Op(c.enableAlarmActions),
		"DisableAlarmActions": service.Op(c.disableAlarmActions),

		"DescribeAlarmsForMetric": service.Op(c.describeAlarmsForMetric),
		"DescribeAlarmHistory":    service.Op(c.describeAlarmHistory),

		"ListMetrics":         service.Op(c.listMetrics),
		"PutDashboard":        service.Op(c.putDashboard),
		"GetDashboard":        service.Op(c.getDashboard),
		"ListDashboards":      service.Op(c.listDashboards),
		"DeleteDashboards":    service.Op(c.deleteDashboards),
		"TagResource":         service.Op(c.tag),
		"UntagResource":       service.Op(c.untag),
		"ListTagsForResource": service.Op(c.listTags),
	}}
}

// CloudWatch's limits.
const (
	mostDatapoints  = 1440 // of one GetMetricStatistics
	mostPageData    = 100_800
	mostQueries     = 500
	mostPutData     = 1000
	mostValues      = 150
	mostDimensions  = 30
	oldestPut       = 14 * 24 * time.Hour
	furthestPut     = 2 * time.Hour
	highResolution  = 1
	plainResolution = 60
)

// Dimension of a metric on the wire.
type Dimension struct{ Name, Value string }

func key(namespace, name string, dims []Dimension) metric.Key {
	ds := make([]metric.Dimension, len(dims))
	for i, d := range dims {
		ds[i] = metric.Dimension(d)
	}
	return metric.Key{Namespace: namespace, Name: name, Dims: metric.JoinDims(ds)}
}

// read is the published periods of a metric.
func (c *CloudWatch) read(k metric.Key, unit *string, start, end time.Time, period int) (buckets []metric.Bucket, had string) {
	now := c.now()
	c.publish(now)
	s := c.metrics.Find(k)
	if s == nil || unit != nil && *unit != s.Unit() {
		return nil, ""
	}
	return s.Read(start, end, time.Duration(period)*time.Second, now), s.Unit()
}

// checkRange checks what every reading needs.
func checkRange(start, end *wire.Stamp, period *int) error {
	switch {
	case start == nil:
		return wire.Refuse(wire.MissingParameter, "The parameter StartTime is required.")
	case end == nil:
		return wire.Refuse(wire.MissingParameter, "The parameter EndTime is required.")
	case period == nil:
		return wire.Refuse(wire.MissingParameter, "The parameter Period is required.")
	case !start.Before(end.Time):
		return wire.Refuse(wire.InvalidValue, "The parameter StartTime must be less than the parameter EndTime.")
	}
	if err := checkPeriod(*period); err != nil {
		return err // not a nil *wire.Fault, which would be an error
	}
	return nil
}

func checkPeriod(p int) *wire.Fault {
	if slices.Contains([]int{1, 5, 10, 20, 30}, p) || p >= 60 && p%60 == 0 && p <= 86400 {
		return nil
	}
	return wire.Refuse(wire.InvalidValue, "The value %d for parameter Period is invalid: it must be 1, 5, 10, 20, 30 or a multiple of 60, at most 86400.", p)
}

type getStatisticsIn struct {
	Namespace, MetricName, Unit    *string
	Dimensions                     []Dimension
	StartTime, EndTime             *wire.Stamp
	Period                         *int
	Statistics, ExtendedStatistics []string
}

type getStatisticsOut struct {
	Label      string
	Datapoints []datapoint
}

type datapoint struct {
	Timestamp          wire.Stamp
	SampleCount        *float64           `json:",omitempty"`
	Average            *float64           `json:",omitempty"`
	Sum                *float64           `json:",omitempty"`
	Minimum            *float64           `json:",omitempty"`
	Maximum            *float64           `json:",omitempty"`
	Unit               string             `json:",omitempty"`
	ExtendedStatistics map[string]float64 `json:",omitempty"`
}

func (c *CloudWatch) getMetricStatistics(_ context.Context, in *getStatisticsIn) (*getStatisticsOut, error) {
	switch {
	case service.Or(in.Namespace, "") == "":
		return nil, wire.Refuse(wire.MissingParameter, "The parameter Namespace is required.")
	case service.Or(in.MetricName, "") == "":
		return nil, wire.Refuse(wire.MissingParameter, "The parameter MetricName is required.")
	}
	if err := checkRange(in.StartTime, in.EndTime, in.Period); err != nil {
		return nil, err
	}
	switch n := int(in.EndTime.Sub(in.StartTime.Time).Seconds()) / *in.Period; {
	case n > mostDatapoints:
		return nil, wire.Refuse(wire.InvalidCombination, "You have requested up to %d datapoints, which exceeds the limit of 1,440. You may reduce the datapoints requested by increasing Period, or decreasing the time range.", n)
	case len(in.Statistics) == 0 && len(in.ExtendedStatistics) == 0:
		return nil, wire.Refuse(wire.MissingParameter, "Must specify either Statistics or ExtendedStatistics.")
	case len(in.Statistics) > 0 && len(in.ExtendedStatistics) > 0:
		return nil, wire.Refuse(wire.InvalidCombination, "Statistics and ExtendedStatistics cannot be given together.")
	}
	for _, s := range in.Statistics {
		if simple[s] == nil {
			return nil, wire.Refuse(wire.InvalidValue, "The value %s for parameter Statistics is invalid: it must be SampleCount, Average, Sum, Minimum or Maximum.", s)
		}
	}
	for _, s := range in.ExtendedStatistics {
		if _, ok := percentile(s); !ok {
			return nil, wire.Refuse(wire.InvalidValue, "The value %s for parameter ExtendedStatistics is invalid: percentiles p0 to p100 are part of this local account.", s)
		}
	}
	out := &getStatisticsOut{Label: *in.MetricName, Datapoints: []datapoint{}}
	buckets, unit := c.read(key(*in.Namespace, *in.MetricName, in.Dimensions), in.Unit, in.StartTime.Time, in.EndTime.Time, *in.Period)
	for i := range buckets {
		d := datapoint{Timestamp: wire.At(buckets[i].Start), Unit: unit}
		for _, s := range in.Statistics {
			v := simple[s](&buckets[i].Set)
			*map[string]**float64{"SampleCount": &d.SampleCount, "Average": &d.Average, "Sum": &d.Sum, "Minimum": &d.Minimum, "Maximum": &d.Maximum}[s] = &v
		}
		for _, s := range in.ExtendedStatistics {
			p, _ := percentile(s)
			if v, ok := buckets[i].Percentile(p); ok {
				if d.ExtendedStatistics == nil {
					d.ExtendedStatistics = map[string]float64{}
				}
				d.ExtendedStatistics[s] = v
			}
		}
		if len(in.Statistics) > 0 || d.ExtendedStatistics != nil {
			out.Datapoints = append(out.Datapoints, d)
		}
	}
	// AWS returns them in no order; a reader that takes the first for the oldest is to see it here.
	half := len(out.Datapoints) / 2
	out.Datapoints = append(out.Datapoints[half:], out.Datapoints[:half]...)
	return out, nil
}

// simple is the statistics by their names.
var simple = map[string]func(*metric.Set) float64{
	"SampleCount": func(s *metric.Set) float64 { return s.Count },
	"Average":     (*metric.Set).Average,
	"Sum":         func(s *metric.Set) float64 { return s.Sum },
	"Minimum":     func(s *metric.Set) float64 { return s.Min },
	"Maximum":     func(s *metric.Set) float64 { return s.Max },
}

// percentile is p of "p95" or "p99.9".
func percentile(s string) (float64, bool) {
	digits, ok := strings.CutPrefix(s, "p")
	p, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(p >= 0 && p <= 100) || strings.ContainsAny(digits, "+-eExX_") {
		return 0, false
	}
	return p, true
}

func value(s *metric.Set, stat string) (float64, bool) {
	if f := simple[stat]; f != nil {
		return f(s), true
	}
	p, _ := percentile(stat)
	return s.Percentile(p)
}

type putDataIn struct {
	Namespace  *string
	MetricData []datum
}

type datum struct {
	MetricName        *string
	Dimensions        []Dimension
	Timestamp         *wire.Stamp
	Value             *float64
	Values, Counts    []float64
	StatisticValues   *struct{ SampleCount, Sum, Minimum, Maximum float64 }
	Unit              *string
	StorageResolution *int
}

// putMetricData stores custom metrics; they can be read at once. All of a call is stored or, with an error, nothing.
func (c *CloudWatch) putMetricData(_ context.Context, in *putDataIn) (*service.Nothing, error) {
	namespace := service.Or(in.Namespace, "")
	switch {
	case namespace == "":
		return nil, wire.Refuse(wire.MissingParameter, "The parameter Namespace is required.")
	case strings.HasPrefix(namespace, "AWS/"):
		return nil, wire.Refuse(wire.InvalidValue, "The value AWS/ for parameter Namespace is invalid.")
	case len(in.MetricData) == 0:
		return nil, wire.Refuse(wire.MissingParameter, "The parameter MetricData is required.")
	case len(in.MetricData) > mostPutData:
		return nil, wire.Refuse(wire.InvalidValue, "The collection MetricData must not have a size greater than %d.", mostPutData)
	}
	now := c.now()
	for i := range in.MetricData {
		if err := in.MetricData[i].check(fmt.Sprintf("MetricData.member.%d", i+1), now); err != nil {
			return nil, err
		}
	}
	for _, d := range in.MetricData {
		resolution := time.Duration(service.Or(d.StorageResolution, plainResolution)) * time.Second
		s, err := c.metrics.Series(key(namespace, *d.MetricName, d.Dimensions),
			metric.Spec{Unit: service.Or(d.Unit, "None"), Resolution: resolution, Published: metric.AtOnce})
		if err != nil {
			return nil, wire.Refuse(wire.CloudwatchLimit, "%v", err)
		}
		s.Refine(resolution)
		at := now
		if d.Timestamp != nil {
			at = d.Timestamp.Time
		}
		switch {
		case d.Value != nil:
			s.Observe(at, *d.Value, 1)
		case d.StatisticValues != nil:
			v := d.StatisticValues
			s.Totals(at, v.SampleCount, v.Sum, v.Minimum, v.Maximum)
		}
		for i, v := range d.Values {
			n := 1.0
			if d.Counts != nil {
				n = d.Counts[i]
			}
			s.Observe(at, v, n)
		}
	}
	return &service.Nothing{}, nil
}

func (d *datum) check(where string, now time.Time) error {
	ways := 0
	for _, is := range []bool{d.Value != nil, d.Values != nil, d.StatisticValues != nil} {
		if is {
			ways++
		}
	}
	switch {
	case service.Or(d.MetricName, "") == "":
		return wire.Refuse(wire.MissingParameter, "The parameter %s.MetricName is required.", where)
	case ways == 0:
		return wire.Refuse(wire.MissingParameter, "At least one of the parameters %s.Value, Values and StatisticValues is required.", where)
	case ways > 1:
		return wire.Refuse(wire.InvalidCombination, "Only one of the parameters %s.Value, Values and StatisticValues can be given.", where)
	case len(d.Dimensions) > mostDimensions:
		return wire.Refuse(wire.InvalidValue, "The collection %s.Dimensions must not have a size greater than %d.", where, mostDimensions)
	case len(d.Values) > mostValues:
		return wire.Refuse(wire.InvalidValue, "The collection %s.Values must not have a size greater than %d.", where, mostValues)
	case d.Counts != nil && len(d.Counts) != len(d.Values):
		return wire.Refuse(wire.InvalidCombination, "The parameters %s.Values and %s.Counts must have the same size.", where, where)
	}
	if r := service.Or(d.StorageResolution, plainResolution); r != highResolution && r != plainResolution {
		return wire.Refuse(wire.InvalidValue, "The value %d for parameter %s.StorageResolution is invalid: it must be 1 or 60.", r, where)
	}
	if t := d.Timestamp; t != nil && (t.Before(now.Add(-oldestPut)) || t.After(now.Add(furthestPut))) {
		return wire.Refuse(wire.InvalidValue, "The parameter %s.Timestamp must be between two weeks in the past and two hours in the future.", where)
	}
	for _, dim := range d.Dimensions {
		if dim.Name == "" || dim.Value == "" {
			return wire.Refuse(wire.InvalidValue, "The parameter %s.Dimensions has a dimension without a name or a value.", where)
		}
	}
	values := slices.Concat(d.Values, d.Counts)
	if d.Value != nil {
		values = append(values, *d.Value)
	}
	if v := d.StatisticValues; v != nil {
		values = append(values, v.SampleCount, v.Sum, v.Minimum, v.Maximum)
		if cmp.Compare(v.SampleCount, 0) <= 0 || v.Minimum > v.Maximum {
			return wire.Refuse(wire.InvalidValue, "The parameter %s.StatisticValues has no samples, or a minimum above its maximum.", where)
		}
	}
	for _, v := range values {
		if math.IsNaN(v) || math.Abs(v) > math.Ldexp(1, 360) {
			return wire.Refuse(wire.InvalidValue, "The value %v for parameter %s.Value is invalid.", v, where)
		}
	}
	for _, n := range d.Counts {
		if n <= 0 {
			return wire.Refuse(wire.InvalidValue, "The parameter %s.Counts has a count that is not positive.", where)
		}
	}
	return nil
}

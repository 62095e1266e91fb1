package cloudwatch

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"loadline/internal/alarm"
	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// CloudWatch's limits of alarms.
const (
	mostAlarmNames = 100 // of one call
	mostActions    = 5   // of one state
)

type putAlarmIn struct {
	AlarmName, AlarmDescription, MetricName, Namespace, Statistic, ExtendedStatistic, Unit, ComparisonOperator, TreatMissingData *string
	ActionsEnabled                                                                                                               *bool
	OKActions, AlarmActions, InsufficientDataActions                                                                             []string
	Dimensions                                                                                                                   []Dimension
	Period, EvaluationPeriods, DatapointsToAlarm                                                                                 *int
	Threshold                                                                                                                    *float64
	Metrics                                                                                                                      []Query
	Tags                                                                                                                         []service.Tag
}

func (c *CloudWatch) putMetricAlarm(_ context.Context, in *putAlarmIn) (*service.Nothing, error) {
	switch {
	case in.Threshold == nil || in.EvaluationPeriods == nil || in.ComparisonOperator == nil:
		return nil, wire.Refuse(wire.MissingParameter, "The parameters Threshold, EvaluationPeriods and ComparisonOperator are required.")
	case in.Metrics != nil && (in.MetricName != nil || in.Namespace != nil || in.Period != nil || in.Statistic != nil || in.ExtendedStatistic != nil || in.Dimensions != nil):
		return nil, wire.Refuse(wire.InvalidCombination, "Metrics cannot be given together with MetricName, Namespace, Dimensions, Period, Statistic or ExtendedStatistic.")
	case in.Metrics != nil:
	case in.Period == nil:
		return nil, wire.Refuse(wire.MissingParameter, "The parameter Period is required.")
	case (in.Statistic == nil) == (in.ExtendedStatistic == nil):
		return nil, wire.Refuse(wire.InvalidCombination, "Exactly one of the parameters Statistic and ExtendedStatistic must be specified.")
	case max(len(in.OKActions), len(in.AlarmActions), len(in.InsufficientDataActions)) > mostActions:
		return nil, wire.Refuse(wire.ValidationError, "An alarm has at most %d actions for one state.", mostActions)
	}
	period, math := service.Or(in.Period, 0), alarm.Query{}
	if in.Metrics != nil {
		var err error
		if math, period, err = MathQuery(in.Metrics, nil); err != nil {
			return nil, err
		}
	}
	a := alarm.Alarm{
		Name: service.Or(in.AlarmName, ""), Description: service.Or(in.AlarmDescription, ""),
		Query: alarm.Query{Namespace: service.Or(in.Namespace, ""), Name: service.Or(in.MetricName, ""), Unit: service.Or(in.Unit, ""),
			Statistic: service.Or(in.Statistic, service.Or(in.ExtendedStatistic, "")), Math: math.Math},
		Period: time.Duration(period) * time.Second, Periods: *in.EvaluationPeriods, Datapoints: service.Or(in.DatapointsToAlarm, 0),
		Threshold: *in.Threshold, Comparison: alarm.Comparison(*in.ComparisonOperator), Missing: alarm.Missing(service.Or(in.TreatMissingData, "")),
		ActionsEnabled: service.Or(in.ActionsEnabled, true), AlarmActions: in.AlarmActions, OKActions: in.OKActions, InsufficientDataActions: in.InsufficientDataActions,
	}
	if in.DatapointsToAlarm != nil && *in.DatapointsToAlarm < 1 {
		return nil, wire.Refuse(wire.ValidationError, "The value %d for parameter DatapointsToAlarm is invalid: it must be at least 1.", *in.DatapointsToAlarm)
	}
	for _, d := range in.Dimensions {
		a.Dims = append(a.Dims, alarm.Dimension(d))
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.alarms.PutAlarm(c.now(), a); err != nil {
		return nil, wire.Refuse(wire.ValidationError, "%s", strings.TrimPrefix(err.Error(), wire.ValidationException+": "))
	}
	if made, _ := c.alarms.Alarm(a.Name); in.Tags != nil && made.Configured.Equal(made.Updated) { // tags are for a new alarm
		c.tags.Add(made.ARN, in.Tags)
	}
	c.changed()
	return &service.Nothing{}, nil
}

type describeAlarmsIn struct {
	AlarmNames, AlarmTypes                               []string
	AlarmNamePrefix, StateValue, ActionPrefix, NextToken *string
	MaxRecords                                           *int
}

type alarmsOut struct {
	MetricAlarms    []metricAlarm
	CompositeAlarms []service.Nothing
	NextToken       string `json:",omitempty"`
}

type metricAlarm struct {
	AlarmName, AlarmArn                              string
	AlarmDescription                                 string `json:",omitempty"`
	AlarmConfigurationUpdatedTimestamp               wire.Stamp
	ActionsEnabled                                   bool
	OKActions, AlarmActions, InsufficientDataActions []string
	StateValue, StateReason                          string
	StateUpdatedTimestamp                            wire.Stamp
	StateTransitionedTimestamp                       *wire.Stamp `json:",omitempty"`
	MetricName                                       string      `json:",omitempty"`
	Namespace                                        string      `json:",omitempty"`
	Statistic                                        string      `json:",omitempty"`
	ExtendedStatistic                                string      `json:",omitempty"`
	Dimensions                                       []Dimension
	Period                                           int     `json:",omitempty"`
	Metrics                                          []Query `json:",omitempty"`
	Unit                                             string  `json:",omitempty"`
	EvaluationPeriods                                int
	DatapointsToAlarm                                int `json:",omitempty"`
	Threshold                                        float64
	ComparisonOperator, TreatMissingData             string
}

func (c *CloudWatch) metricAlarm(a alarm.Alarm) metricAlarm {
	m := metricAlarm{
		AlarmName: a.Name, AlarmArn: a.ARN, AlarmDescription: a.Description, AlarmConfigurationUpdatedTimestamp: wire.At(a.Configured),
		ActionsEnabled: a.ActionsEnabled, OKActions: list(a.OKActions), AlarmActions: list(a.AlarmActions), InsufficientDataActions: list(a.InsufficientDataActions),
		StateValue: string(a.State), StateReason: a.Reason, StateUpdatedTimestamp: wire.At(a.Updated), MetricName: a.Query.Name, Namespace: a.Namespace,
		Dimensions: []Dimension{}, Period: int(a.Period / time.Second), Unit: a.Unit, EvaluationPeriods: a.Periods, DatapointsToAlarm: a.Datapoints,
		Threshold: a.Threshold, ComparisonOperator: string(a.Comparison), TreatMissingData: string(a.Missing),
	}
	if a.Math != "" {
		m.Metrics, m.Period = QueriesOf(&a.Query), 0
	} else if simple[a.Statistic] != nil {
		m.Statistic = a.Statistic
	} else {
		m.ExtendedStatistic = a.Statistic
	}
	for _, d := range a.Dims {
		m.Dimensions = append(m.Dimensions, Dimension(d))
	}
	if c := c.alarms.Changes(a.Name); len(c) > 0 {
		m.StateTransitionedTimestamp = service.StampOf(c[len(c)-1].At)
	}
	return m
}

// list is a list on the wire, which is there when it is empty.
func list[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

func (c *CloudWatch) describeAlarms(_ context.Context, in *describeAlarmsIn) (*alarmsOut, error) {
	switch {
	case in.AlarmNames != nil && in.AlarmNamePrefix != nil:
		return nil, wire.Refuse(wire.InvalidCombination, "AlarmNames and AlarmNamePrefix cannot be given together.")
	case len(in.AlarmNames) > mostAlarmNames:
		return nil, wire.Refuse(wire.ValidationError, "The collection AlarmNames must not have a size greater than %d.", mostAlarmNames)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	all := []metricAlarm{}
	for _, a := range c.alarms.Alarms() {
		acts := func(arn string) bool { return strings.HasPrefix(arn, *in.ActionPrefix) }
		switch {
		case len(in.AlarmTypes) > 0 && !slices.Contains(in.AlarmTypes, "MetricAlarm"),
			in.AlarmNames != nil && !slices.Contains(in.AlarmNames, a.Name),
			!strings.HasPrefix(a.Name, service.Or(in.AlarmNamePrefix, "")),
			string(a.State) != service.Or(in.StateValue, string(a.State)),
			in.ActionPrefix != nil && !slices.ContainsFunc(slices.Concat(a.AlarmActions, a.OKActions, a.InsufficientDataActions), acts):
			continue
		}
		all = append(all, c.metricAlarm(a))
	}
	page, next, err := service.Page(all, in.MaxRecords, in.NextToken, mostAlarmNames, mostAlarmNames, wire.CloudwatchNextToken)
	if err != nil {
		return nil, err
	}
	return &alarmsOut{page, []service.Nothing{}, next}, nil
}

type alarmsForMetricIn struct {
	MetricName, Namespace, Statistic, ExtendedStatistic, Unit *string
	Dimensions                                                []Dimension
	Period                                                    *int
}

func (c *CloudWatch) describeAlarmsForMetric(_ context.Context, in *alarmsForMetricIn) (*alarmsOut, error) {
	if in.MetricName == nil || in.Namespace == nil {
		return nil, wire.Refuse(wire.MissingParameter, "The parameters MetricName and Namespace are required.")
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	out := &alarmsOut{[]metricAlarm{}, []service.Nothing{}, ""}
	want := key(*in.Namespace, *in.MetricName, in.Dimensions)
	for _, a := range c.alarms.Alarms() {
		m := c.metricAlarm(a)
		if key(m.Namespace, m.MetricName, m.Dimensions) == want && service.Or(in.Period, m.Period) == m.Period &&
			service.Or(in.Statistic, m.Statistic) == m.Statistic && service.Or(in.ExtendedStatistic, m.ExtendedStatistic) == m.ExtendedStatistic && service.Or(in.Unit, m.Unit) == m.Unit {
			out.MetricAlarms = append(out.MetricAlarms, m)
		}
	}
	return out, nil
}

type alarmNamesIn struct{ AlarmNames []string }

// deleteAlarms deletes all of them or, where one does not exist, none.
func (c *CloudWatch) deleteAlarms(_ context.Context, in *alarmNamesIn) (*service.Nothing, error) {
	if len(in.AlarmNames) > mostAlarmNames {
		return nil, wire.Refuse(wire.ValidationError, "The collection AlarmNames must not have a size greater than %d.", mostAlarmNames)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, name := range in.AlarmNames {
		if _, ok := c.alarms.Alarm(name); !ok {
			return nil, wire.Refuse(wire.CloudwatchNotFound, "Unknown alarm: %s", name)
		}
	}
	for _, name := range in.AlarmNames {
		c.alarms.DeleteAlarm(name)
	}
	return &service.Nothing{}, nil
}

func (c *CloudWatch) enableAlarmActions(_ context.Context, in *alarmNamesIn) (*service.Nothing, error) {
	return c.switchActions(in.AlarmNames, true)
}

func (c *CloudWatch) disableAlarmActions(_ context.Context, in *alarmNamesIn) (*service.Nothing, error) {
	return c.switchActions(in.AlarmNames, false)
}

func (c *CloudWatch) switchActions(names []string, on bool) (*service.Nothing, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, name := range names {
		c.alarms.EnableActions(name, on)
	}
	return &service.Nothing{}, nil
}

type setAlarmStateIn struct{ AlarmName, StateValue, StateReason *string }

func (c *CloudWatch) setAlarmState(_ context.Context, in *setAlarmStateIn) (*service.Nothing, error) {
	if in.AlarmName == nil || in.StateValue == nil || in.StateReason == nil {
		return nil, wire.Refuse(wire.MissingParameter, "The parameters AlarmName, StateValue and StateReason are required.")
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if _, ok := c.alarms.Alarm(*in.AlarmName); !ok {
		return nil, wire.Refuse(wire.CloudwatchNotFound, "Unknown alarm: %s", *in.AlarmName)
	}
	if err := c.alarms.SetAlarmState(c.now(), *in.AlarmName, alarm.State(*in.StateValue), *in.StateReason); err != nil {
		return nil, wire.Refuse(wire.ValidationError, "%s", strings.TrimPrefix(err.Error(), wire.ValidationException+": "))
	}
	return &service.Nothing{}, nil
}

type alarmHistoryIn struct {
	AlarmName, HistoryItemType, NextToken, ScanBy *string
	StartDate, EndDate                            *wire.Stamp
	MaxRecords                                    *int
}

type alarmHistoryOut struct {
	AlarmHistoryItems []alarmHistoryItem
	NextToken         string `json:",omitempty"`
}

type alarmHistoryItem struct {
	AlarmName, AlarmType                         string
	Timestamp                                    wire.Stamp
	HistoryItemType, HistorySummary, HistoryData string
}

// describeAlarmHistory tells the changes of alarms' states; of configurations and actions nothing is kept.
func (c *CloudWatch) describeAlarmHistory(_ context.Context, in *alarmHistoryIn) (*alarmHistoryOut, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	all := []alarmHistoryItem{}
	for _, a := range c.alarms.Alarms() {
		if a.Name != service.Or(in.AlarmName, a.Name) || service.Or(in.HistoryItemType, "StateUpdate") != "StateUpdate" {
			continue
		}
		for _, c := range c.alarms.Changes(a.Name) {
			if in.StartDate != nil && c.At.Before(in.StartDate.Time) || in.EndDate != nil && c.At.After(in.EndDate.Time) {
				continue
			}
			data, _ := json.Marshal(map[string]any{"version": "1.0", // strings always encode
				"oldState": map[string]string{"stateValue": string(c.From)},
				"newState": map[string]string{"stateValue": string(c.To), "stateReason": c.Reason}})
			all = append(all, alarmHistoryItem{a.Name, "MetricAlarm", wire.At(c.At), "StateUpdate", "Alarm updated from " + string(c.From) + " to " + string(c.To), string(data)})
		}
	}
	slices.SortStableFunc(all, func(a, b alarmHistoryItem) int {
		if service.Or(in.ScanBy, "TimestampDescending") == "TimestampAscending" {
			a, b = b, a
		}
		return b.Timestamp.Compare(a.Timestamp.Time)
	})
	page, next, err := service.Page(all, in.MaxRecords, in.NextToken, 100, 100, wire.CloudwatchNextToken)
	if err != nil {
		return nil, err
	}
	return &alarmHistoryOut{page, next}, nil
}

package stack

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Namespaces of what is watched: the platform's, its hosts', and the container's own.
const (
	sagemaker = "AWS/SageMaker"
	hosts     = "/aws/sagemaker/Endpoints"
	container = "Loadline/Speech"
)

// Shares, in percent, from which people are told.
const (
	shedShare   = 1
	brokenShare = 1
)

// notice is an alarm for people: it says what is wrong when its metric is over a value for so many of so many periods.
type notice struct {
	id, name, says string
	metrics        list
	over           float64
	periods, of    int
}

func (s scope) alarm(m Model, topic any, n notice) {
	s.add(n.id, "AWS::CloudWatch::Alarm", object{
		"AlarmName": m.Endpoint + "-" + m.Variant + "-" + n.name, "AlarmDescription": n.says, "Metrics": n.metrics,
		"Threshold": n.over, "ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": n.of, "DatapointsToAlarm": n.periods,
		"TreatMissingData": "notBreaching", "AlarmActions": list{topic}, "OKActions": list{topic},
	})
}

// metric is a metric of the variant that an expression reads.
func (m *Model) metric(id, namespace, name, stat string, period int) object {
	return object{"Id": id, "ReturnData": false, "MetricStat": object{"Stat": stat, "Period": period, "Metric": object{
		"Namespace": namespace, "MetricName": name, "Dimensions": list{object{"Name": "EndpointName", "Value": m.Endpoint}, object{"Name": "VariantName", "Value": m.Variant}}}}}
}

// shown makes a metric the one that is compared.
func shown(metric object) object { metric["ReturnData"] = true; return metric }

func result(id, expression string) object {
	return object{"Id": id, "Expression": expression, "ReturnData": true}
}

// observability is the construct EndpointObservability: the dashboard and the alarms that need no measurement, for every
// endpoint, scaled or not.
func observability(s scope, m Model, topic any) {
	stat := "p" + strconv.FormatFloat(m.Percentile, 'f', -1, 64)
	s.alarm(m, topic, notice{
		id: "FirstAudioBurn", name: "first-audio-burn", over: m.SLOMS, periods: 3, of: 5,
		says:    fmt.Sprintf("%s of first audio is above the promise of %g ms: callers wait.", stat, m.SLOMS),
		metrics: list{shown(m.metric("late", container, "FirstAudio", stat, 60))},
	})
	refused := m.metric("refused", container, "Rejected", "Sum", 300)
	s.alarm(m, topic, notice{
		id: "Shed", name: "shed", over: shedShare, periods: 3, of: 5,
		says: fmt.Sprintf("More than %d %% of requests are refused by design: the fleet is too small for them.", shedShare),
		metrics: list{m.metric("refused", container, "Rejected", "Sum", 60), m.metric("admitted", container, "Admitted", "Sum", 60),
			result("shed", "IF(FILL(refused, 0) > 0, 100 * FILL(refused, 0) / (FILL(refused, 0) + FILL(admitted, 0)), 0)")},
	})
	s.alarm(m, topic, notice{
		id: "Broken", name: "undesigned-5xx", over: brokenShare, periods: 2, of: 3,
		says: fmt.Sprintf("More than %d %% of requests fail with a 5xx that is no designed refusal.", brokenShare),
		metrics: list{m.metric("failed", sagemaker, "Invocation5XXErrors", "Sum", 300), refused, m.metric("asked", sagemaker, "Invocations", "Sum", 300),
			result("broken", "IF(FILL(failed, 0) > FILL(refused, 0), 100 * (failed - FILL(refused, 0)) / asked, 0)")},
	})
	s.add("Dashboard", "AWS::CloudWatch::Dashboard", object{"DashboardName": m.Endpoint + "-" + m.Variant, "DashboardBody": sub(m.dashboard())})
}

// line is a metric on a graph.
func (m *Model) line(namespace, name, stat, label string, period int) list {
	return list{namespace, name, "EndpointName", m.Endpoint, "VariantName", m.Variant, object{"stat": stat, "label": label, "period": period}}
}

// graph is one graph of the dashboard, with values drawn across it.
func graph(i int, title, unit string, lines list, across ...object) object {
	p := object{"title": title, "region": "${AWS::Region}", "view": "timeSeries", "metrics": lines, "yAxis": object{"left": object{"min": 0, "label": unit, "showUnits": false}}}
	if len(across) > 0 {
		p["annotations"] = object{"horizontal": across}
	}
	return object{"type": "metric", "x": i % 2 * 12, "y": i / 2 * 6, "width": 12, "height": 6, "properties": p}
}

func across(value float64, label string) object { return object{"value": value, "label": label} }

// dashboard is what a person looks at first: is it on time, is anything refused, how full is it, how many are there.
func (m *Model) dashboard() string {
	var bounds []object
	if m.Gate.Open && m.Plan != nil {
		for _, p := range m.Plan.Policies {
			if p.Metric.Predefined == "SageMakerVariantConcurrentRequestsPerModelHighResolution" && p.Target != nil {
				bounds = append(bounds, across(*p.Target, "scale-out"))
			}
		}
		for _, a := range m.Plan.Alarms {
			if a.Policy != "" && a.Metric.Name == "ConcurrentRequestsPerModel" {
				label := "scale-out"
				if a.Comparison == "LessThanOrEqualToThreshold" {
					label = "scale-in"
				}
				bounds = append(bounds, across(a.Threshold, label))
			}
		}
		if q := m.Plan.Config.QueueMaxDepth; q > 0 {
			bounds = append(bounds, across(float64(q), "full"))
		}
	}
	fleet := []object{}
	if m.Gate.Open && m.Plan != nil {
		fleet = append(fleet, across(float64(max(1, m.Plan.Config.MinInstances)), "min"), across(float64(max(1, m.Plan.Config.MaxInstances)), "max"))
	}
	stat := "p" + strconv.FormatFloat(m.Percentile, 'f', -1, 64)
	hidden := func(id, name string) list {
		return list{sagemaker, name, "EndpointName", m.Endpoint, "VariantName", m.Variant, object{"id": id, "stat": "Sum", "period": 60, "visible": false}}
	}
	body := object{"widgets": list{
		graph(0, "First audio", "ms", list{m.line(container, "FirstAudio", stat, stat, 60), m.line(container, "FirstAudio", "p50", "p50", 60), m.line(container, "ServiceTime", stat, "service time "+stat, 60), m.line(container, "QueueWait", stat, "queue wait "+stat, 60)}, across(m.SLOMS, "promise")),
		graph(1, "Held at once, by one instance", "requests", list{m.line(sagemaker, "ConcurrentRequestsPerModel", "Maximum", "requests", 10), m.line(container, "ActiveStreams", "Maximum", "streams", 60), m.line(container, "QueueDepth", "Maximum", "queued", 60)}, bounds...),
		graph(2, "Requests and refusals", "a minute", list{m.line(sagemaker, "Invocations", "Sum", "requests", 60), m.line(container, "Rejected", "Sum", "refused by design", 60), m.line(sagemaker, "Invocation5XXErrors", "Sum", "5xx, refusals included", 60), m.line(sagemaker, "InvocationModelErrors", "Sum", "model errors", 60)}),
		graph(3, "Instances", "instances", list{hidden("asked", "Invocations"), hidden("each", "InvocationsPerInstance"), list{object{"expression": "asked / each", "label": "taking requests", "id": "instances"}}}, fleet...),
		graph(4, "Processors", "percent, summed over all", list{m.line(hosts, "GPUUtilization", "Average", "GPU", 60), m.line(hosts, "CPUUtilization", "Average", "CPU", 60), m.line(hosts, "GPUMemoryUtilization", "Average", "GPU memory", 60)}),
		graph(5, "Underruns", "a minute", list{m.line(container, "Underruns", "Sum", "playback stalls", 60), m.line(container, "Stale", "Sum", "stale", 60), m.line(container, "Cancelled", "Sum", "cancelled", 60)}),
	}}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // of numbers and texts alone
	}
	return string(text)
}

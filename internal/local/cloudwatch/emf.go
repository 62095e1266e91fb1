package cloudwatch

import (
	"encoding/json"
	"strings"
	"time"

	"loadline/internal/metric"
)

// EMF's limits.
const (
	mostDirectives = 100 // metrics of one directive
	mostEMFValues  = 100 // values of one metric
)

// embedded is what an EMF line says of its metrics.
type embedded struct {
	AWS struct {
		Timestamp         *int64 // milliseconds
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct {
				Name, Unit        string
				StorageResolution int
			}
		}
	} `json:"_aws"`
}

// Observe stores the metrics of a log line in CloudWatch's embedded metric format; a line that is none, or a member of it
// that is broken, is a log line and nothing else, as there.
func (c *CloudWatch) Observe(text string, now time.Time) {
	if !strings.HasPrefix(text, "{") || !strings.Contains(text, `"_aws"`) {
		return
	}
	var e embedded
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &e) != nil || json.Unmarshal([]byte(text), &members) != nil || e.AWS.Timestamp == nil {
		return
	}
	at := time.UnixMilli(*e.AWS.Timestamp)
	if at.Before(now.Add(-oldestPut)) || at.After(now.Add(furthestPut)) {
		return
	}
	for _, d := range e.AWS.CloudWatchMetrics {
		if d.Namespace == "" || len(d.Metrics) > mostDirectives {
			continue
		}
		for _, names := range d.Dimensions {
			dims, whole := emfDimensions(names, members)
			if !whole {
				continue
			}
			for _, m := range d.Metrics {
				values := emfValues(members[m.Name])
				resolution := time.Duration(plainResolution) * time.Second
				if m.StorageResolution == highResolution {
					resolution = time.Second
				}
				if len(values) == 0 {
					continue
				}
				unit := m.Unit
				if unit == "" {
					unit = "None"
				}
				s, err := c.metrics.Series(metric.Key{Namespace: d.Namespace, Name: m.Name, Dims: metric.JoinDims(dims)},
					metric.Spec{Unit: unit, Resolution: resolution, Published: metric.AtOnce})
				if err != nil {
					c.log.Printf("a metric of a log line is not kept: %v", err)
					return
				}
				s.Refine(resolution)
				for _, v := range values {
					s.Observe(at, v, 1)
				}
			}
		}
	}
}

// emfDimensions are the dimensions of those names; not whole where the line lacks one.
func emfDimensions(names []string, members map[string]json.RawMessage) (dims []metric.Dimension, whole bool) {
	if len(names) > mostDimensions {
		return nil, false
	}
	for _, name := range names {
		var value string
		if json.Unmarshal(members[name], &value) != nil || value == "" {
			return nil, false
		}
		dims = append(dims, metric.Dimension{Name: name, Value: value})
	}
	return dims, true
}

// emfValues are a member's number, or its numbers.
func emfValues(raw json.RawMessage) []float64 {
	var one *float64
	if json.Unmarshal(raw, &one) == nil && one != nil {
		return []float64{*one}
	}
	var list []float64
	if json.Unmarshal(raw, &list) != nil || len(list) > mostEMFValues {
		return nil
	}
	return list
}

package cloudwatch

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func queries(m map[string]points) mathQueries {
	return mathQueries{
		series: func(id string) (points, error) {
			if s := m[id]; s != nil {
				return s, nil
			}
			return nil, errors.New("there is no such query")
		},
		metrics: func(part string) []points {
			var out []points
			for id, s := range m {
				if strings.Contains(id, part) {
					out = append(out, s)
				}
			}
			return out
		},
	}
}

func TestMetricMath(t *testing.T) {
	q := queries(map[string]points{"a1": {0: 6, 60: 8}, "a2": {0: 3, 60: 0, 120: 5}, "b": {0: 1}})
	for expression, want := range map[string]points{
		"a1":                            {0: 6, 60: 8},
		"a1/a2":                         {0: 2},
		" ( a1 + a2 ) * 100 ":           {0: 900, 60: 800},
		"a1 - 2 - 1":                    {0: 3, 60: 5},
		"-a1":                           {0: -6, 60: -8},
		"1 / a1":                        {0: 1.0 / 6, 60: 0.125},
		`SUM(METRICS("a"))`:             {0: 9, 60: 8, 120: 5},
		"SUM([a1, a2])":                 {0: 9, 60: 8, 120: 5},
		"MAX([a1,a2]) - MIN(METRICS())": {0: 5, 60: 8, 120: 0},
		"AVG(METRICS('a'))":             {0: 4.5, 60: 4, 120: 5},
		"a1 / SUM(a1)":                  {0: 6.0 / 14, 60: 8.0 / 14},
		"FILL(b, 7)":                    {0: 1, 60: 7, 120: 7},
		"CEIL(a1 / 4)":                  {0: 2, 60: 2},
	} {
		got, err := q.evaluate(expression)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v %v, want %v", expression, got, err, want)
		}
	}
	for _, wrong := range []string{"", "a1 +", "a1 a2", "(a1", "nobody", "3", "SUM(a1)", "METRICS()", "[a1]", "MEDIAN(a1)", "SUM(a1", "SUM([a1", "SUM([1])", `SUM("a`, "a1 + METRICS()", "FILL(a1)", strings.Repeat("(", 1000), strings.Repeat("-", 1000) + "a1"} {
		if got, err := q.evaluate(wrong); err == nil {
			t.Errorf("%q is worth %v", wrong, got)
		}
	}
}

func FuzzMetricMath(f *testing.F) {
	f.Add("SUM(METRICS('a')) / (a1 - 2) * [")
	f.Fuzz(func(_ *testing.T, expression string) {
		_, _ = queries(map[string]points{"a1": {0: 6}, "a2": {0: 3, 60: 0}}).evaluate(expression) // it ends, whatever it says
	})
}

package alarm

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// points reads a picture, oldest first: 0 does not breach, X does, - is missing.
func points(picture string) []float64 {
	var out []float64
	for _, c := range strings.Fields(picture) {
		v := map[string]float64{"0": 0, "X": 2, "-": math.NaN()}[c]
		out = append([]float64{v}, out...)
	}
	return out
}

// TestMissingData is CloudWatch's two tables (rows AL2 to AL7), and what its text adds to them.
func TestMissingData(t *testing.T) {
	const keep State = "keep"
	for _, c := range []struct {
		row, data                         string
		needed                            int
		missing, ignore, breaching, other State // other: notBreaching
	}{
		{"AL3", "0 - X - X", 3, OK, OK, OK, OK},
		{"AL4", "0 - - - -", 3, OK, OK, OK, OK},
		{"AL5", "- - - - -", 3, InsufficientData, keep, InAlarm, OK},
		{"AL3", "0 X X - X", 3, InAlarm, InAlarm, InAlarm, InAlarm},
		{"AL6", "- - X - -", 3, InAlarm, keep, InAlarm, OK},
		{"AL3", "0 - X - X", 2, InAlarm, InAlarm, InAlarm, InAlarm},
		{"AL7", "0 0 X 0 X", 2, InAlarm, InAlarm, InAlarm, InAlarm},
		{"AL4", "0 - X - -", 2, OK, OK, InAlarm, OK},
		{"AL4", "- - - - 0", 2, OK, OK, InAlarm, OK},
		{"AL6", "- - - X -", 2, InAlarm, keep, InAlarm, OK},
		{"AL6", "- - - - X", 3, keep, keep, InAlarm, OK},
		{"AL6", "- - - X -", 3, keep, keep, InAlarm, OK},
		{"AL4", "- - - X 0", 3, OK, OK, OK, OK},
		{"AL4", "- - X - 0", 3, OK, OK, OK, OK},
		{"AL2", "X X 0 0 X", 3, OK, OK, OK, OK},
		{"AL2", "X X X 0 0", 2, OK, OK, OK, OK},
		{"AL7", "- - - X X", 2, InAlarm, InAlarm, InAlarm, InAlarm},
	} {
		for treat, want := range map[Missing]State{MissingMissing: c.missing, Ignore: c.ignore, Breaching: c.breaching, NotBreaching: c.other} {
			for _, before := range []State{OK, InAlarm, InsufficientData} {
				a := Alarm{Periods: 3, Datapoints: c.needed, Threshold: 1, Comparison: Above, Missing: treat, State: before}
				to, kept := a.judge(points(c.data), 0)
				if kept {
					to = keep
				}
				if to != want {
					t.Errorf("%s: %s, %d of 3, %s, from %s: %s, want %s", c.row, c.data, c.needed, treat, before, to, want)
				}
			}
		}
	}
}

// TestLate is row AL12: what is not published yet is not missing, and one late datapoint is not an old one.
func TestLate(t *testing.T) {
	a := Alarm{Periods: 3, Datapoints: 3, Threshold: 1, Comparison: Above, Missing: MissingMissing, State: OK}
	for _, c := range []struct {
		data string
		late int
		want State
		keep bool
	}{
		{"- - X X X - -", 2, InAlarm, false},
		{"- - - - X - -", 2, "", true},
		{"- - X - - - -", 2, InAlarm, false},
		{"- - - - - - -", 2, InsufficientData, false},
	} {
		got, keep := a.judge(points(c.data), c.late)
		if keep != c.keep || !keep && got != c.want {
			t.Errorf("%s with %d late: %s %v", c.data, c.late, got, keep)
		}
	}
}

type constant float64

func (c constant) Read(_ *Query, _ time.Duration, _, _ time.Time, values []float64) {
	for i := range values {
		values[i] = float64(c)
	}
}

// slow is the rules of AL3 to AL7 once more, by trying what could stand in the gaps.
func slow(a *Alarm, values []float64) (State, bool) {
	var real []bool
	oldest := 0
	for i, v := range values {
		if !math.IsNaN(v) && len(real) < a.Periods {
			real = append(real, a.breaches(v))
			oldest = i + 1
		}
	}
	count := func(fill bool) int {
		n := 0
		for i := range a.Periods {
			if i < len(real) && real[i] || i >= len(real) && fill {
				n++
			}
		}
		return n
	}
	least, most := count(false), count(true)
	if a.Missing == NotBreaching {
		most = least
	}
	if a.Missing == Breaching {
		least = most
	}
	switch {
	case least >= a.Datapoints:
		return InAlarm, false
	case most < a.Datapoints && len(real) > 0, a.Missing == NotBreaching, a.Missing == Breaching:
		return OK, false
	case len(real) == 0:
		return InsufficientData, a.Missing == Ignore
	}
	for _, b := range real {
		if !b {
			return OK, false
		}
	}
	if oldest >= a.Datapoints {
		return InAlarm, a.Missing == Ignore
	}
	return a.State, true
}

func TestAgainstSlow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		n := 1 + rng.IntN(5)
		a := Alarm{Periods: n, Datapoints: 1 + rng.IntN(n), Threshold: 1, State: []State{OK, InAlarm, InsufficientData}[rng.IntN(3)],
			Comparison: []Comparison{Above, AtOrAbove, Below, AtOrBelow}[rng.IntN(4)],
			Missing:    []Missing{MissingMissing, Ignore, Breaching, NotBreaching}[rng.IntN(4)]}
		values := make([]float64, n+extra)
		for i := range values {
			values[i] = []float64{0, 1, 2, math.NaN(), math.NaN()}[rng.IntN(5)]
		}
		got, keep := a.judge(values, 0)
		want, kept := slow(&a, values)
		if keep != kept || !keep && got != want {
			t.Fatalf("%+v of %v: %s %v, want %s %v", a, values, got, keep, want, kept)
		}
	}
}

// TestCheck is row AL9.
func TestCheck(t *testing.T) {
	good := Alarm{Name: "a", Query: Query{Namespace: "N", Name: "M", Statistic: "Average"}, Period: time.Minute, Periods: 3, Comparison: Above}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Alarm){
		"Period":                  func(a *Alarm) { a.Period = 7 * time.Second },
		"a multiple of 60":        func(a *Alarm) { a.Period = 90 * time.Second },
		"multiple of 60":          func(a *Alarm) { a.Period = 0 },
		"EvaluationPeriods":       func(a *Alarm) { a.Periods = 0 },
		"DatapointsToAlarm":       func(a *Alarm) { a.Datapoints = 4 },
		"across more than a day":  func(a *Alarm) { a.Periods = 1441 },
		"or a week":               func(a *Alarm) { a.Period, a.Periods = time.Hour, 169 },
		"ComparisonOperator":      func(a *Alarm) { a.Comparison = "Over" },
		"TreatMissingData":        func(a *Alarm) { a.Missing = "maybe" },
		"Threshold":               func(a *Alarm) { a.Threshold = math.NaN() },
		"Statistic":               func(a *Alarm) { a.Statistic = "Median" },
		"percentiles":             func(a *Alarm) { a.Statistic = "p101" },
		"1 to 255 characters":     func(a *Alarm) { a.Name = "" },
		"needs a Namespace and a": func(a *Alarm) { a.Query.Name = "" },
	} {
		a := good
		spoil(&a)
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, p := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 24 * time.Hour} {
		a := good
		a.Period = p
		if err := a.Check(); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestReasonsAndChanges(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	w := New(Alarm{Name: "a", Query: Query{Namespace: "N", Name: "M"}, Period: time.Minute, Periods: 3, Threshold: 5, Comparison: Above}, now, 0)
	for i, v := range []float64{math.NaN(), 7, 7, 1, math.NaN()} {
		now = now.Add(time.Minute)
		if fired := w.Evaluate(now, constant(v)); fired != (v == 7) {
			t.Errorf("step %d: fired %v", i, fired)
		}
		if w.Due() != now.Add(time.Minute).Unix() {
			t.Errorf("due at %d", w.Due())
		}
	}
	var got []string
	for _, c := range w.Changes() {
		got = append(got, string(c.To)+" "+c.Reason)
	}
	want := []string{
		"ALARM Threshold Crossed: 3 out of the last 3 datapoints [7, 7, 7] were greater than the threshold (5) (minimum 3 datapoints for INSUFFICIENT_DATA -> ALARM transition).",
		"OK Threshold Crossed: 3 out of the last 3 datapoints [1, 1, 1] were not greater than the threshold (5) (minimum 3 datapoints for ALARM -> OK transition).",
		"INSUFFICIENT_DATA Insufficient Data: 3 datapoints were unknown.",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	for i := range 500 {
		w.Set(now, []State{OK, InAlarm}[i%2], "by hand")
	}
	if n := len(w.Changes()); n > keepChanges {
		t.Errorf("%d changes are kept", n)
	}
}

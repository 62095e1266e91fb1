package local

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

// hands is a clock that a test moves.
type hands struct {
	mu sync.Mutex
	at time.Time
}

func (h *hands) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *hands) move(d time.Duration) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
	return h.at
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func endpointDims() []types.Dimension {
	return []types.Dimension{{Name: aws.String("VariantName"), Value: aws.String("primary")}, {Name: aws.String("EndpointName"), Value: aws.String(speech)}}
}

// statistics reads a metric of the endpoint, by its periods' starts.
func (w *world) statistics(t *testing.T, namespace, name string, period int32, from, to time.Time, percentiles ...string) map[time.Time]types.Datapoint {
	t.Helper()
	in := &cw.GetMetricStatisticsInput{Namespace: &namespace, MetricName: &name, Dimensions: endpointDims(),
		StartTime: &from, EndTime: &to, Period: &period, ExtendedStatistics: percentiles}
	if len(percentiles) == 0 {
		in.Statistics = []types.Statistic{"SampleCount", "Average", "Sum", "Minimum", "Maximum"}
	}
	out, err := w.cw.GetMetricStatistics(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	by := map[time.Time]types.Datapoint{}
	for _, d := range out.Datapoints {
		by[d.Timestamp.UTC()] = d
	}
	return by
}

// same compares a datapoint with the values it should have been made of.
func same(t *testing.T, what string, d types.Datapoint, values []float64) {
	t.Helper()
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	n := float64(len(values))
	for _, c := range []struct {
		stat      string
		got, want float64
	}{
		{"SampleCount", aws.ToFloat64(d.SampleCount), n}, {"Sum", aws.ToFloat64(d.Sum), sum}, {"Average", aws.ToFloat64(d.Average), sum / n},
		{"Minimum", aws.ToFloat64(d.Minimum), slices.Min(values)}, {"Maximum", aws.ToFloat64(d.Maximum), slices.Max(values)},
	} {
		if math.Abs(c.got-c.want) > 1e-6*math.Max(1, math.Abs(c.want)) {
			t.Errorf("%s %s is %g, want %g", what, c.stat, c.got, c.want)
		}
	}
}

// TestPlatformMetrics sends requests at known times with known results and compares every metric with what a list of the
// requests says.
func TestPlatformMetrics(t *testing.T) {
	clock := &hands{at: noon}
	rng := rand.New(rand.NewPCG(1, 2))
	const delay = 30 * time.Second
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}, Now: clock.now, Published: delay,
		Start: func(context.Context, Spec) (Instance, error) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			mux := http.NewServeMux()
			mux.HandleFunc("/ping", func(http.ResponseWriter, *http.Request) {})
			mux.HandleFunc("/invocations", func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				ms, _ := strconv.Atoi(string(b[4:]))
				status, _ := strconv.Atoi(string(b[:3]))
				clock.move(time.Duration(ms) * time.Millisecond)
				w.WriteHeader(status)
			})
			b := &box{server: &http.Server{Handler: mux}, addr: ln.Addr().String(), usage: func() Usage {
				s := clock.now().Sub(noon).Seconds()
				return Usage{CPU: 1.5 * s, GPU: 0.39 * s, Memory: 25, GPUMemory: 12}
			}}
			go b.server.Serve(ln)
			return b, err
		}}, ok)

	type request struct {
		begin, end time.Time
		status     int
	}
	// What the platform's own clock does every ten seconds of real time.
	tick := func() {
		w.traffic.Publish(clock.now())
	}
	var requests []request
	for clock.now().Before(noon.Add(5 * time.Minute)) {
		r := request{begin: clock.move(time.Duration(rng.IntN(1500)) * time.Millisecond), status: []int{200, 200, 200, 200, 408, 503}[rng.IntN(6)]}
		ms := 20 + rng.IntN(3000)
		w.invoke(t, strconv.Itoa(r.status)+" "+strconv.Itoa(ms)) // its error is the status, asked for
		r.end = clock.now()
		requests = append(requests, r)
		tick()
	}
	end := noon.Add(5 * time.Minute)
	for clock.now().Before(end.Add(3 * time.Minute)) {
		clock.move(10 * time.Second)
		tick()
	}

	read := map[string]map[time.Time]types.Datapoint{}
	for _, name := range []string{"Invocations", "InvocationsPerInstance", "Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors", "ModelLatency", "OverheadLatency"} {
		read[name] = w.statistics(t, "AWS/SageMaker", name, 60, noon, end)
	}
	p95 := w.statistics(t, "AWS/SageMaker", "ModelLatency", 60, noon, end, "p95", "p50.5")
	for minute := noon; minute.Before(end); minute = minute.Add(time.Minute) {
		values := map[string][]float64{}
		flag := func(name string, is bool) {
			v := 0.0
			if is {
				v = 1
			}
			values[name] = append(values[name], v)
		}
		for _, r := range requests {
			if r.end.Before(minute) || !r.end.Before(minute.Add(time.Minute)) {
				continue
			}
			flag("Invocations", true)
			flag("InvocationsPerInstance", true)
			flag("Invocation4XXErrors", r.status == 408)
			flag("Invocation5XXErrors", r.status == 503)
			flag("InvocationModelErrors", r.status != 200)
			if r.status == 200 {
				values["ModelLatency"] = append(values["ModelLatency"], float64(r.end.Sub(r.begin).Microseconds()))
				values["OverheadLatency"] = append(values["OverheadLatency"], 0)
			}
		}
		for name, vs := range values {
			same(t, minute.Format("15:04 ")+name, read[name][minute], vs)
		}
		lat := slices.Sorted(slices.Values(values["ModelLatency"]))
		for stat, p := range map[string]float64{"p95": 95, "p50.5": 50.5} {
			want := lat[int(math.Ceil(p/100*float64(len(lat))))-1]
			if got := p95[minute].ExtendedStatistics[stat]; got != want {
				t.Errorf("%s %s is %g, want %g", minute.Format("15:04"), stat, got, want)
			}
		}
	}

	// Requests came one after another, so the level is 1 while one is served.
	concurrency := w.statistics(t, "AWS/SageMaker", "ConcurrentRequestsPerModel", 10, noon, end)
	if len(concurrency) != 30 {
		t.Errorf("%d periods of 10 s in 5 minutes", len(concurrency))
	}
	for at, d := range concurrency {
		busy := 0.0
		for _, r := range requests {
			busy += max(0, min(at.Add(10*time.Second).Sub(r.begin).Seconds(), r.end.Sub(at).Seconds(), 10, r.end.Sub(r.begin).Seconds()))
		}
		if *d.SampleCount != 10 || math.Abs(*d.Average-busy/10) > 1e-6 || *d.Maximum > 1 || *d.Minimum != 0 && busy < 10 {
			t.Errorf("%s concurrency: %g samples, average %g, max %g; busy %g of 10 s", at.Format("15:04:05"), *d.SampleCount, *d.Average, *d.Maximum, busy)
		}
	}

	// What an instance used, and zeros in a minute without calls.
	last := noon.Add(6 * time.Minute)
	for name, want := range map[string]float64{"CPUUtilization": 150, "GPUUtilization": 39, "MemoryUtilization": 25, "GPUMemoryUtilization": 12} {
		got := w.statistics(t, "/aws/sagemaker/Endpoints", name, 60, noon, last)
		for at, d := range got {
			if math.Abs(*d.Average-want) > 1e-6 || d.Unit != types.StandardUnitPercent {
				t.Errorf("%s %s is %g %s, want %g", at.Format("15:04"), name, *d.Average, d.Unit, want)
			}
		}
		if len(got) == 0 {
			t.Errorf("%s was never published", name)
		}
	}
	idle := w.statistics(t, "AWS/SageMaker", "Invocations", 60, last, last.Add(time.Minute))
	if d, found := idle[last]; !found || *d.Sum != 0 || *d.SampleCount != 1 || len(w.statistics(t, "AWS/SageMaker", "ModelLatency", 60, last, last.Add(time.Minute))) != 0 {
		t.Errorf("without calls: %v", idle)
	}

	// A period can be read once it is published, not before.
	begin := clock.now().Truncate(10 * time.Second).Add(20 * time.Second)
	clock.move(begin.Add(5 * time.Second).Sub(clock.now()))
	w.invoke(t, "200 1000")
	for after, want := range map[time.Duration]int{39*time.Second + 900*time.Millisecond: 0, 40 * time.Second: 1} {
		clock.mu.Lock()
		clock.at = begin.Add(after)
		clock.mu.Unlock()
		if got := w.statistics(t, "AWS/SageMaker", "ConcurrentRequestsPerModel", 10, begin, begin.Add(10*time.Second)); len(got) != want {
			t.Errorf("%s after its start a period of 10 s reads %d times, want %d", after, len(got), want)
		}
	}
}

func TestCustomMetrics(t *testing.T) {
	clock := &hands{at: noon.Add(30 * time.Second)}
	w := serving(t, Config{Now: clock.now}, ok)
	put := func(d types.MetricDatum) error {
		if d.MetricName == nil {
			d.MetricName = aws.String("FirstAudio")
		}
		_, err := w.cw.PutMetricData(t.Context(), &cw.PutMetricDataInput{Namespace: aws.String("Loadline/Speech"), MetricData: []types.MetricDatum{d}})
		return err
	}
	dims := endpointDims()
	for _, d := range []types.MetricDatum{
		{Dimensions: dims, Timestamp: aws.Time(noon.Add(time.Second)), Value: aws.Float64(10), Unit: "Milliseconds", StorageResolution: aws.Int32(1)},
		{Dimensions: dims, Timestamp: aws.Time(noon.Add(2 * time.Second)), Values: []float64{20, 30}, Counts: []float64{3, 1}, Unit: "Milliseconds", StorageResolution: aws.Int32(1)},
		{Dimensions: dims, Timestamp: aws.Time(noon.Add(12 * time.Second)), StatisticValues: &types.StatisticSet{SampleCount: aws.Float64(4), Sum: aws.Float64(8), Minimum: aws.Float64(1), Maximum: aws.Float64(3)}, StorageResolution: aws.Int32(1)},
		{MetricName: aws.String("FirstAudio"), Value: aws.Float64(99)}, // another metric: it has no dimensions
	} {
		if err := put(d); err != nil {
			t.Fatal(err)
		}
	}
	got := w.statistics(t, "Loadline/Speech", "FirstAudio", 10, noon, noon.Add(time.Minute))
	if len(got) != 2 {
		t.Fatalf("%v", got)
	}
	same(t, "values", got[noon], []float64{10, 20, 20, 20, 30})
	same(t, "a set", got[noon.Add(10*time.Second)], []float64{1, 2, 2, 3})
	minute := w.statistics(t, "Loadline/Speech", "FirstAudio", 60, noon, noon.Add(time.Minute))
	same(t, "a minute", minute[noon], []float64{10, 20, 20, 20, 30, 1, 2, 2, 3})
	if p := w.statistics(t, "Loadline/Speech", "FirstAudio", 1, noon, noon.Add(10*time.Second), "p75"); p[noon.Add(2*time.Second)].ExtendedStatistics["p75"] != 20 {
		t.Errorf("p75 of 20 20 20 30: %v", p)
	}
	if p := w.statistics(t, "Loadline/Speech", "FirstAudio", 60, noon, noon.Add(time.Minute), "p75"); len(p) != 0 {
		t.Errorf("a percentile of a set without its values: %v", p)
	}

	for text, d := range map[string]types.MetricDatum{
		"Only one of":         {Value: aws.Float64(1), Values: []float64{1}},
		"At least one of":     {},
		"is invalid":          {Value: aws.Float64(math.NaN())},
		"same size":           {Values: []float64{1, 2}, Counts: []float64{1}},
		"StorageResolution":   {Value: aws.Float64(1), StorageResolution: aws.Int32(10)},
		"two weeks":           {Value: aws.Float64(1), Timestamp: aws.Time(noon.Add(-15 * 24 * time.Hour))},
		"Dimensions must not": {Value: aws.Float64(1), Dimensions: slices.Repeat(endpointDims(), 16)},
	} {
		code := "InvalidParameterValue"
		switch text {
		case "Only one of", "same size":
			code = "InvalidParameterCombination"
		case "At least one of":
			code = "MissingParameter"
		}
		wants(t, put(d), code, 400, text)
	}
	_, err := w.cw.PutMetricData(t.Context(), &cw.PutMetricDataInput{Namespace: aws.String("AWS/SageMaker"), MetricData: []types.MetricDatum{{MetricName: aws.String("x"), Value: aws.Float64(1)}}})
	wants(t, err, "InvalidParameterValue", 400, "AWS/")

	// A call of a thousand, which the SDK compresses.
	var many []types.MetricDatum
	for i := range 1000 {
		many = append(many, types.MetricDatum{MetricName: aws.String("Many"), Dimensions: dims, Value: aws.Float64(float64(i)), Timestamp: aws.Time(noon)})
	}
	if _, err := w.cw.PutMetricData(t.Context(), &cw.PutMetricDataInput{Namespace: aws.String("Loadline/Speech"), MetricData: many}); err != nil {
		t.Fatal(err)
	}
	if got := w.statistics(t, "Loadline/Speech", "Many", 60, noon, noon.Add(time.Minute)); *got[noon].SampleCount != 1000 {
		t.Errorf("%v", got)
	}
}

func TestGetMetricData(t *testing.T) {
	clock := &hands{at: noon.Add(time.Hour)}
	w := serving(t, Config{Now: clock.now}, ok)
	for i := range 30 {
		if _, err := w.cw.PutMetricData(t.Context(), &cw.PutMetricDataInput{Namespace: aws.String("N"), MetricData: []types.MetricDatum{
			{MetricName: aws.String("M"), Value: aws.Float64(float64(i)), Timestamp: aws.Time(noon.Add(time.Duration(i) * time.Minute))}}}); err != nil {
			t.Fatal(err)
		}
	}
	query := func(id, stat string) types.MetricDataQuery {
		return types.MetricDataQuery{Id: &id, MetricStat: &types.MetricStat{Stat: &stat, Period: aws.Int32(60), Metric: &types.Metric{Namespace: aws.String("N"), MetricName: aws.String("M")}}}
	}
	in := &cw.GetMetricDataInput{StartTime: aws.Time(noon), EndTime: aws.Time(noon.Add(time.Hour)), MaxDatapoints: aws.Int32(7), ScanBy: "TimestampAscending",
		MetricDataQueries: []types.MetricDataQuery{query("a", "Maximum"), query("b", "p99"), query("c", "Sum")}}
	in.MetricDataQueries[2].ReturnData = aws.Bool(false)
	got := map[string][]float64{}
	for p := cw.NewGetMetricDataPaginator(w.cw, in); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range page.MetricDataResults {
			n += len(r.Values)
			got[*r.Id] = append(got[*r.Id], r.Values...)
		}
		if n > 7 {
			t.Errorf("a page of %d datapoints", n)
		}
	}
	for _, id := range []string{"a", "b"} {
		if len(got[id]) != 30 || !slices.IsSorted(got[id]) || got[id][29] != 29 {
			t.Errorf("%s: %v", id, got[id])
		}
	}
	if len(got["c"]) != 0 {
		t.Error("a query whose data is not to be returned was")
	}
	in.ScanBy, in.MaxDatapoints = "", nil
	out, err := w.cw.GetMetricData(t.Context(), in)
	if err != nil || out.MetricDataResults[0].Values[0] != 29 || out.MetricDataResults[0].StatusCode != "Complete" || !out.MetricDataResults[0].Timestamps[0].Equal(noon.Add(29*time.Minute)) {
		t.Errorf("newest first: %v %+v", err, out)
	}
	for text, change := range map[string]func(*types.MetricDataQuery){
		"depends on itself": func(q *types.MetricDataQuery) { q.Expression, q.MetricStat = aws.String("a+1"), nil },
		"its own":           func(q *types.MetricDataQuery) { q.Id = aws.String("Big") },
		"Period":            func(q *types.MetricDataQuery) { q.MetricStat.Period = aws.Int32(7) },
		"Stat is inva":      func(q *types.MetricDataQuery) { q.MetricStat.Stat = aws.String("Median") },
	} {
		q := query("a", "Sum")
		change(&q)
		_, err := w.cw.GetMetricData(t.Context(), &cw.GetMetricDataInput{StartTime: in.StartTime, EndTime: in.EndTime, MetricDataQueries: []types.MetricDataQuery{q}})
		wants(t, err, "ValidationError", 400, text)
	}
}

func TestCloudWatchErrors(t *testing.T) {
	w := serving(t, Config{}, ok)
	for _, c := range []struct {
		change     func(*cw.GetMetricStatisticsInput)
		code, text string
	}{
		{func(in *cw.GetMetricStatisticsInput) { in.Period = aws.Int32(7) }, "InvalidParameterValue", "Period"},
		{func(in *cw.GetMetricStatisticsInput) { in.Period = aws.Int32(90) }, "InvalidParameterValue", "Period"},
		{func(in *cw.GetMetricStatisticsInput) { in.Period = aws.Int32(0) }, "InvalidParameterValue", "Period"},
		{func(in *cw.GetMetricStatisticsInput) { in.EndTime = in.StartTime }, "InvalidParameterValue", "StartTime"},
		{func(in *cw.GetMetricStatisticsInput) { in.Period = aws.Int32(1) }, "InvalidParameterCombination", "3600 datapoints"},
		{func(in *cw.GetMetricStatisticsInput) { in.Statistics = nil }, "MissingParameter", "Statistics"},
		{func(in *cw.GetMetricStatisticsInput) { in.ExtendedStatistics = []string{"p95"} }, "InvalidParameterCombination", "together"},
		{func(in *cw.GetMetricStatisticsInput) { in.Statistics, in.ExtendedStatistics = nil, []string{"p101"} }, "InvalidParameterValue", "p101"},
		{func(in *cw.GetMetricStatisticsInput) { in.Statistics = []types.Statistic{"Median"} }, "InvalidParameterValue", "Median"},
	} {
		in := &cw.GetMetricStatisticsInput{Namespace: aws.String("N"), MetricName: aws.String("M"), Period: aws.Int32(60),
			StartTime: aws.Time(noon), EndTime: aws.Time(noon.Add(time.Hour)), Statistics: []types.Statistic{"Sum"}}
		c.change(in)
		_, err := w.cw.GetMetricStatistics(t.Context(), in)
		wants(t, err, c.code, 400, c.text)
	}
	out, err := w.cw.DescribeAlarms(t.Context(), &cw.DescribeAlarmsInput{})
	if err != nil || len(out.MetricAlarms) != 0 {
		t.Errorf("%v %v", out, err)
	}
}

package serve

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/admission"
)

func TestMarkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		start(t, Config{Engine: &fake{}, Log: log, Started: time.Now().Add(-1500 * time.Millisecond)})
		form := regexp.MustCompile(`^=== STAGE (\w+) t=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z elapsed_s=(\d+\.\d{3}) ===$`)
		var stages, elapsed []string
		for _, l := range log.all() {
			m := form.FindStringSubmatch(l)
			if m == nil {
				t.Fatalf("not a marker: %q", l)
			}
			stages, elapsed = append(stages, m[1]), append(elapsed, m[2])
		}
		if got := strings.Join(stages, " "); got != "container_start framework_init weights_fetched weights_ready warmup_done ready" {
			t.Errorf("stages %s", got)
		}
		if elapsed[0] != "0.000" || elapsed[5] != "1.500" {
			t.Errorf("elapsed %v", elapsed)
		}
	})
}

// document is one line of embedded metrics, read as CloudWatch reads it.
func document(t *testing.T, line string) map[string][]float64 {
	t.Helper()
	var root map[string]json.RawMessage
	if err := json.Unmarshal([]byte(line), &root); err != nil {
		t.Fatalf("not one JSON object: %q: %v", line, err)
	}
	var head struct {
		Timestamp         int64
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name, Unit string }
		}
	}
	if err := json.Unmarshal(root["_aws"], &head); err != nil || len(head.CloudWatchMetrics) != 1 {
		t.Fatalf("_aws: %s: %v", root["_aws"], err)
	}
	d := head.CloudWatchMetrics[0]
	if d.Namespace != "Loadline/Speech" || len(d.Dimensions) != 1 || strings.Join(d.Dimensions[0], " ") != "EndpointName VariantName" ||
		string(root["EndpointName"]) != `"speech-x"` || string(root["VariantName"]) != `"primary"` {
		t.Fatalf("directive %+v, %s, %s", d, root["EndpointName"], root["VariantName"])
	}
	values := make(map[string][]float64)
	for _, m := range d.Metrics {
		var one float64
		var many []float64
		if json.Unmarshal(root[m.Name], &one) == nil {
			many = []float64{one}
		} else if err := json.Unmarshal(root[m.Name], &many); err != nil {
			t.Fatalf("%s: %s", m.Name, root[m.Name])
		}
		if len(many) == 0 || len(many) > 100 {
			t.Fatalf("%s has %d values", m.Name, len(many))
		}
		values[m.Name] = many
	}
	if len(root) != len(values)+3 {
		t.Errorf("%d members, %d metrics: %s", len(root), len(values), line)
	}
	return values
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

func TestMetricsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		s := start(t, Config{Engine: &fake{say: taking(100*time.Millisecond, 2)}, Order: admission.FIFO, Log: log, Endpoint: "speech-x", SLO: time.Second, QueueDepth: 2})
		var wg sync.WaitGroup
		for range 3 { // the third is refused
			wg.Go(func() { call(s, "POST", "/invocations", `{"text": "Hello."}`) })
			synctest.Wait()
		}
		wg.Wait()
		for range 118 {
			call(s, "POST", "/invocations", `{"text": "Hello."}`)
		}
		time.Sleep(40 * time.Second) // on the bubble's clock
		synctest.Wait()
		total := make(map[string][]float64)
		docs := 0
		for _, l := range log.all() {
			if strings.HasPrefix(l, "===") {
				continue
			}
			docs++
			for name, v := range document(t, l) {
				total[name] = append(total[name], v...)
			}
		}
		if docs != 6 {
			t.Errorf("%d documents over 64 s", docs)
		}
		for name, want := range map[string]float64{"Admitted": 120, "Rejected": 1, "Cancelled": 0, "Stale": 0, "Underruns": 0} {
			if got := sum(total[name]); got != want {
				t.Errorf("%s adds up to %v, want %v", name, got, want)
			}
		}
		if got := sum(total["AudioSeconds"]); got < 23.999 || got > 24.001 {
			t.Errorf("AudioSeconds %v, want 120 x 0.2", got)
		}
		for _, name := range []string{"FirstAudio", "QueueWait", "ServiceTime", "Slack", "RealTimeFactor"} {
			if n := len(total[name]); n != 120 {
				t.Errorf("%s has %d values, want one a request", name, n)
			}
		}
		if f, q, d, x, r := total["FirstAudio"], total["QueueWait"], total["ServiceTime"], total["Slack"], total["RealTimeFactor"]; f[0] != 100 || f[1] != 300 || q[1] != 200 || d[0] != 200 || x[1] != 700 || r[0] != 1 {
			t.Errorf("first %v, wait %v, service %v, slack %v, rtf %v", f[:2], q[:2], d[:2], x[:2], r[:2])
		}
	})
}

func TestManyValuesGoIntoMoreDocuments(t *testing.T) {
	values := map[string][]float64{"Admitted": {250}, "FirstAudio": make([]float64, 250)}
	docs := documents(time.Unix(5, 0), "speech-x", "primary", values)
	if len(docs) != 3 {
		t.Fatalf("%d documents", len(docs))
	}
	admitted, first := 0.0, 0
	for _, d := range docs {
		v := document(t, string(d))
		admitted += sum(v["Admitted"])
		first += len(v["FirstAudio"])
	}
	if admitted != 250 || first != 250 {
		t.Errorf("admitted %v, first audio %d", admitted, first)
	}
}

// A listener who would have run dry is counted: the second block of 100 ms comes 300 ms after the first.
func TestUnderruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{Engine: &fake{say: taking(300*time.Millisecond, 3)}})
		call(s, "POST", "/invocations", `{"text": "Hello."}`)
		s.met.mu.Lock()
		defer s.met.mu.Unlock()
		if s.met.underruns != 2 {
			t.Errorf("%d underruns, want 2", s.met.underruns)
		}
	})
}

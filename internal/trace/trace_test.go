package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	zip := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write([]byte(s))
		z.Close()
		return b.String()
	}
	noon := time.Date(2026, 8, 4, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		text   string
		start  time.Time
		bucket time.Duration
		counts []float64
	}{
		"counts by minute, one left out": {"minute,requests\n2026-08-04 12:00:00,5\n2026-08-04 12:01:00,7\n2026-08-04 12:03:00,9\n", noon, time.Minute, []float64{5, 7, 0, 9}},
		"semicolons, rates":              {"time;rps\n2026-08-04T12:00:00Z;2\n2026-08-04T12:00:10Z;3", noon, 10 * time.Second, []float64{20, 30}},
		"requests out of order":          {"TIMESTAMP,ContextTokens\n2026-08-04 12:00:02.5000000,3\n2026-08-04 12:00:00.0000000,9\n2026-08-04 12:00:02.9,1\n", noon, time.Second, []float64{1, 0, 2}},
		"milliseconds from 0":            {"timestamp_ms,input_length\n0,10\n900,10\n1000,5\n", time.Unix(0, 0).UTC(), time.Second, []float64{2, 1}},
		"plain seconds":                  {"0.5\n0.9\n2.5\n", time.Unix(0, 0).UTC(), time.Second, []float64{2, 0, 1}},
		"time and count, no header":      {"1785844800,5\n1785844860,6\n", noon, time.Minute, []float64{5, 6}},
		"Unix milliseconds":              {"ts\n1785844800000\n1785844801000\n", noon, time.Second, []float64{1, 1}},
		"JSON lines":                     {`{"timestamp": 0, "input_length": 5}` + "\n" + `{"timestamp": 1.5}` + "\n", time.Unix(0, 0).UTC(), time.Second, []float64{1, 1}},
		"a request log":                  {`{"seq":0,"intended_ns":5,"started_ns":6}` + "\n" + `{"seq":1,"intended_ns":1000000005,"started_ns":9}`, time.Unix(0, 0).UTC(), time.Second, []float64{1, 1}},
		"JSON lines with counts":         {`{"time":"2026-08-04T12:00:00Z","count":4}` + "\n" + `{"time":"2026-08-04T12:01:00Z","count":6}`, noon, time.Minute, []float64{4, 6}},
		"an access log":                  {`- - - [04/Aug/2026:12:00:00 +0000] "GET / HTTP/1.0" 200 5` + "\n" + `- - - [04/Aug/2026:14:00:01 +0200] "GET /" 200 5` + "\n", noon, time.Second, []float64{1, 1}},
		"CloudWatch statistics": {`{"Label":"Invocations","Datapoints":[{"Timestamp":"2026-08-04T12:01:00+00:00","Sum":8.0,"Unit":"None"},{"Timestamp":"2026-08-04T12:00:00+00:00","Sum":4.0}]}`,
			noon, time.Minute, []float64{4, 8}},
		"CloudWatch metric data": {`{"MetricDataResults":[{"Id":"m","Timestamps":["2026-08-04T12:01:00Z","2026-08-04T12:00:00Z"],"Values":[8,4]}]}`, noon, time.Minute, []float64{4, 8}},
		"packed":                 {zip("minute,requests\n2026-08-04 12:00,5\n2026-08-04 12:01,6\n"), noon, time.Minute, []float64{5, 6}},
	} {
		got, err := Read([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !got.Start.Equal(c.start) || got.Bucket != c.bucket || !slices.Equal(got.Counts, c.counts) || got.Format == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for says, text := range map[string]string{
		"is empty":               " \n",
		"no column of times":     "requests,errors\n1,2\n",
		"row 3":                  "minute,requests\n2026-08-04 12:00,5\n2026-08-04 12:01,many\n",
		"row 2":                  "minute,requests\nnoon,5\n",
		"has 1 columns":          "minute,requests\n2026-08-04 12:00\n",
		"is no count":            "minute,requests\n2026-08-04 12:00,-1\n",
		"single moment":          "minute,requests\n2026-08-04 12:00,5\n",
		"buckets of 0.001 s":     "time,count\n0,1\n0.001,1\n99999999,1\n",
		"line 2":                 "{\"timestamp\":1}\n{oops\n",
		"has no time":            "{\"tokens\":1}\n",
		"neither Sum":            `{"Datapoints":[{"Timestamp":"2026-08-04T12:00:00Z","Average":1}]}`,
		"unpack the trace":       "\x1f\x8bnot really",
		"no time in brackets":    "x [04/Aug/2026:12:00:00 +0000] y\nz\n",
		"name the field":         "{\"tokens\":1}",
		"holds 2 metrics":        `{"MetricDataResults":[{"Timestamps":[],"Values":[]},{"Timestamps":[],"Values":[]}]}`,
		"\"?\" is no time":       "timestamp\n?\n",
		"the trace holds no req": "timestamp,count\n",
	} {
		if got, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v; want an error that says %q", text, got, err, says)
		}
	}
}

// The ramp before a kick-off at 19:00, in requests a minute rounded to hundreds (derived from the 1998 World Cup's logs).
func TestGrowthOfRamp(t *testing.T) {
	data, err := os.ReadFile("testdata/ramp.csv")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	for within, want := range map[time.Duration]float64{320 * time.Second: 1.48, 470 * time.Second: 1.67} {
		g, err := tr.Growth(within, 300)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(g.G-want) > 0.01 || math.Abs(g.H-(want-1)) > 0.015 || g.At.Format("15") != "18" {
			t.Errorf("G(%s) = %.3f, h %.3f at %s: want %.2f before 19:00", within, g.G, g.H, g.At, want)
		}
	}
	if _, err := tr.Growth(30*time.Second, 0); err == nil {
		t.Error("buckets of a minute tell what happens within 30 s")
	}
	if _, err := tr.Growth(320*time.Second, 1e9); err == nil || !strings.Contains(err.Error(), "no load of") {
		t.Errorf("nothing above the floor: %v", err)
	}
}

// poisson is the counts of a stream of a constant rate.
func poisson(rng *rand.Rand, rate float64, bucket time.Duration, n int) *Trace {
	tr := &Trace{Bucket: bucket, Counts: make([]float64, n)}
	mean := rate * bucket.Seconds()
	for i := range tr.Counts {
		if mean > 50 { // Wilson and Hilferty's cube root of a gamma count is close enough to a Poisson one
			c := 1 - 1/(9*mean) + rng.NormFloat64()/(3*math.Sqrt(mean))
			tr.Counts[i] = math.Round(mean * c * c * c)
			continue
		}
		for s := rng.ExpFloat64(); s < mean; s += rng.ExpFloat64() {
			tr.Counts[i]++
		}
	}
	return tr
}

// A constant stream does not grow, however often one looks.
func TestGrowthOfConstant(t *testing.T) {
	worst := 0.0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		for _, c := range []struct {
			rate   float64
			bucket time.Duration
			n      int
		}{{100, time.Second, 3600}, {100, time.Minute, 1440}, {1000, 10 * time.Second, 8640}, {100, time.Minute, 7 * 1440}} {
			g, err := poisson(rng, c.rate, c.bucket, c.n).Growth(320*time.Second, 0)
			if err != nil {
				t.Fatal(err)
			}
			worst = math.Max(worst, g.H)
			if g.H > 0.02 {
				t.Errorf("seed %d: %g a second in %d × %s reads h = %.3f (G %.3f, null %.3f)", seed, c.rate, c.n, c.bucket, g.H, g.G, g.Null)
			}
		}
	}
	t.Logf("worst h of constant streams %.4f", worst)
}

// Growth that is there is found, on few requests too, and not much more of it.
func TestGrowthOfStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	tr := poisson(rng, 150, 10*time.Second, 2160)
	tr.Counts = append(tr.Counts, poisson(rng, 225, 10*time.Second, 2160).Counts...)
	g, err := tr.Growth(320*time.Second, 10)
	if err != nil || g.H < 0.45 || g.H > 0.56 {
		t.Errorf("a step to 1.5 times: h %.3f, %v", g.H, err)
	}
}

func TestDispersion(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	tr := poisson(rng, 100, 10*time.Second, 5000)
	if d, ok := tr.Dispersion(10 * time.Second); !ok || math.Abs(d-1) > 0.1 {
		t.Errorf("a Poisson stream's dispersion is %g, %v", d, ok)
	}
	for i := range tr.Counts { // groups of four
		tr.Counts[i] = 4 * math.Round(tr.Counts[i]/4+2*rng.NormFloat64()*math.Sqrt(tr.Counts[i])/4)
	}
	if d, ok := tr.Dispersion(10 * time.Second); !ok || d < 3 {
		t.Errorf("a burstier one's is %g, %v", d, ok)
	}
	if _, ok := (&Trace{Bucket: time.Minute, Counts: make([]float64, 99)}).Dispersion(10 * time.Second); ok {
		t.Error("minutes tell of ten seconds")
	}
}

func TestIdleHours(t *testing.T) {
	tr := &Trace{Bucket: time.Minute, Counts: make([]float64, 2880)}
	for i := range tr.Counts {
		if h := i / 60 % 24; h >= 8 && h < 20 {
			tr.Counts[i] = 3
		}
	}
	if h, ok := tr.IdleHours(); !ok || h != 12 {
		t.Errorf("%g, %v", h, ok)
	}
	if p := tr.Peak(); p != 0.05 {
		t.Errorf("peak %g a second", p)
	}
}

// Counts written as CSV are read back.
func FuzzRead(f *testing.F) {
	f.Add([]byte("minute,requests\n2026-08-04 12:00,5\n2026-08-04 12:01,6\n"), uint16(60))
	f.Add([]byte("{\"timestamp\":1}\n{\"timestamp\":2}\n"), uint16(1))
	f.Add([]byte("a [04/Aug/2026:12:00:00 +0000] b"), uint16(7))
	f.Add([]byte(`{"Datapoints":[{"Timestamp":"2026-08-04T12:00:00Z","Sum":1},{"Timestamp":"2026-08-04T12:05:00Z","Sum":2}]}`), uint16(300))
	f.Add([]byte("1,2\n3,4"), uint16(9))
	f.Fuzz(func(t *testing.T, data []byte, width uint16) {
		tr, err := Read(data)
		if err != nil || len(tr.Counts) > 1e5 || len(tr.Counts) < 2 {
			t.Skip("no trace, or a long one")
		}
		var b strings.Builder
		b.WriteString("time,requests\n")
		for i, c := range tr.Counts {
			fmt.Fprintf(&b, "%d,%g\n", i*(int(width)+1), c)
		}
		back, err := Read([]byte(b.String()))
		if err != nil {
			t.Fatalf("%v of %q", err, b.String())
		}
		if back.Bucket != time.Duration(int(width)+1)*time.Second || !slices.Equal(back.Counts, tr.Counts) {
			t.Fatalf("%+v, was %+v", back, tr)
		}
	})
}

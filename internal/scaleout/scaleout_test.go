package scaleout

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"loadline/internal/sample"
)

var t0 = time.Date(2026, 8, 4, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

// told is a ledger as a line a span.
func told(l Ledger) string {
	var b strings.Builder
	for _, s := range l.Spans {
		mark := ""
		if s.Bounded {
			mark = " bounded"
		}
		fmt.Fprintf(&b, "%s>%s %.3f%s\n", s.From, s.To, s.Time.Seconds(), mark)
	}
	return b.String()
}

// tiles fails unless the spans add up to the total exactly.
func tiles(t *testing.T, l Ledger) {
	t.Helper()
	sum := time.Duration(0)
	for i, s := range l.Spans {
		sum += s.Time
		if s.Time < 0 || i > 0 && l.Spans[i-1].To != s.From {
			t.Errorf("span %d: %+v", i, s)
		}
	}
	if sum != l.Total {
		t.Errorf("the spans add up to %s, the total is %s", sum, l.Total)
	}
}

func TestTile(t *testing.T) {
	set := Mark{Name: DesiredSet, At: at(0)}
	tests := []struct {
		name    string
		marks   []Mark
		want    string
		floor   bool
		missing string
		notes   int
	}{
		{"all", []Mark{{Name: TrafficRecovered, At: at(260.2)}, {Name: "container_start", At: at(184)}, set, {Name: InstanceLogging, At: at(180.8), Bounded: true},
			{Name: ContainerStarted, At: at(184.5)}, {Name: WeightsReady, At: at(191)}, {Name: FrameworkInit, At: at(184.514)},
			// Equal times go by what happens first, not by name: the warm-up is not billed to ready.
			{Name: Ready, At: at(192.1)}, {Name: WarmupDone, At: at(192.1)}, {Name: InService, At: at(212.8)}},
			"desired_set>instance_logging 180.800 bounded\ninstance_logging>container_start 3.200 bounded\ncontainer_start>container_started 0.500\n" +
				"container_started>framework_init 0.014\nframework_init>weights_ready 6.486\nweights_ready>warmup_done 1.100\nwarmup_done>ready 0.000\n" +
				"ready>in_service 20.700\nin_service>traffic_recovered 47.400\n", false, "", 0},
		{"nothing but counts", []Mark{set, {Name: InService, At: at(10)}},
			"desired_set>in_service 10.000\n", true, "instance_logging container_started framework_init weights_ready warmup_done ready traffic_recovered", 0},
		{"first good audio comes last", []Mark{set, {Name: InService, At: at(240)}, {Name: FirstGoodAudio, At: at(330)}, {Name: TrafficRecovered, At: at(330)}},
			"desired_set>in_service 240.000\nin_service>first_good_audio 90.000\nfirst_good_audio>traffic_recovered 0.000\n", false, "instance_logging container_started framework_init weights_ready warmup_done ready", 0},
		{"the container's clock is ahead", []Mark{set, {Name: Ready, At: at(12)}, {Name: ContainerStarted, At: at(3)}, {Name: InService, At: at(10)}, {Name: TrafficRecovered, At: at(11)}},
			"desired_set>container_started 3.000\ncontainer_started>ready 7.000 bounded\nready>in_service 0.000 bounded\nin_service>traffic_recovered 1.000\n", false,
			"instance_logging framework_init weights_ready warmup_done", 1},
		{"and behind", []Mark{set, {Name: ContainerStarted, At: at(-2)}, {Name: InService, At: at(10)}, {Name: TrafficRecovered, At: at(11)}},
			"desired_set>container_started 0.000 bounded\ncontainer_started>in_service 10.000 bounded\nin_service>traffic_recovered 1.000\n", false,
			"instance_logging framework_init weights_ready warmup_done ready", 1},
		{"weights before the framework", []Mark{set, {Name: FrameworkInit, At: at(5)}, {Name: WeightsFetched, At: at(4)}, {Name: InService, At: at(10)}, {Name: TrafficRecovered, At: at(11)}},
			"desired_set>weights_fetched 4.000\nweights_fetched>framework_init 1.000\nframework_init>in_service 5.000\nin_service>traffic_recovered 1.000\n", false,
			"instance_logging container_started weights_ready warmup_done ready", 0},
		{"a stage of its own", []Mark{set, {Name: "voices_loaded", At: at(7)}, {Name: InService, At: at(10)}, {Name: TrafficRecovered, At: at(11)}},
			"desired_set>voices_loaded 7.000\nvoices_loaded>in_service 3.000\nin_service>traffic_recovered 1.000\n", false,
			"instance_logging container_started framework_init weights_ready warmup_done ready", 0},
		{"twice", []Mark{set, {Name: Ready, At: at(7)}, {Name: Ready, At: at(8)}, {Name: InService, At: at(10)}, {Name: TrafficRecovered, At: at(11)}},
			"desired_set>ready 7.000\nready>in_service 3.000\nin_service>traffic_recovered 1.000\n", false,
			"instance_logging container_started framework_init weights_ready warmup_done", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Tile(tt.marks)
			if err != nil {
				t.Fatal(err)
			}
			tiles(t, l)
			if told(l) != tt.want || l.Floor != tt.floor || strings.Join(l.Missing, " ") != tt.missing || len(l.Notes) != tt.notes {
				t.Errorf("got\n%swant\n%sfloor %t, missing %q, notes %q", told(l), tt.want, l.Floor, l.Missing, l.Notes)
			}
		})
	}
	if _, err := Tile([]Mark{{Name: InService, At: at(1)}}); err == nil {
		t.Error("a ledger without a capacity call")
	}
}

// TestTileAnything: whatever clocks say, the spans tile the total and none is negative.
func TestTileAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	names := append(slices.Clone(order[1:]), "other", "more")
	for range 3000 {
		marks := []Mark{{Name: DesiredSet, At: at(0)}}
		for _, name := range names {
			if rng.IntN(4) > 0 {
				marks = append(marks, Mark{Name: name, At: at(rng.Float64()*20 - 5), Bounded: rng.IntN(2) == 0})
			}
		}
		rng.Shuffle(len(marks), func(i, j int) { marks[i], marks[j] = marks[j], marks[i] })
		l, err := Tile(marks)
		if err != nil {
			t.Fatal(err)
		}
		tiles(t, l)
		if len(l.Stages) != len(marks) || l.Stages[0].Name != DesiredSet {
			t.Fatalf("%d stages of %d marks: %+v", len(l.Stages), len(marks), l.Stages)
		}
	}
}

func TestDetection(t *testing.T) {
	l, err := Tile([]Mark{{Name: Breach, At: at(-70)}, {Name: Alarm, At: at(-10)}, {Name: Decision, At: at(-4)}, {Name: DesiredSet, At: at(0)}, {Name: InService, At: at(5)}, {Name: TrafficRecovered, At: at(6)}})
	if err != nil || l.Detected != 70*time.Second || len(l.Detection) != 3 || l.Total != 6*time.Second {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestMarkers(t *testing.T) {
	line := func(stage string, s, elapsed float64) Event {
		return Event{at(s + 0.2), fmt.Sprintf("INFO === STAGE %s t=%s elapsed_s=%.3f ===", stage, at(s).Format("2006-01-02T15:04:05.000Z07:00"), elapsed)}
	}
	got := Container([]Event{{at(8), "starting"}, line("framework_init", 10, 1.5), line("ready", 12, 3.5), line("ready", 13, 4)})
	want := "container_started 8.5 true instance_logging 8 true"
	var said []string
	for _, m := range got {
		if m.Name == InstanceLogging || m.Name == ContainerStarted {
			said = append(said, fmt.Sprintf("%s %g %t", m.Name, m.At.Sub(t0).Seconds(), m.Bounded))
		}
	}
	slices.Sort(said)
	if strings.Join(said, " ") != want || len(got) != 4 {
		t.Errorf("got %q of %d, want %q", said, len(got), want)
	}
	if Container(nil) != nil {
		t.Error("marks of an empty log")
	}
	for _, bad := range []string{"", "=== STAGE ready ===", "=== STAGE ready t=now elapsed_s=1 ===", "=== STAGE ready t=2026-08-04T12:00:00Z elapsed_s=-1 ===",
		"=== STAGE ready t=2026-08-04T12:00:00Z elapsed_s=NaN ===", "=== STAGE a b t=2026-08-04T12:00:00Z elapsed_s=1 ==="} {
		if m, ok := ParseMarker(bad); ok {
			t.Errorf("%q is %+v", bad, m)
		}
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add("=== STAGE ready t=2026-08-04T12:00:00.250Z elapsed_s=1.500 ===")
	f.Add("x=== STAGE a t=2026-08-04T12:00:00+02:00 elapsed_s=1e3 ===y")
	f.Fuzz(func(t *testing.T, line string) {
		m, ok := ParseMarker(line)
		if !ok {
			return
		}
		again, ok := ParseMarker(fmt.Sprintf("=== STAGE %s t=%s elapsed_s=%.9f ===", m.Stage, m.At.Format(time.RFC3339Nano), m.Elapsed.Seconds()))
		if !ok || again != m {
			t.Errorf("%q: %+v, then %+v", line, m, again)
		}
	})
}

func ns(s float64) sample.Nanos { return sample.Nanos(s * 1e9) }

// probe is replies at a rate a second with the latency that f gives at a time.
func probe(from, to, rate float64, f func(t float64) float64) []Reply {
	var rs []Reply
	for t := from; t < to; t += 1 / rate {
		rs = append(rs, Reply{ns(t), f(t)})
	}
	return rs
}

func TestRecover(t *testing.T) {
	lor := Rule{Window: time.Minute, Quantile: 0.95, Target: 0.358}
	tests := []struct {
		name string
		rule Rule
		rs   []Reply
		from float64
		want float64 // seconds; below 0: never
		why  string
	}{
		// The published run: 47.4 s after in_service, and p95 fell from 568 ms to half of that.
		{"published", lor, probe(0, 440, 18, func(t float64) float64 {
			if t < 260.2 {
				return 0.568
			}
			return 0.286
		}), 212.8, 260.2, ""},
		{"at once", lor, probe(0, 300, 18, func(t float64) float64 { return 0.2 }), 100, 100, ""},
		{"never", lor, probe(0, 300, 18, func(t float64) float64 { return 0.5 }), 100, -1, "later than 358 ms"},
		{"not for a whole window", lor, probe(0, 300, 18, func(t float64) float64 {
			if t < 260 {
				return 0.5
			}
			return 0.2
		}), 100, -1, "later than 358 ms"},
		{"falls back", lor, probe(0, 300, 18, func(t float64) float64 {
			if t > 150 && t < 160 || t < 110 {
				return 0.5
			}
			return 0.2
		}), 100, 160, ""},
		{"a probe too short", lor, probe(0, 120, 18, func(t float64) float64 { return 0.2 }), 100, -1, "less than one window"},
		{"failures are not fast", lor, probe(0, 300, 18, func(t float64) float64 {
			if t < 200 {
				return math.Inf(1)
			}
			return 0.2
		}), 100, 200, ""},
		{"too few", lor, probe(0, 300, 0.1, func(t float64) float64 { return 0.2 }), 100, -1, "only"},
		{"no reply", lor, nil, 100, -1, "no reply"},
		{"by rate", Rule{Window: time.Minute, Quantile: 0.95, Rate: 27}, append(probe(0, 150, 18, func(float64) float64 { return 0.5 }),
			probe(150, 400, 36, func(float64) float64 { return 0.5 })...), 100, 150, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			end := ns(0)
			for _, r := range tt.rs {
				end = max(end, r.At)
			}
			if tt.rs == nil {
				end = ns(300)
			}
			got := Recover(tt.rs, ns(tt.from), end, tt.rule)
			if tt.want < 0 {
				if got.At.Known() || !strings.Contains(got.Why, tt.why) {
					t.Errorf("recovered at %s: %q", got.At.Duration(), got.Why)
				}
				return
			}
			if off := got.At.Duration().Seconds() - tt.want; !got.At.Known() || off < -3 || off > 12 || tt.rule.Target > 0 && off > 1.5 {
				t.Errorf("recovered at %s (%s), want %g", got.At.Duration(), got.Why, tt.want)
			}
			if tt.rule.Target > 0 && !(got.After <= tt.rule.Target) {
				t.Errorf("p95 after is %g, above the target %g: the two disagree", got.After, tt.rule.Target)
			}
		})
	}
}

// TestRecoverSlowly compares with the rule as it is written, over every window.
func TestRecoverSlowly(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		turn := 20 + rng.Float64()*60
		share := rng.Float64() * 0.08
		rs := probe(0, 120, 5+rng.Float64()*20, func(t float64) float64 {
			if t < turn || rng.Float64() < share {
				return 1
			}
			return 0.1
		})
		rule := Rule{Window: 20 * time.Second, Quantile: 0.95, Target: 0.5}
		end, w := ns(120), ns(20)
		got := Recover(rs, 0, end, rule)
		window := func(i int) []Reply {
			var out []Reply
			for _, r := range rs[i:] {
				if r.At < rs[i].At+w {
					out = append(out, r)
				}
			}
			return out
		}
		earliest := -1
		for i := len(rs) - 1; i >= 0; i-- {
			if rs[i].At > end-w {
				continue
			}
			if v := window(i); len(v) < fewest || Quantile(v, 0.95) > 0.5 {
				break
			}
			earliest = i
		}
		switch {
		case earliest < 0 && got.At.Known():
			t.Fatalf("recovered at %s, and the last window is too slow", got.At.Duration())
		case earliest >= 0 && got.At.Known() && got.At < rs[earliest].At:
			t.Fatalf("recovered at %s, the rule holds from %s on", got.At.Duration(), rs[earliest].At.Duration())
		case earliest >= 0 && share < 0.02 && !got.At.Known():
			t.Fatalf("not recovered (%s), the rule holds from %s on", got.Why, rs[earliest].At.Duration())
		}
	}
}

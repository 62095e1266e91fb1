package chart

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", name, diff)
	}
}

// ladder is p95 against the requests held, with the objective and what was certified.
func ladder() Figure {
	var p50, p95 []Point
	for _, n := range []float64{1, 5, 10, 20, 30, 40, 50, 60} {
		p50 = append(p50, Point{X: n, Y: 55 * n})
		p95 = append(p95, Point{X: n, Y: 56 * n, Low: 53 * n, High: 61 * n})
	}
	return Figure{
		ID: "ladder", Title: "First audio by requests held", Desc: "p95 grows by 56 ms a request; 50 held are certified within 3 s.",
		X: Axis{Label: "requests held by one instance"},
		Panels: []Panel{{
			Y:      Axis{Label: "first audio", Kind: Millis},
			Series: []Series{{Name: "p50", Points: p50}, {Name: "p95, with its interval", Points: p95}},
			Rules:  []Rule{{Label: "objective 3 s", At: 3000}, {Label: "Q_max 50, certified", At: 50, Upright: true}},
			Height: 220,
		}},
	}
}

// fleet is a surge over a day's end: three panels and a rug.
func fleet() Figure {
	var offered, can, in, want, wait []Point
	for s := 0.0; s <= 3600; s += 2 {
		load := 100.0
		if s >= 600 && s < 1800 {
			load = 140
		}
		n := 8.0
		if s >= 1000 {
			n = 11
		}
		w := 80.0
		if s >= 600 && s < 1100 {
			w = 80 + 60*(s-600)
		}
		if s > 3000 && s < 3060 {
			w = math.NaN()
		}
		offered, can = append(offered, Point{X: s, Y: load}), append(can, Point{X: s, Y: n * 14})
		in, want = append(in, Point{X: s, Y: n}), append(want, Point{X: s, Y: n + 1})
		wait = append(wait, Point{X: s, Y: w})
	}
	return Figure{
		ID: "fleet", Title: "Fleet & first audio in the surge", Desc: `The load grows by 40 % at 10 min; "late" from 11 min on.`,
		X: Axis{Label: "time", Kind: Seconds},
		Panels: []Panel{
			{Y: Axis{Label: "requests a second"}, Series: []Series{{Name: "offered", Points: offered}, {Name: "completed at most", Kind: Step, Points: can}}},
			{Y: Axis{Label: "instances"}, Series: []Series{{Name: "in service", Kind: Step, Points: in}, {Name: "wanted", Kind: Step, Points: want}},
				Rug: []Tick{{X: 680, Label: "8 to 11, loadline-concurrency-out", Shown: true}, {X: 2000, Label: "11 to 10 <rate>"}}, Height: 110},
			{Y: Axis{Label: "p95 first audio", Kind: Millis, Log: true}, Series: []Series{{Name: "p95", Points: wait}},
				Rules: []Rule{{Label: "objective 3 s", At: 3000}}, Height: 110},
		},
	}
}

func stages() Bar {
	return Bar{
		ID: "stages", Title: "A scale-out, stage by stage", Desc: "260.2 s from the call to recovered traffic, 180 s of it until the instance logs.",
		Kind: Seconds, Step: 0.1, Total: "T_total",
		Parts: []Part{{Name: "desired_set to instance_logging", Value: 180.4}, {Name: "container_started", Value: 2.1, Note: "bounded"},
			{Name: "framework_init", Value: 11}, {Name: "weights_ready", Value: 24}, {Name: "warmup_done", Value: 30.7}, {Name: "in_service", Value: 10}, {Name: "traffic_recovered", Value: 2}},
	}
}

// parsed fails unless s is XML that a browser would take, titled and described.
func parsed(t *testing.T, s string) {
	t.Helper()
	seen := map[string]bool{}
	for dec := xml.NewDecoder(strings.NewReader(s)); ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("no XML: %v\n%s", err, s)
		}
		if e, ok := tok.(xml.StartElement); ok {
			seen[e.Name.Local] = true
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("<%s> has %s", e.Name.Local, a.Name.Local)
				}
				if a.Name.Local == "d" && strings.ContainsAny(a.Value, "NI") { // NaN, Inf
					t.Errorf("a path holds no number: %s", a.Value)
				}
			}
		}
	}
	if !seen["title"] || !seen["desc"] || seen["script"] || seen["image"] || seen["foreignObject"] {
		t.Errorf("elements %v", seen)
	}
}

func TestGoldens(t *testing.T) {
	for name, draw := range map[string]func() string{
		"ladder.svg": ladder().SVG, "fleet.svg": fleet().SVG, "stages.svg": stages().SVG,
	} {
		s := draw()
		parsed(t, s)
		if again := draw(); again != s {
			t.Errorf("%s: drawn twice, it differs", name)
		}
		golden(t, name, s)
	}
}

func TestHostileInput(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for name, f := range map[string]Figure{
		"nothing":      {ID: "a", Panels: []Panel{{}}},
		"no panel":     {ID: "a"},
		"one point":    {ID: "a", Panels: []Panel{{Series: []Series{{Points: []Point{{X: 3, Y: 4}}}}}}},
		"no number":    {ID: "a", Panels: []Panel{{Series: []Series{{Points: []Point{{X: 0, Y: nan}, {X: 1, Y: inf}, {X: 2, Y: -inf}}}}}}},
		"flat":         {ID: "a", Panels: []Panel{{Series: []Series{{Points: []Point{{X: 0, Y: 0}, {X: 1, Y: 0}}}}}}},
		"log of 0":     {ID: "a", Panels: []Panel{{Y: Axis{Log: true}, Series: []Series{{Points: []Point{{X: 0, Y: 0}, {X: 1, Y: -5}}}}}}},
		"log, one":     {ID: "a", Panels: []Panel{{Y: Axis{Log: true}, Series: []Series{{Points: []Point{{X: 0, Y: 10}, {X: 1, Y: 10}}}}}}},
		"huge":         {ID: "a", Panels: []Panel{{Series: []Series{{Points: []Point{{X: 0, Y: 1e300}, {X: 1e300, Y: -1e300}}}}}}},
		"tiny":         {ID: "a", X: Axis{Kind: Seconds}, Panels: []Panel{{Series: []Series{{Points: []Point{{X: 0, Y: 1e-300}, {X: 1e-300, Y: 0}}}}}}},
		"control text": {ID: `a"><script>`, Title: "a\x00b\xff<script>", Desc: "&", Panels: []Panel{{Rug: []Tick{{Label: "</svg>"}}}}},
	} {
		t.Run(name, func(t *testing.T) { parsed(t, f.SVG()) })
	}
	parsed(t, Bar{ID: "b", Parts: []Part{{Value: 0}, {Value: -1}}}.SVG())
	parsed(t, Bar{ID: "b"}.SVG())
}

// A day in seconds is drawn in no more than a pixel's detail, and loses neither its peaks nor its ends.
func TestThinned(t *testing.T) {
	var pts []Point
	for i := range 86400 {
		y := 1.0
		if i == 40000 {
			y = 9
		}
		pts = append(pts, Point{X: float64(i), Y: y})
	}
	f := Figure{ID: "d", X: Axis{Kind: Seconds}, Panels: []Panel{{Series: []Series{{Name: "x", Kind: Step, Points: pts}}}}}
	if s := f.SVG(); len(s) > 100_000 {
		t.Errorf("a day takes %d bytes", len(s))
	}
	b := frame{w: 600, h: 100, xs: span{lo: 0, hi: 86400}, ys: span{lo: 0, hi: 10}}
	top, thin := 0.0, thinned(pts, b)
	for _, p := range thin {
		top = math.Max(top, p.Y)
	}
	if top != 9 || thin[0] != pts[0] || thin[len(thin)-1] != pts[len(pts)-1] {
		t.Errorf("kept %d points up to %g", len(thin), top)
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		kind    Scale
		v, step float64
		want    string
	}{
		{Number, 0, 0, "0"}, {Number, 12345.6, 0, "12,346"}, {Number, 0.1234, 0, "0.123"}, {Number, 2.5, 0.5, "2.5"}, {Number, 2, 0.5, "2.0"},
		{Number, -1500, 500, "−1,500"}, {Seconds, 30, 10, "30 s"}, {Seconds, 90, 30, "90 s"}, {Seconds, 3600, 600, "60 min"}, {Seconds, 900, 0, "15 min"}, {Seconds, 600, 300, "10 min"}, {Seconds, 7200, 3600, "2 h"},
		{Seconds, 5400, 1800, "90 min"}, {Seconds, 260.2, 0, "260 s"}, {Millis, 250, 50, "250 ms"}, {Millis, 3000, 1000, "3 s"}, {Millis, 2500, 500, "2.5 s"},
	} {
		if got := label(c.kind, c.v, c.step); got != c.want {
			t.Errorf("label(%d, %g, %g) = %q, want %q", c.kind, c.v, c.step, got, c.want)
		}
	}
}

// Every colour that carries text or a line stands out from its background by the WCAG's ratios: 4.5 for text, 3 for lines.
func TestContrast(t *testing.T) {
	light, dark, ok := strings.Cut(Style, "@media")
	if !ok {
		t.Fatal("no dark colours")
	}
	variable := regexp.MustCompile(`--lc-(\w+):(#[0-9a-f]{6})`)
	for name, css := range map[string]string{"light": light, "dark": dark} {
		colour := map[string]string{}
		for _, m := range variable.FindAllStringSubmatch(css, -1) {
			colour[m[1]] = m[2]
		}
		if len(colour) != looks+5 {
			t.Errorf("%s: %d variables", name, len(colour))
		}
		for v, hex := range colour {
			least := 3.0
			switch v {
			case "bg", "grid":
				continue
			case "ink", "soft", "rule":
				least = 4.5
			}
			a, b := luminance(hex), luminance(colour["bg"])
			if ratio := (math.Max(a, b) + 0.05) / (math.Min(a, b) + 0.05); ratio < least {
				t.Errorf("%s: --lc-%s %s stands out by %.2f, want %.1f", name, v, hex, ratio, least)
			}
		}
	}
}

// luminance of a colour as the WCAG define it.
func luminance(hex string) float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		if err != nil {
			panic(fmt.Sprint(hex, err))
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// TestLength: units stand apart from their figures, and what is nought is not said.
func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 20 * time.Microsecond: "0.1 ms", 7460 * time.Microsecond: "7.5 ms", 300 * time.Millisecond: "300 ms", 999_960 * time.Microsecond: "1 s",
		30_620 * time.Millisecond: "30.6 s", 59_960 * time.Millisecond: "1 min", 126 * time.Second: "2 min 6 s", 71 * time.Minute: "1 h 11 min",
		time.Hour + 71*time.Second: "1 h 1 min 11 s", 24 * time.Hour: "24 h", time.Hour + time.Second: "1 h 1 s", -time.Minute: "−1 min",
	} {
		if got := Length(d); got != want {
			t.Errorf("%s: %q, not %q", d, got, want)
		}
	}
}

// TestAbout: an estimate has no more digits than it knows.
func TestAbout(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 12: "12", 999: "999", 9_666: "9,670", 120_778: "121,000", 34e6: "34,000,000"} {
		if got := About(v); got != want {
			t.Errorf("%g: %q, not %q", v, got, want)
		}
	}
}

// TestMoney: dollars as everywhere, commas between thousands.
func TestMoney(t *testing.T) {
	for v, want := range map[float64]string{1.408: "$1.41", 0: "$0.00", 1408: "$1,408.00", -2: "−$2.00", 1234567.891: "$1,234,567.89"} {
		if got := Money(v, 2); got != want {
			t.Errorf("%g: %q, not %q", v, got, want)
		}
	}
	if got := Money(1.408, 3); got != "$1.408" {
		t.Error(got)
	}
}

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/openloop"
	"loadline/internal/sim"
)

func at(v float64) *float64 { return &v }

// whole is records of every kind: the published ones, and what would follow from them.
func whole(t *testing.T) Records {
	t.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("../artifact/testdata/published", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	q, err := artifact.ReadQMax(read("qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json"))
	if err != nil {
		t.Fatal(err)
	}
	grown, err := artifact.ReadTTotal(read("ttotal-kokoro-82m-force-desired-g5xlarge-8b1b96bc.json"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	header := func(schema, run string) artifact.Header {
		return artifact.Header{Schema: schema, RunID: run, CreatedAt: now, Tool: "tts-bench v1", Target: q.Target, Fingerprint: q.Fingerprint}
	}
	rates := &artifact.Rates{Header: header(artifact.SchemaRates, "RATES"), SLOMS: 3000, Percentile: 95, SLOOn: "first-audio", Seed: 7}
	rates.Mu.Value = 17.9
	for i, share := range []float64{0.5, 0.7, 0.9, 0.95} {
		rates.Rungs = append(rates.Rungs, openloop.Rung{Index: i, Share: share, Rate: share * 17.9, Samples: 1000, OK: 1000, Late: 10 * i,
			P95: at(100 + 400*share), P95Low: at(90 + 390*share), P95High: at(110 + 410*share), Mean: share / (1 - share), Predicted: at(share / (1 - share)), Verdict: "pass", Valid: i < 3, Cause: "the client was the limit"})
	}
	plan := &artifact.Plan{Header: header(artifact.SchemaPlan, "PLAN"), Rule: capacity.RuleFlow, Verdict: capacity.Warn,
		Scenario: capacity.Scenario{PeakRPS: 5000, SurgeRatio: 1.25},
		Slots:    capacity.Rule{Defined: true, Peak: 9, Min: 1, Max: 9, FleetRPS: 161, PeakRPS: 5000, Verdict: capacity.Stop},
		Flow: capacity.Rule{Defined: true, Peak: 387, Min: 1, Max: 484, FleetRPS: 6927, PeakRPS: 5000, Rho: at(0.722), LambdaStar: at(12.9), Binding: capacity.BoundVariance, Verdict: capacity.Warn,
			Cost: capacity.Money{Peak: at(544.9)}},
		Findings: []capacity.Finding{
			{Name: "fleet_throughput", Verdict: capacity.Warn, Detail: `a "<fleet>" & more`, Recommendation: "read on"},
			{Name: "quota", Verdict: "not_checked", Detail: "not known"}, {Name: "slo_budget", Verdict: capacity.OK, Detail: "fits"}},
		Surge: &artifact.PlanSurge{Ratio: 1.25, LengthS: 660,
			Slots: &artifact.SurgeOutcome{Candidate: "published", Instances: 9, Usual: &artifact.SurgeFigures{BadShare: 0.97, P95: 6.6, InstanceHours: 13}, Why: "97 % late or not served in the surge"},
			Flow:  &artifact.SurgeOutcome{Candidate: "both, steps", Instances: 387, Holds: true, Usual: &artifact.SurgeFigures{P95: 0.3, InstanceHours: 600}, Worst: &artifact.SurgeFigures{}, Why: "the cheapest that holds"}},
	}
	simulated := &artifact.Simulation{Header: header(artifact.SchemaSimulation, "SIM"), Shape: "surge", SLO: 3}
	for i, label := range []string{"slots", "flow"} {
		run := artifact.SimulationRun{Label: label}
		run.Result = sim.Result{Mode: sim.ModeFluid, Workload: sim.Workload{Name: "surge", Seed: 1, DurationS: 600, PeakRPS: 6250, Digest: "d"}, InstanceHours: 9 + 378*float64(i), PeakInstances: 9 + 378*i, P95: 0.3,
			Offered: 3e6, Completed: 3e6, Changes: []sim.Change{{At: 120, From: 9, To: 12, Policy: "loadline-rate", Cause: "alarm", Status: "Successful"}}}
		for k := range 60 {
			run.Timeline = append(run.Timeline, sim.Point{At: float64(10 * k), Offered: 5000, Instances: float64(9 + k), Desired: 9 + k, Completed: 50000, Late: float64(100 * k), P95: 0.2 + float64(k)/100})
		}
		simulated.Runs = append(simulated.Runs, run)
	}
	return Records{
		QMax: []Filed[*artifact.QMax]{{"qmax.json", q}}, Rates: []Filed[*artifact.Rates]{{"rates.json", rates}}, TTotal: []Filed[*artifact.TTotal]{{"ttotal.json", grown}},
		Plans: []Filed[*artifact.Plan]{{"plan.json", plan}}, Simulations: []Filed[*artifact.Simulation]{{"simulation.json", simulated}},
	}
}

func TestPageIsTheSame(t *testing.T) {
	a, err := Page(whole(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Page(whole(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("two pages of the same records differ")
	}
	if len(a) >= 1e6 {
		t.Errorf("the page has %d bytes", len(a))
	}
	if m := regexp.MustCompile(`(?i)<script|https?://[^"]*|url\((?:[^#)])[^)]*\)`).FindAll(bytes.ReplaceAll(a, []byte("http://www.w3.org/2000/svg"), nil), -1); m != nil {
		t.Errorf("the page loads or runs something: %q", m)
	}
	if _, err := Page(Records{}); err == nil {
		t.Error("a page of nothing was made")
	}
}

// TestPageSays holds the page to the figures of its records, and to naming where each comes from.
func TestPageSays(t *testing.T) {
	data, err := Page(whole(t))
	if err != nil {
		t.Fatal(err)
	}
	text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(data), "\x00"))
	text = regexp.MustCompile(`[\x00\s]+`).ReplaceAllString(text, " ")
	for _, want := range []string{
		"kokoro-82m on ml.g5.xlarge", "One instance holds 50 requests at once", "More capacity takes 260 s from the call", "At a peak of 5,000 requests a second that takes 387 instances by the flow rule; the plan's verdict is warn.",
		"field q_max", "record qmax.json", "run PLAN", "The difference is the probe's own warm-up",
		"not valid: the client was the limit", "$544.90 an hour", `a "<fleet>" & more`, "NOT CHECKED", "97 % late or not served in the surge",
		"tts-bench apply --plan plan.json",
	} {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "%!") || strings.Contains(text, "<nil>") {
		t.Error("the page holds a figure that was not formatted")
	}
}

// TestPageOfEachKind renders every record alone: none may need another.
func TestPageOfEachKind(t *testing.T) {
	r := whole(t)
	for name, one := range map[string]Records{"qmax": {QMax: r.QMax}, "rates": {Rates: r.Rates}, "ttotal": {TTotal: r.TTotal}, "plan": {Plans: r.Plans}, "simulation": {Simulations: r.Simulations}} {
		if data, err := Page(one); err != nil || !bytes.Contains(data, []byte("What to do next")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := Records{QMax: append(r.QMax, r.QMax...)}
	data, err := Page(twice)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllSubmatch(data, -1) {
		if seen[string(m[1])] {
			t.Errorf("two elements have the id %s", m[1])
		}
		seen[string(m[1])] = true
	}
}

// look is a page that holds the report in a frame as wide as a screen or a phone, and writes down what it sees there.
const look = `<!doctype html><body><pre id="seen"></pre><iframe id="f" src="/report" style="border:0;height:900px;width:%dpx"></iframe><script>
document.getElementById('f').onload = e => {
  const d = e.target.contentDocument, w = e.target.contentWindow, shown = s => w.getComputedStyle(s.parentElement).display !== 'none'
  const light = c => { const p = c.match(/[\d.]+/g).map(Number).map(v => v/255).map(v => v <= .03928 ? v/12.92 : ((v+.055)/1.055)**2.4); return .2126*p[0]+.7152*p[1]+.0722*p[2] }
  const contrast = (a, b) => { const x = light(a), y = light(b); return (Math.max(x,y)+.05)/(Math.min(x,y)+.05) }
  const back = w.getComputedStyle(d.body).backgroundColor
  document.getElementById('seen').textContent = JSON.stringify({
    title: d.title, overflow: d.documentElement.scrollWidth - d.documentElement.clientWidth, dark: light(back) < .2,
    contrast: Math.min(...[...d.querySelectorAll('p,h1,h2,td,th,.name,.value,.note,summary,a,.word')].filter(x => !x.classList.contains('skip')).map(x => contrast(w.getComputedStyle(x).color, back))),
    charts: [...d.querySelectorAll('figure svg')].filter(shown).map(s => ({id: s.id || s.getAttribute('aria-labelledby'), named: s.querySelector('title').textContent !== '' && s.querySelector('desc').textContent !== '',
      marks: [...s.querySelectorAll('path.s,circle,rect[stroke],rect.s,path')].filter(m => { const b = m.getBBox(); return b.width + b.height > 0 }).length,
      width: s.getBoundingClientRect().width, font: 12 * s.getBoundingClientRect().width / s.viewBox.baseVal.width})),
    focus: d.querySelectorAll('a[href],summary').length, unnamed: [...d.querySelectorAll('a,summary')].filter(x => !x.textContent.trim()).length,
    headings: [...d.querySelectorAll('h1,h2')].length})
}</script>`

type seen struct {
	Title    string
	Overflow int
	Dark     bool
	Contrast float64
	Charts   []struct {
		ID    string
		Named bool
		Marks int
		Width float64
		Font  float64
	}
	Focus, Unnamed, Headings int
}

// TestPageInBrowser opens the page in Chromium, as wide as a screen, as a phone and in the dark.
func TestPageInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not on this machine: make setup installs it")
	}
	page, err := Page(whole(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		width int
		dark  bool
	}{{"screen", 1100, false}, {"phone", 375, false}, {"dark", 1100, true}} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.URL.Path)
				mu.Unlock()
				switch r.URL.Path {
				case "/":
					fmt.Fprintf(w, look, c.width)
				case "/report":
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					w.Write(page)
				default:
					http.NotFound(w, r)
				}
			}))
			defer server.Close()
			args := []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
				"--disable-sync", "--enable-logging=stderr", "--user-data-dir=" + t.TempDir(), "--window-size=1300,1000", "--virtual-time-budget=20000"}
			if c.dark {
				args = append(args, "--blink-settings=preferredColorScheme=0")
			} else {
				args = append(args, "--blink-settings=preferredColorScheme=1")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var said bytes.Buffer
			cmd := exec.CommandContext(ctx, browser, append(args, "--dump-dom", server.URL+"/")...)
			cmd.Stderr = &said
			cmd.WaitDelay = 5 * time.Second
			out, err := cmd.Output()
			if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
				t.Fatalf("chromium: %v\n%s", err, said.String())
			}
			m := regexp.MustCompile(`(?s)<pre id="seen">(.+?)</pre>`).FindSubmatch(out)
			if m == nil {
				t.Fatalf("the page was not seen: %.600s\n%s", out, said.String())
			}
			var s seen
			if err := json.Unmarshal([]byte(html.UnescapeString(string(m[1]))), &s); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(said.String()) {
				if strings.Contains(line, "CONSOLE") && !strings.Contains(line, "favicon") {
					t.Errorf("the console: %s", line)
				}
			}
			for _, path := range asked {
				if path != "/" && path != "/report" && path != "/favicon.ico" {
					t.Errorf("the page asked for %s", path)
				}
			}
			if s.Title == "" || s.Headings < 6 || s.Focus < 10 || s.Unnamed > 0 {
				t.Errorf("title %q, %d headings, %d to focus, %d of them without a name", s.Title, s.Headings, s.Focus, s.Unnamed)
			}
			if s.Overflow > 0 {
				t.Errorf("the page is %d pixels wider than the %s", s.Overflow, c.name)
			}
			if s.Dark != c.dark || s.Contrast < 4.5 {
				t.Errorf("dark %t, least contrast %.1f", s.Dark, s.Contrast)
			}
			if len(s.Charts) != 4 {
				t.Errorf("%d charts are shown, want 4", len(s.Charts))
			}
			for _, f := range s.Charts {
				if !f.Named || f.Marks < 4 || f.Width < 250 || f.Font < 10 {
					t.Errorf("%s: named %t, %d marks, %.0f pixels wide, text of %.1f pixels", f.ID, f.Named, f.Marks, f.Width, f.Font)
				}
			}
		})
	}
}

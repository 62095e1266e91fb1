package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
	"loadline/internal/chart"
)

// Records is what a page tells of: records as they were read, with the names of their files. Of a kind that can be
// compared there may be several; the first QMax, TTotal, Plan gives the figures at the head.
type Records struct {
	QMax        []Filed[*artifact.QMax]
	Rates       []Filed[*artifact.Rates]
	TTotal      []Filed[*artifact.TTotal]
	Plans       []Filed[*artifact.Plan]
	Simulations []Filed[*artifact.Simulation]
}

// Filed is a record and the name of its file, as the reader should find it.
type Filed[T any] struct {
	File   string
	Record T
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Page is the records as one HTML document: no script, nothing loaded, the same bytes for the same records. It is an error
// to have no record.
func Page(r Records) ([]byte, error) {
	p := &page{}
	p.records(r)
	if len(p.Records.Rows) == 0 {
		return nil, errors.New("report: there is no record to tell of")
	}
	for i, q := range r.QMax {
		p.ladder(q, i)
	}
	for i, o := range r.Rates {
		p.openLoop(o, i)
	}
	for i, t := range r.TTotal {
		p.scaleOut(t, i)
	}
	for i, f := range r.Plans {
		p.plan(f, i)
	}
	for i, s := range r.Simulations {
		p.simulation(s, i)
	}
	p.head(r)
	p.next(r)
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// page is what the template shows.
type page struct {
	Title, Lede string
	Cards       []card
	Sections    []*section
	Findings    []finding
	Next        []advice
	Records     table
}

// card is one figure and where it comes from.
type card struct {
	Name, Value, Note string
	From              source
}

// source is where a figure comes from: a field of a record, and how the record had it.
type source struct{ Field, How, File, Run string }

type section struct {
	ID, Title string
	Text      []string
	Charts    []drawn
	Tables    []table
}

// drawn is a chart twice: for a screen, and for a phone.
type drawn struct {
	Wide, Narrow template.HTML
	Caption      string
}

type table struct {
	Caption string
	Label   string // read out, of a table that may scroll
	Folded  bool
	Heads   []column
	Rows    [][]string
}

type column struct {
	Name   string
	Number bool
}

type finding struct{ Class, Word, Name, Detail, Advice string }

type advice struct{ Say, Command string }

// narrow is the width of a chart on a phone, in pixels.
const narrow = 350

func drawnFigure(f chart.Figure, caption string) drawn {
	wide := f.SVG()
	f.ID, f.Width = f.ID+"-narrow", narrow
	return drawn{template.HTML(wide), template.HTML(f.SVG()), caption}
}

func drawnBar(b chart.Bar, caption string) drawn {
	wide := b.SVG()
	b.ID, b.Width = b.ID+"-narrow", narrow
	return drawn{template.HTML(wide), template.HTML(b.SVG()), caption}
}

// heads of a table: a name with a leading # is of a column of numbers.
func heads(names ...string) (cols []column) {
	for _, n := range names {
		name, number := strings.CutPrefix(n, "#")
		cols = append(cols, column{name, number})
	}
	return cols
}

func (p *page) section(id, title string, i int) *section {
	if i > 0 {
		id, title = fmt.Sprintf("%s-%d", id, i+1), fmt.Sprintf("%s (%d)", title, i+1)
	}
	s := &section{ID: id, Title: title}
	p.Sections = append(p.Sections, s)
	return s
}

func (p *page) records(r Records) {
	t := table{Label: "records", Heads: heads("file", "run", "measured", "by")}
	add := func(file string, h artifact.Header) {
		at := ""
		if !h.CreatedAt.IsZero() {
			at = h.CreatedAt.UTC().Format("2006-01-02 15:04 UTC")
		}
		t.Rows = append(t.Rows, []string{file, h.RunID, at, cmp.Or(h.Tool, "the published toolchain")})
	}
	for _, f := range r.QMax {
		add(f.File, f.Record.Header)
	}
	for _, f := range r.Rates {
		add(f.File, f.Record.Header)
	}
	for _, f := range r.TTotal {
		add(f.File, f.Record.Header)
	}
	for _, f := range r.Plans {
		add(f.File, f.Record.Header)
	}
	for _, f := range r.Simulations {
		add(f.File, f.Record.Header)
	}
	p.Records = t
}

// head names the page and says the main thing in a sentence or two.
func (p *page) head(r Records) {
	target, print := artifact.Target{}, artifact.Fingerprint{} // of the first record that knows its model
	of := func(h artifact.Header) {
		if target.Model == "" {
			target, print = h.Target, h.Fingerprint
		}
	}
	var lede []string
	if len(r.QMax) > 0 {
		q := r.QMax[0].Record
		of(q.Header)
		if q.QMax != nil {
			lede = append(lede, fmt.Sprintf("One instance holds %s requests at once with %s of %s within %s.", count(*q.QMax), percentile(q.Percentile), mark(q.SLOOn), millis(q.SLOMS)))
		} else {
			lede = append(lede, "No concurrency was certified: "+cmp.Or(q.Reason, "no rung met the objective")+".")
		}
	}
	if len(r.TTotal) > 0 {
		t := r.TTotal[0].Record
		of(t.Header)
		lede = append(lede, fmt.Sprintf("More capacity takes %s%s from the call.", atLeast(t.Bounded), secondsOf(t.TTotal)))
	}
	if len(r.Plans) > 0 {
		f := r.Plans[0].Record
		of(f.Header)
		rule := f.Selected()
		peak := "the peak"
		if f.Scenario.PeakRPS > 0 {
			peak = "a peak of " + number(f.Scenario.PeakRPS) + " requests a second"
		}
		lede = append(lede, fmt.Sprintf("At %s that takes %s by the %s rule; the plan's verdict is %s.", peak, instances(rule.Peak), f.Rule, f.Verdict))
	}
	for _, s := range r.Simulations {
		of(s.Record.Header)
	}
	for _, o := range r.Rates {
		of(o.Record.Header)
	}
	p.Title = cmp.Or(target.Model, target.Endpoint, target.URL, "Simulated fleet")
	if print.InstanceType != "" {
		p.Title += " on " + print.InstanceType
	}
	p.Lede = strings.Join(lede, " ")
}

// next is what the records ask for: the worst finding first, then the step of the chain that has no record yet.
func (p *page) next(r Records) {
	add := func(say, command string) { p.Next = append(p.Next, advice{say, command}) }
	file := func() string {
		if len(r.QMax) > 0 {
			return r.QMax[0].File
		}
		return "QMAX"
	}()
	if len(r.QMax) > 0 && r.QMax[0].Record.QMax == nil {
		add("Nothing was certified, so nothing can be planned: "+cmp.Or(r.QMax[0].Record.Reason, "read the rungs above")+".", "")
	}
	for _, f := range r.Plans {
		if f.Record.Verdict == capacity.Stop {
			add("The plan is stopped. Mend what its findings name; apply refuses it until then.", "")
			break
		}
	}
	switch {
	case len(r.QMax) == 0 && len(r.Plans) == 0 && len(r.Simulations) == 0:
		add("Measure what one instance holds.", "tts-bench qmax --endpoint NAME")
	case len(r.TTotal) == 0 && len(r.Plans) == 0 && len(r.QMax) > 0:
		add("Measure how long more capacity takes.", "tts-bench ttotal --qmax "+file)
	case len(r.Plans) == 0 && len(r.QMax) > 0 && len(r.TTotal) > 0:
		add("Turn both into a plan.", fmt.Sprintf("tts-bench plan --qmax %s --ttotal %s --peak-rps N", file, r.TTotal[0].File))
	case len(r.Plans) > 0 && len(r.Simulations) == 0:
		add("See what its policies do before they are paid for.", "tts-bench simulate --plan "+r.Plans[0].File+" --rule both --shape surge")
	}
	if len(r.Rates) == 0 && len(r.QMax) > 0 && r.QMax[0].Record.QMax != nil {
		add("A closed loop cannot see what callers who do not wait for each other see. Confirm the rates open loop.", "tts-bench rates --qmax "+file)
	}
	if len(r.Plans) > 0 && r.Plans[0].Record.Verdict != capacity.Stop {
		add("Put the plan in place, and read back that it is.", "tts-bench apply --plan "+r.Plans[0].File+"\ntts-bench validate --plan "+r.Plans[0].File)
	}
	if len(p.Next) == 0 {
		add("Nothing: the records ask for no further step.", "")
	}
}

// findingsOf are a rule's findings as the page shows them, the worst first, as the plan orders them.
func findingsOf(all []capacity.Finding) (out []finding) {
	for _, f := range all {
		class := "none"
		switch f.Verdict {
		case capacity.Stop, capacity.Warn, capacity.OK:
			class = string(f.Verdict)
		}
		word := words(string(f.Verdict))
		if f.Accepted {
			word += ", accepted"
		}
		out = append(out, finding{Class: class, Word: word, Name: f.Name, Detail: f.Detail, Advice: f.Recommendation})
	}
	return out
}

// figures adds cards that come from one record.
func (p *page) figures(file, run string, cards ...card) {
	for _, c := range cards {
		if slices.ContainsFunc(p.Cards, func(have card) bool { return have.Name == c.Name }) {
			continue // the first record of a kind is the one that heads the page
		}
		c.From.File, c.From.Run = file, run
		p.Cards = append(p.Cards, c)
	}
}

func instances(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return number(float64(n)) + " instances"
}

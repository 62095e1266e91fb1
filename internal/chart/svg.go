package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// looks is how many series are told apart by colour, dashes and marker together.
const looks = 6

// dashes of the series: the first is solid.
var dashes = [looks]string{"", "7 4", "2 3", "10 3 2 3", "5 2", "1 4"}

// Style is the style sheet that every figure carries. A page may override the variables on any ancestor.
const Style = `.lc{--lc-bg:#ffffff;--lc-ink:#1b1f24;--lc-soft:#57606a;--lc-grid:#d8dee4;--lc-rule:#a40e26;` +
	`--lc-1:#0550ae;--lc-2:#b14400;--lc-3:#116329;--lc-4:#6e40c9;--lc-5:#7d4e00;--lc-6:#a0286a;` +
	`background:var(--lc-bg);color:var(--lc-ink);font:12px system-ui,sans-serif;max-width:100%;height:auto}` +
	`@media(prefers-color-scheme:dark){.lc{--lc-bg:#0d1117;--lc-ink:#e6edf3;--lc-soft:#9da7b1;--lc-grid:#30363d;--lc-rule:#ff8182;` +
	`--lc-1:#79c0ff;--lc-2:#ffa657;--lc-3:#56d364;--lc-4:#d2a8ff;--lc-5:#e3b341;--lc-6:#f778ba}}` +
	`.lc text{fill:var(--lc-ink)}.lc .soft{fill:var(--lc-soft)}.lc .head{font-weight:600;font-size:14px}` +
	`.lc .end{text-anchor:end}.lc .mid{text-anchor:middle}.lc .grid{stroke:var(--lc-grid);fill:none}` +
	`.lc .frame{stroke:var(--lc-soft);fill:none}.lc .rule{stroke:var(--lc-rule);stroke-width:1.5;stroke-dasharray:6 3;fill:none}` +
	`.lc .says{fill:var(--lc-rule)}.lc .rug{stroke:var(--lc-ink);stroke-width:1.5}.lc .s{fill:none;stroke-width:1.8}.lc .bg{fill:var(--lc-bg)}` +
	`.lc .halo{paint-order:stroke;stroke:var(--lc-bg);stroke-width:3px;stroke-linejoin:round}`

// page is an SVG document under construction.
type page struct{ strings.Builder }

func (p *page) put(format string, a ...any) { fmt.Fprintf(p, format, a...) }

// px is a coordinate, to a tenth of a pixel.
func px(v float64) string {
	s := strconv.FormatFloat(v, 'f', 1, 64)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func esc(s string) string {
	return escaper.Replace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return ' ' // XML has no such characters
		}
		return r
	}, strings.ToValidUTF8(s, "�")))
}

// begin opens the document with what a screen reader reads.
func (p *page) begin(id, title, desc string, left, width, height float64) {
	p.put(`<svg xmlns="http://www.w3.org/2000/svg" class="lc" role="img" aria-labelledby="%[1]s-t %[1]s-d" viewBox="0 0 %[2]s %[3]s" width="%[2]s" height="%[3]s">`,
		esc(id), px(width), px(height))
	p.put("\n<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n<style>%s</style>\n", esc(id), esc(title), esc(id), esc(desc), Style)
	p.put("<rect class=\"bg\" width=\"%s\" height=\"%s\"/>\n", px(width), px(height))
	p.text(left, 20, "head", title)
}

func (p *page) text(x, y float64, class, s string) {
	p.put("<text x=\"%s\" y=\"%s\" class=\"%s\">%s</text>\n", px(x), px(y), class, esc(s))
}

func (p *page) line(class string, x1, y1, x2, y2 float64) {
	p.put("<path class=\"%s\" d=\"M%s %sL%s %s\"/>\n", class, px(x1), px(y1), px(x2), px(y2))
}

func textWidth(s string) float64 { return charWidth * float64(len([]rune(s))) }

// SVG draws the figure.
func (f Figure) SVG() string {
	width := orDefault(f.Width, defaultWidth)
	in := width - padLeft - padRight
	xs := newSpan(f.X, f.eachX)
	if f.X.Min == nil && !f.X.Log { // what is plotted over time begins where the data do
		lo := math.Inf(1)
		f.eachX(func(v float64) { lo = math.Min(lo, v) })
		if !math.IsInf(lo, 0) && lo < xs.hi {
			xs.lo = lo
		}
	}
	height := float64(titleHeight)
	legends := make([][][]int, len(f.Panels))
	for i, pn := range f.Panels {
		legends[i] = pn.legend(in)
		height += float64(len(legends[i]))*legendLine + orDefault(pn.Height, defaultHeight) + panelGap
		if i == 0 {
			height += 4
		}
		if len(pn.Rug) > 0 {
			height += rugHeight
		}
	}
	height += axisHeight - panelGap

	p := &page{}
	p.begin(f.ID, f.Title, f.Desc, padLeft, width, height)
	y := float64(titleHeight) + 4
	most := int(in / 90)
	for i, pn := range f.Panels {
		y = p.legend(pn, legends[i], y)
		h := orDefault(pn.Height, defaultHeight)
		box := frame{x: padLeft, y: y, w: in, h: h, xs: xs}
		p.panel(pn, box, f.X, most)
		y += h
		if len(pn.Rug) > 0 {
			p.rug(pn.Rug, box)
			y += rugHeight
		}
		if i == len(f.Panels)-1 {
			step := 0.0
			if !xs.log {
				step = stepOf(f.X.Kind, xs.hi-xs.lo, most)
			}
			for _, v := range xs.ticks(f.X.Kind, most) {
				p.text(padLeft+in*xs.at(v), y+15, "soft mid", label(f.X.Kind, v, step))
			}
			p.text(padLeft+in/2, y+32, "mid", f.X.Label)
		}
		y += panelGap
	}
	p.put("</svg>\n")
	return p.String()
}

func (f Figure) eachX(yield func(float64)) {
	for _, pn := range f.Panels {
		for _, s := range pn.Series {
			for _, pt := range s.Points {
				yield(pt.X)
			}
		}
		for _, r := range pn.Rules {
			if r.Upright {
				yield(r.At)
			}
		}
		for _, t := range pn.Rug {
			yield(t.X)
		}
	}
}

func (pn Panel) eachY(yield func(float64)) {
	for _, s := range pn.Series {
		for _, pt := range s.Points {
			yield(pt.Y)
			if pt.Low != pt.High {
				yield(pt.Low)
				yield(pt.High)
			}
		}
	}
	for _, r := range pn.Rules {
		if !r.Upright {
			yield(r.At)
		}
	}
}

// legend is which series stand on which line.
func (pn Panel) legend(width float64) [][]int {
	var lines [][]int
	x := width + 1
	for i, s := range pn.Series {
		w := 34 + textWidth(s.Name) + 14
		if x+w > width {
			lines, x = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], i)
		x += w
	}
	return lines
}

func (p *page) legend(pn Panel, lines [][]int, y float64) float64 {
	for _, line := range lines {
		x := float64(padLeft)
		for _, i := range line {
			s := pn.Series[i]
			if s.Kind != Points {
				p.put("<path class=\"s\" %s d=\"M%s %sh28\"/>\n", stroke(i), px(x), px(y+6))
			}
			p.mark(i, x+14, y+6)
			p.text(x+34, y+10, "", s.Name)
			x += 34 + textWidth(s.Name) + 14
		}
		y += legendLine
	}
	return y
}

func stroke(i int) string {
	s := fmt.Sprintf(`stroke="var(--lc-%d)"`, i%looks+1)
	if d := dashes[i%looks]; d != "" {
		s += ` stroke-dasharray="` + d + `"`
	}
	return s
}

// mark is the marker of the i-th series: a shape of its own.
func (p *page) mark(i int, x, y float64) {
	d := ""
	switch i % looks {
	case 0:
		d = fmt.Sprintf("M%s %sa3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z", px(x-3.5), px(y))
	case 1:
		d = fmt.Sprintf("M%s %sh7v7h-7z", px(x-3.5), px(y-3.5))
	case 2:
		d = fmt.Sprintf("M%s %sl4 7h-8z", px(x), px(y-4))
	case 3:
		d = fmt.Sprintf("M%s %sl4.5 4.5l-4.5 4.5l-4.5 -4.5z", px(x), px(y-4.5))
	case 4:
		d = fmt.Sprintf("M%s %sl4 -7h-8z", px(x), px(y+4))
	case 5:
		d = fmt.Sprintf("M%s %sh3v-3h2v3h3v2h-3v3h-2v-3h-3z", px(x-4), px(y-1))
	}
	p.put("<path fill=\"var(--lc-%d)\" d=\"%s\"/>\n", i%looks+1, d)
}

// frame is where a panel lies.
type frame struct {
	x, y, w, h float64
	xs, ys     span
}

func (b frame) px(x float64) float64 { return b.x + b.w*b.xs.at(x) }
func (b frame) py(y float64) float64 { return b.y + b.h*(1-b.ys.at(y)) }

func (p *page) panel(pn Panel, b frame, x Axis, most int) {
	rows := max(2, int(b.h/34))
	b.ys = newSpan(pn.Y, pn.eachY).rounded(pn.Y, rows)
	step := 0.0
	if !b.ys.log {
		step = stepOf(pn.Y.Kind, b.ys.hi-b.ys.lo, rows)
	}
	for _, v := range b.ys.ticks(pn.Y.Kind, rows) {
		p.line("grid", b.x, b.py(v), b.x+b.w, b.py(v))
		p.text(b.x-7, b.py(v)+4, "soft end", label(pn.Y.Kind, v, step))
	}
	for _, v := range b.xs.ticks(x.Kind, most) {
		p.line("grid", b.px(v), b.y, b.px(v), b.y+b.h)
	}
	p.put("<rect class=\"frame\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n", px(b.x), px(b.y), px(b.w), px(b.h))
	p.put("<text transform=\"translate(13 %s) rotate(-90)\" class=\"mid\">%s</text>\n", px(b.y+b.h/2), esc(pn.Y.Label))
	for i, s := range pn.Series {
		p.series(i, s, b)
	}
	for _, r := range pn.Rules {
		if r.Upright {
			at := b.px(r.At)
			p.line("rule", at, b.y, at, b.y+b.h)
			if at+8+textWidth(r.Label) > b.x+b.w {
				p.text(at-5, b.y+13, "says halo end", r.Label)
			} else {
				p.text(at+5, b.y+13, "says halo", r.Label)
			}
			continue
		}
		at := b.py(r.At)
		p.line("rule", b.x, at, b.x+b.w, at)
		above := at - 5
		if above < b.y+10 {
			above = at + 13
		}
		if pn.uprightBeyond(b, b.x+b.w-10-textWidth(r.Label)) {
			p.text(b.x+5, above, "says halo", r.Label)
			continue
		}
		p.text(b.x+b.w-5, above, "says halo end", r.Label)
	}
}

// uprightBeyond is whether an upright threshold lies where the label of a level one would be drawn.
func (pn Panel) uprightBeyond(b frame, x float64) bool {
	for _, r := range pn.Rules {
		if r.Upright && b.px(r.At) > x-textWidth(r.Label) {
			return true
		}
	}
	return false
}

// series draws one course. Of more points than pixels, each column keeps its first, lowest, highest and last.
func (p *page) series(i int, s Series, b frame) {
	pts := thinned(s.Points, b)
	if s.Kind != Points {
		var d strings.Builder
		open, level := false, "" // level: where a run of equal values has come to
		at, lastY := "", ""
		flush := func() {
			if level != "" {
				d.WriteString("H" + level)
				level = ""
			}
		}
		for _, pt := range pts {
			if math.IsNaN(pt.Y) {
				flush()
				open = false
				continue
			}
			x, y := px(b.px(pt.X)), px(b.py(pt.Y))
			switch {
			case !open:
				d.WriteString("M" + x + " " + y)
			case y == lastY:
				if x != at {
					level = x
				}
			case s.Kind == Step:
				level = ""
				d.WriteString("H" + x + "V" + y)
			default:
				flush()
				d.WriteString("L" + x + " " + y)
			}
			open, at, lastY = true, x, y
		}
		flush()
		if d.Len() > 0 {
			p.put("<path class=\"s\" %s d=\"%s\"/>\n", stroke(i), d.String())
		}
	}
	few := len(pts) <= 40
	spaced := math.Inf(-1)
	for _, pt := range pts {
		if math.IsNaN(pt.Y) {
			continue
		}
		x, y := b.px(pt.X), b.py(pt.Y)
		if pt.Low != pt.High && !math.IsNaN(pt.Low) && !math.IsNaN(pt.High) {
			p.put("<path class=\"s\" stroke=\"var(--lc-%d)\" d=\"M%s %sh6m-3 0V%sm-3 0h6\"/>\n", i%looks+1, px(x-3), px(b.py(pt.Low)), px(b.py(pt.High)))
		}
		// A long course carries its marker now and then, the series out of step with each other.
		if few || s.Kind == Points || x-spaced > b.w/8 && x > b.x+float64(i)*b.w/40 {
			p.mark(i, x, y)
			spaced = x
		}
	}
}

func thinned(pts []Point, b frame) []Point {
	if float64(len(pts)) <= 2*b.w {
		return pts
	}
	var out []Point
	for from := 0; from < len(pts); {
		col := math.Floor(b.px(pts[from].X))
		to, lo, hi := from, from, from
		for ; to < len(pts) && math.Floor(b.px(pts[to].X)) == col; to++ {
			if pts[to].Y < pts[lo].Y {
				lo = to
			}
			if pts[to].Y > pts[hi].Y {
				hi = to
			}
		}
		last := -1
		for _, k := range []int{from, min(lo, hi), max(lo, hi), to - 1} {
			if k > last {
				out, last = append(out, pts[k]), k
			}
		}
		from = to
	}
	return out
}

// rug marks events under a panel; a mark that is named has its label read out.
func (p *page) rug(ticks []Tick, b frame) {
	y := b.y + b.h
	end := math.Inf(-1)
	for _, t := range ticks {
		x := b.px(t.X)
		p.put("<path class=\"rug\" d=\"M%s %sv%d\"><title>%s</title></path>\n", px(x), px(y+1), rugHeight-3, esc(t.Label))
		if w := textWidth(t.Label); t.Shown && x+3 > end && x+3+w < b.x+b.w {
			p.text(x+3, b.y+b.h-4, "halo", t.Label)
			end = x + 3 + w
		}
	}
}

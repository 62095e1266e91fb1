package chart

import (
	"fmt"
	"math"
)

const barHeight = 34

// SVG draws the bar and, under it, the list of its parts.
func (s Bar) SVG() string {
	width := orDefault(s.Width, defaultWidth)
	const left = padRight
	in := width - left - padRight
	total := 0.0
	for _, part := range s.Parts {
		if part.Value > 0 {
			total += part.Value
		}
	}
	rows := float64(len(s.Parts) + 1)
	height := titleHeight + 8 + barHeight + 14 + rows*legendLine + 8
	p := &page{}
	p.begin(s.ID, s.Title, s.Desc, left, width, height)
	p.put("<defs>\n")
	for i := range min(looks, len(s.Parts)) {
		p.put("<pattern id=\"%s-p%d\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect width=\"8\" height=\"8\" fill=\"var(--lc-%d)\"/>%s</pattern>\n",
			esc(s.ID), i+1, i+1, hatch[i])
	}
	p.put("</defs>\n")
	x, y := float64(left), float64(titleHeight)+8
	for i, part := range s.Parts {
		w := 0.0
		if total > 0 && part.Value > 0 {
			w = in * part.Value / total
		}
		p.put("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%d\" fill=\"url(#%s-p%d)\" stroke=\"var(--lc-bg)\"><title>%s</title></rect>\n",
			px(x), px(y), px(w), barHeight, esc(s.ID), i%looks+1, esc(s.says(part, total)))
		if w > 16 {
			p.put("<circle cx=\"%s\" cy=\"%s\" r=\"9\" class=\"bg\"/>\n", px(x+w/2), px(y+barHeight/2))
			p.text(x+w/2, y+barHeight/2+4, "mid", fmt.Sprint(i+1))
		}
		x += w
	}
	y += barHeight + 14
	for i, part := range s.Parts {
		p.put("<rect x=\"%s\" y=\"%s\" width=\"14\" height=\"12\" fill=\"url(#%s-p%d)\"/>\n", px(left), px(y), esc(s.ID), i%looks+1)
		p.text(left+22, y+10, "", fmt.Sprintf("%d  %s", i+1, s.says(part, total)))
		y += legendLine
	}
	p.text(left+22, y+10, "head", fmt.Sprintf("= %s: %s", s.Total, label(s.Kind, total, s.Step)))
	p.put("</svg>\n")
	return p.String()
}

func (s Bar) says(part Part, total float64) string {
	text := fmt.Sprintf("%s: %s", part.Name, label(s.Kind, part.Value, s.Step))
	if total > 0 {
		text += fmt.Sprintf(" (%.0f %%)", math.Round(100*part.Value/total))
	}
	if part.Note != "" {
		text += ", " + part.Note
	}
	return text
}

// hatch is what tells the parts apart beside their colour.
var hatch = [looks]string{
	"",
	`<path d="M0 8L8 0M-2 2L2 -2M6 10L10 6" stroke="var(--lc-bg)" stroke-width="1.5"/>`,
	`<path d="M0 4h8" stroke="var(--lc-bg)" stroke-width="1.5"/>`,
	`<circle cx="4" cy="4" r="1.6" fill="var(--lc-bg)"/>`,
	`<path d="M4 0v8" stroke="var(--lc-bg)" stroke-width="1.5"/>`,
	`<path d="M0 0L8 8M0 8L8 0" stroke="var(--lc-bg)" stroke-width="1"/>`,
}

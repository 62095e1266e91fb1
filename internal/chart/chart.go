// Package chart draws figures as SVG without scripts: lines, steps, points with intervals, thresholds and rugs over one
// shared x axis (Figure), and a bar whose parts add up (Bar). It decides scales, ticks, layout and how series are told
// apart; what a figure shows is left to its caller.
//
//	f := chart.Figure{
//		ID: "surge", Title: "The fleet in the surge", Desc: "From 9 to 12 instances in 320 s; none late.",
//		X:  chart.Axis{Label: "time", Kind: chart.Seconds},
//		Panels: []chart.Panel{{
//			Y:      chart.Axis{Label: "instances"},
//			Series: []chart.Series{{Name: "in service", Kind: chart.Step, Points: points}},
//		}},
//	}
//	svg := f.SVG() // the same bytes for the same figure
//
// No meaning hangs on colour alone: series differ in dashes and markers too and are named beside the plot, parts of a bar
// differ in hatching. Colours are CSS variables, dark where the reader prefers dark; a page that embeds several figures
// may set the variables itself. The title and the description are what a screen reader reads.
package chart

import (
	"math"
)

// Kind of a series.
type Kind int

// The kinds of series.
const (
	Line   Kind = iota // straight from point to point
	Step               // level until the next point
	Points             // marks alone
)

// Point of a series. A Y that is not a number breaks the line; one beyond the axis is drawn at its edge. Low and High,
// where both are set and differ, are an interval around it.
type Point struct {
	X, Y      float64
	Low, High float64
}

// Series is one named course of points, in order of X.
type Series struct {
	Name   string
	Kind   Kind
	Points []Point
}

// Rule is a threshold: a labelled line across the panel, at a Y, or at an X where Upright is set.
type Rule struct {
	Label   string
	At      float64
	Upright bool
}

// Tick is one event of a panel's rug, a mark on the x axis. Its label is read out, not drawn, unless Shown.
type Tick struct {
	X     float64
	Label string
	Shown bool
}

// Scale is how figures of an axis are written.
type Scale int

// The scales.
const (
	Number  Scale = iota // 0.5, 20, 3,000
	Seconds              // 40 s, 5 min, 2 h
	Millis               // 5 ms, 3 s
)

// Axis of a figure. Without Min and Max it spans the data; a linear one that has no Min starts at 0 unless data lie below.
type Axis struct {
	Label    string
	Kind     Scale
	Min, Max *float64
	Log      bool // decades; what is not above 0 is drawn at the edge
}

// Panel is one plot of a figure.
type Panel struct {
	Y      Axis
	Series []Series
	Rules  []Rule
	Rug    []Tick
	Height float64 // of the plot, 0: 150
}

// Figure is panels under each other over one x axis.
type Figure struct {
	ID     string // of the document's elements: letters, digits and -, unique on a page
	Title  string
	Desc   string // what there is to see, in words
	X      Axis
	Panels []Panel
	Width  float64 // 0: 720
}

// Part of a Bar.
type Part struct {
	Name  string
	Value float64 // 0 or more
	Note  string  // such as bounded; read out and listed
}

// Bar is one horizontal bar whose parts add up to the whole, each listed with its value and share.
type Bar struct {
	ID    string
	Title string
	Desc  string
	Kind  Scale
	Step  float64 // to which values are told, 0: three digits
	Total string  // what the whole is called
	Parts []Part
	Width float64
}

// Measures of the layout, in pixels.
const (
	defaultWidth  = 720
	defaultHeight = 150
	padLeft       = 76
	padRight      = 24
	titleHeight   = 30
	legendLine    = 18
	panelGap      = 14
	axisHeight    = 40
	rugHeight     = 10
	charWidth     = 6.6 // of the 12 px font, wide enough for most
)

func orDefault(v, otherwise float64) float64 {
	if v > 0 {
		return v
	}
	return otherwise
}

// span is the range that an axis covers, its ends on round figures unless they are given.
type span struct {
	lo, hi float64
	log    bool
}

// at is the place of v between 0 and 1, what lies beyond at the edge.
func (s span) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		lo, hi = math.Log10(lo), math.Log10(hi)
		if v <= 0 {
			return 0
		}
		v = math.Log10(v)
	}
	return math.Max(0, math.Min(1, (v-lo)/(hi-lo)))
}

// newSpan covers the data by the axis's own rules.
func newSpan(a Axis, each func(yield func(float64))) span {
	lo, hi := math.Inf(1), math.Inf(-1)
	each(func(v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) || a.Log && v <= 0 {
			return
		}
		lo, hi = math.Min(lo, v), math.Max(hi, v)
	})
	if lo > hi { // no data
		lo, hi = 0, 1
		if a.Log {
			lo = 0.1
		}
	}
	switch {
	case a.Log:
		lo, hi = math.Pow10(int(math.Floor(math.Log10(lo)+1e-9))), math.Pow10(int(math.Ceil(math.Log10(hi)-1e-9)))
	case lo > 0:
		lo = 0
	}
	if a.Min != nil {
		lo = *a.Min
	}
	if a.Max != nil {
		hi = *a.Max
	}
	if !(hi > lo) {
		hi = lo + 1
		if a.Log {
			hi = lo * 10
		}
	}
	return span{lo, hi, a.Log}
}

// rounded moves the ends that the axis does not fix to whole ticks.
func (s span) rounded(a Axis, most int) span {
	if s.log {
		return s
	}
	step := stepOf(a.Kind, s.hi-s.lo, most)
	if a.Min == nil {
		s.lo = math.Floor(s.lo/step+1e-9) * step
	}
	if a.Max == nil {
		s.hi = math.Ceil(s.hi/step-1e-9) * step
	}
	return s
}

package capacity

import (
	"fmt"
	"math"
	"slices"
)

// Line is a least-squares line of a time in seconds against the characters of a text.
type Line struct {
	Base    float64 `json:"base_s"`
	PerChar float64 `json:"per_char_s"`
	R2      float64 `json:"r2"`
}

// At is the time of a text of that many characters, never below nothing.
func (l Line) At(chars float64) float64 { return math.Max(0, l.Base+l.PerChar*chars) }

// Length is how the times of a request alone follow its text: the first audio and the whole reply against characters.
type Length struct {
	First   Line    `json:"first_audio"`
	Service Line    `json:"service"`
	N       int     `json:"n"`
	Low     float64 `json:"chars_low"` // of the texts measured: beyond them the line is a guess
	High    float64 `json:"chars_high"`
}

// Spoken is one request that waited for nothing: its text's characters and its times in seconds.
type Spoken struct{ Chars, First, Service float64 }

// lengthLeast is the fewest requests that a line is drawn through, and the fewest distinct lengths among them.
const (
	lengthLeast   = 30
	lengthsLeast  = 3
	lengthsSpread = 1.2 // of the longest over the shortest text
)

// NewLength fits the model; an error says why the requests do not tell.
func NewLength(rs []Spoken) (*Length, error) {
	lengths := map[float64]bool{}
	for _, r := range rs {
		lengths[r.Chars] = true
	}
	if len(rs) < lengthLeast || len(lengths) < lengthsLeast {
		return nil, fmt.Errorf("%d requests of %d lengths: a length model needs %d of %d", len(rs), len(lengths), lengthLeast, lengthsLeast)
	}
	by := func(y func(Spoken) float64) Line { return fit(rs, y) }
	chars := func(a, b Spoken) int { return int(math.Copysign(1, a.Chars-b.Chars)) }
	l := &Length{First: by(func(r Spoken) float64 { return r.First }), Service: by(func(r Spoken) float64 { return r.Service }),
		N: len(rs), Low: slices.MinFunc(rs, chars).Chars, High: slices.MaxFunc(rs, chars).Chars}
	if l.High < lengthsSpread*l.Low {
		return nil, fmt.Errorf("texts of %.0f to %.0f characters are too alike to tell what a longer one takes", l.Low, l.High)
	}
	return l, nil
}

// fit is the least-squares line of y against characters (Legendre 1805).
func fit(rs []Spoken, y func(Spoken) float64) Line {
	n := float64(len(rs))
	mx, my := 0.0, 0.0
	for _, r := range rs {
		mx, my = mx+r.Chars/n, my+y(r)/n
	}
	xx, xy, yy := 0.0, 0.0, 0.0
	for _, r := range rs {
		dx, dy := r.Chars-mx, y(r)-my
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	l := Line{PerChar: xy / xx}
	l.Base = my - l.PerChar*mx
	if yy > 0 {
		l.R2 = xy * xy / (xx * yy)
	}
	return l
}

// ForChars is what was measured, turned to texts of another mean length by the length model: times grow by the ratio of
// the service times and rates shrink by it. Q_max follows the time that the objective leaves, and never grows: more
// requests held than were measured are a guess. Without a model it is m.
func (m Measured) ForChars(mean float64) Measured {
	if m.Length == nil || m.CharsPerRequest == nil || mean == *m.CharsPerRequest {
		return m
	}
	was := *m.CharsPerRequest
	ratio := m.Length.Service.At(mean) / m.Length.Service.At(was)
	if !(ratio > 0) || math.IsInf(ratio, 0) {
		return m
	}
	longer := m.Length.First.At(mean) - m.Length.First.At(was)
	left := m.SLO - m.alone()
	scaled := m
	scaled.CorpusChars, scaled.CharsPerRequest = &was, &mean
	scaled.SMean, scaled.SP95 = m.SMean*ratio, m.SP95*ratio
	if m.FirstAudioAt1 > 0 {
		scaled.FirstAudioAt1 = math.Max(0, m.FirstAudioAt1+1000*longer)
	}
	if q := float64(m.QMax) / ratio * math.Max(0, m.SLO-scaled.alone()) / left; left > 0 && q < float64(m.QMax) {
		scaled.QMax = max(1, int(q))
	}
	scaled.MuPlan, scaled.Mu.Value = m.MuPlan/ratio, m.Mu.Value/ratio
	scaled.Mu.Low, scaled.Mu.High = over(m.Mu.Low, ratio), over(m.Mu.High, ratio)
	scaled.Points = slices.Clone(m.Points)
	for i := range scaled.Points {
		scaled.Points[i].X /= ratio
		scaled.Points[i].SMean *= ratio
	}
	scaled.QRPS = m.QRPS / ratio
	scaled.QSMean = float64(scaled.QMax) / scaled.QRPS
	scaled.QSource = fmt.Sprintf("%s; scaled from texts of %.0f to %.0f characters", m.QSource, was, mean)
	return scaled
}

func over(v *float64, ratio float64) *float64 {
	if v == nil {
		return nil
	}
	x := *v / ratio
	return &x
}

// Streams is how long whole replies take, in seconds, and what removing an instance does to them.
type Streams struct {
	P99 float64 `json:"p99_s"`
	Cut float64 `json:"cut_share"` // of the replies in flight on an instance that is removed, those that outlive the kill
	N   int     `json:"n"`
}

// Kill is how long an instance that is removed has, in seconds, from the signal to end until it is killed.
const Kill = 30

// NewStreams summarises reply times; nil when there are none. Of the replies in flight at a random moment, longer ones
// are met more often, and what is left of one is uniform over its length (renewal theory): the share that outlives the
// kill is E[(S − 30)⁺] / E[S].
func NewStreams(seconds []float64) *Streams {
	if len(seconds) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(seconds))
	total, beyond := 0.0, 0.0
	for _, x := range s {
		total += x
		beyond += math.Max(0, x-Kill)
	}
	return &Streams{P99: s[int(math.Ceil(0.99*float64(len(s))))-1], Cut: beyond / total, N: len(s)}
}

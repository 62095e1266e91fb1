package metric

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What is kept: sub-minute data for three hours as CloudWatch does, then in minutes; minutes for a day, where CloudWatch
// keeps them for fifteen; and so many metrics.
const (
	KeepFine   = 3 * time.Hour
	KeepMinute = 24 * time.Hour
	MaxSeries  = 10_000
)

// Dimension of a metric.
type Dimension struct{ Name, Value string }

// Key names one metric; Dims comes from JoinDims.
type Key struct{ Namespace, Name, Dims string }

// JoinDims is the dimensions in one string, whatever their order.
func JoinDims(dims []Dimension) string {
	sorted := slices.SortedFunc(slices.Values(dims), func(a, b Dimension) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	var b strings.Builder
	for _, d := range sorted {
		fmt.Fprintf(&b, "%q=%q;", d.Name, d.Value)
	}
	return b.String()
}

// Dimensions are what JoinDims joined.
func (k Key) Dimensions() []Dimension {
	var out []Dimension
	next := func(rest, end string) (value, after string) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", ""
		}
		value, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
		return value, strings.TrimPrefix(rest[len(quoted):], end)
	}
	for rest := k.Dims; rest != ""; {
		var d Dimension
		d.Name, rest = next(rest, "=")
		d.Value, rest = next(rest, ";")
		out = append(out, d)
	}
	return out
}

// Spec is how a metric is stored.
type Spec struct {
	Unit       string
	Resolution time.Duration // of the stored data, whole seconds: 1 s to 1 min
	// Published is when a period can be read, counted from its end. Negative: what there is can be read at once, as of a
	// custom metric.
	Published time.Duration
}

// AtOnce is Spec.Published of a custom metric.
const AtOnce = time.Duration(-1)

// Store is a set of metrics, safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	series map[Key]*Series
}

// NewStore is an empty store.
func NewStore() *Store { return &Store{series: map[Key]*Series{}} }

// Series is the metric of that name, made with spec if it is new. It fails when the store holds MaxSeries.
func (st *Store) Series(k Key, spec Spec) (*Series, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.series[k]
	if s == nil {
		if len(st.series) >= MaxSeries {
			return nil, fmt.Errorf("%s %s is one metric too many: at most %d are kept", k.Namespace, k.Name, MaxSeries)
		}
		s = &Series{spec: spec}
		st.series[k] = s
	}
	return s, nil
}

// Find is the metric of that name, nil where nothing was ever stored.
func (st *Store) Find(k Key) *Series {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.series[k]
}

// Keys are the names of the metrics that hold data, in order.
func (st *Store) Keys() []Key {
	st.mu.Lock()
	defer st.mu.Unlock()
	var out []Key
	for k, s := range st.series {
		s.mu.Lock()
		if len(s.cells) > 0 {
			out = append(out, k)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Dims, b.Dims))
	})
	return out
}

// Series is one metric over time, safe for concurrent use.
type Series struct {
	spec  Spec
	mu    sync.Mutex
	cells []cell // by start, then width
}

type cell struct {
	start time.Time
	width time.Duration
	set   *Set
}

// Unit of the metric.
func (s *Series) Unit() string { return s.spec.Unit }

// Observe stores value, n times, at that time.
func (s *Series) Observe(at time.Time, value, n float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cell(at).Observe(value, n)
}

// Totals stores a statistic set without its values at that time.
func (s *Series) Totals(at time.Time, count, sum, lo, hi float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cell(at).Totals(count, sum, lo, hi)
}

// Refine lowers the resolution that is stored from now on: a custom metric may change it at any time.
func (s *Series) Refine(resolution time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spec.Resolution = resolution
}

// Empty says whether nothing was stored in the period that at lies in.
func (s *Series) Empty(at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.search(floor(at, s.spec.Resolution), s.spec.Resolution)
	return !found
}

func (s *Series) search(start time.Time, width time.Duration) (int, bool) {
	if n := len(s.cells); n > 0 && s.cells[n-1].start.Equal(start) && s.cells[n-1].width == width {
		return n - 1, true // nearly every call
	}
	return slices.BinarySearchFunc(s.cells, cell{start: start, width: width}, func(c, want cell) int {
		return cmp.Or(c.start.Compare(want.start), cmp.Compare(c.width, want.width))
	})
}

func (s *Series) cell(at time.Time) *Set {
	return s.cellOf(floor(at, s.spec.Resolution), s.spec.Resolution)
}

func (s *Series) cellOf(start time.Time, width time.Duration) *Set {
	i, found := s.search(start, width)
	if !found {
		s.cells = slices.Insert(s.cells, i, cell{start, width, &Set{}})
		if i == len(s.cells)-1 {
			s.age(start)
			i = len(s.cells) - 1
		}
	}
	return s.cells[i].set
}

// age drops what is too old and gathers old sub-minute data into minutes.
func (s *Series) age(now time.Time) {
	first := slices.IndexFunc(s.cells, func(c cell) bool { return !c.start.Before(now.Add(-KeepMinute)) })
	s.cells = slices.Delete(s.cells, 0, first)
	fine := now.Add(-KeepFine)
	for i := 0; i < len(s.cells) && s.cells[i].start.Before(fine); {
		c := s.cells[i]
		if c.width >= time.Minute {
			i++
			continue
		}
		s.cells = slices.Delete(s.cells, i, i+1)
		j, found := s.search(floor(c.start, time.Minute), time.Minute)
		if !found {
			s.cells = slices.Insert(s.cells, j, cell{floor(c.start, time.Minute), time.Minute, &Set{}})
		}
		s.cells[j].set.Merge(c.set)
		i = j
	}
}

// floor is the start of the period that t lies in.
func floor(t time.Time, period time.Duration) time.Time {
	p := int64(period / time.Second)
	sec := t.Unix()
	return time.Unix(sec-((sec%p)+p)%p, 0)
}

// Bucket is one period that was read.
type Bucket struct {
	Start time.Time
	Set
}

// Read is the periods of [start, end) that hold data published by now, oldest first. start is rounded down to a whole
// minute, or to a whole period where that is shorter than a minute; periods count from there. Data stored in minutes is
// found under shorter periods at the minutes' starts, unless it was sub-minute data that has grown too old for it.
func (s *Series) Read(start, end time.Time, period time.Duration, now time.Time) []Bucket {
	start = floor(start, min(period, time.Minute))
	s.mu.Lock()
	defer s.mu.Unlock()
	from, _ := slices.BinarySearchFunc(s.cells, start, func(c cell, t time.Time) int { return c.start.Compare(t) })
	var out []Bucket
	for _, c := range s.cells[from:] {
		if !c.start.Before(end) {
			break
		}
		if c.width > s.spec.Resolution && period < c.width {
			continue
		}
		if s.spec.Published >= 0 && c.start.Add(c.width+s.spec.Published).After(now) {
			continue
		}
		at := start.Add(c.start.Sub(start).Truncate(period))
		if n := len(out); n == 0 || !out[n-1].Start.Equal(at) {
			out = append(out, Bucket{Start: at})
		}
		out[len(out)-1].Merge(c.set)
	}
	return out
}

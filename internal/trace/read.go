package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// unpacked bounds what a compressed trace may unfold to.
const unpacked = 2 << 30

// Read takes a trace in any of the formats that it knows, told apart by what they hold, gzip or not:
//
//   - CSV (comma, semicolon or tab) with a header: a column of times, and one of counts (requests, count, invocations,
//     sum, value) or rates (rps, qps); without such a column every row is one request;
//   - CSV without a header: a time, or a time and a count;
//   - JSON lines with a time, and a count or not;
//   - what the AWS CLI prints for CloudWatch: get-metric-statistics (Sum or SampleCount) and get-metric-data;
//   - an access log with times like [30/Apr/1998:21:30:17 +0000].
//
// A time is a date (RFC 3339, or with a space; UTC where no zone stands), or a number: seconds, or what its column's name
// (…_ms, …_us, …_ns) or its size says. Requests are counted by the second, in any order.
func Read(data []byte) (*Trace, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(z, unpacked+1))
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("unpack the trace: %w", err)
		case len(data) > unpacked:
			return nil, fmt.Errorf("the trace unpacks to more than %d GiB: cut it to the days that matter", unpacked>>30)
		}
	}
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	if len(data) == 0 {
		return nil, errors.New("the trace is empty")
	}
	var e events
	var err error
	switch first, _, _ := bytes.Cut(data, []byte("\n")); {
	case data[0] == '{' && json.Valid(data) && bytes.Contains(data[:min(len(data), 1<<16)], []byte(`"Datapoints"`)),
		data[0] == '{' && json.Valid(data) && bytes.Contains(data, []byte(`"MetricDataResults"`)):
		err = e.cloudWatch(data)
	case data[0] == '{':
		err = e.lines(data)
	case stamp.Match(first):
		err = e.log(data)
	default:
		err = e.table(data)
	}
	if err != nil {
		return nil, err
	}
	return e.trace()
}

// events is what a source says: one a request, or a count for a time.
type events struct {
	format  string
	at      []float64 // seconds
	counts  []float64 // nil: each is one request
	rates   bool      // counts are a second
	dateful bool
}

var (
	stamp      = regexp.MustCompile(`\[(\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]`)
	timeNames  = []string{"timestamp", "time", "minute", "second", "hour", "date", "datetime", "ts", "bucket", "start_time", "arrival_time", "arrived_at", "intended", "started", "epoch"}
	countNames = []string{"requests", "request_count", "count", "counts", "invocations", "sum", "samplecount", "value", "total", "n", "hits"}
	rateNames  = []string{"rps", "qps", "requests_per_second"}
	layouts    = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006/01/02 15:04:05", "2006-01-02"}
)

// unit is the seconds of a number in a column of that name, and the name without it; 0 where its size has to tell.
func unit(name string) (string, float64) {
	name = strings.ToLower(strings.TrimSpace(name))
	for suffix, s := range map[string]float64{"_ms": 1e-3, "_us": 1e-6, "_ns": 1e-9, "_s": 1} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return base, s
		}
	}
	return name, 0
}

// instant reads a time in seconds.
func (e *events) instant(s string, unit float64) (float64, error) {
	s = strings.TrimSpace(s)
	if v, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		if unit == 0 {
			switch { // a date after 1973 in each unit, far from one in the next
			case v > 1e17:
				unit = 1e-9
			case v > 1e14:
				unit = 1e-6
			case v > 1e11:
				unit = 1e-3
			default:
				unit = 1
			}
		}
		if v *= unit; math.Abs(v) < 1e11 {
			return v, nil
		}
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			e.dateful = true
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, nil
		}
	}
	return 0, fmt.Errorf("%q is no time", cut(s))
}

func number(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is no count", cut(s))
	}
	return v, nil
}

func cut(s string) string { return s[:min(len(s), 40)] }

// table reads CSV.
func (e *events) table(data []byte) error {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord, r.TrimLeadingSpace = -1, true, true, true
	first, _, _ := bytes.Cut(data, []byte("\n"))
	for _, sep := range []rune{'\t', ';', ','} {
		if bytes.ContainsRune(first, sep) {
			r.Comma = sep
			break
		}
	}
	clock, count, scale := 0, -1, 0.0
	for row := 1; ; row++ {
		rec, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the trace: %w", err)
		}
		if row == 1 {
			if _, err := e.instant(rec[0], 0); err == nil && !named(rec) {
				e.format = "times, one a request"
				if len(rec) > 1 {
					count, e.format = 1, "times and counts"
				}
			} else {
				if clock, count, scale, err = e.header(rec); err != nil {
					return err
				}
				continue
			}
		}
		if len(rec) <= max(clock, count) {
			return fmt.Errorf("row %d of the trace has %d columns: it should have %d or more", row, len(rec), max(clock, count)+1)
		}
		at, err := e.instant(rec[clock], scale)
		if err != nil {
			return fmt.Errorf("row %d of the trace: %w", row, err)
		}
		e.at = append(e.at, at)
		if count >= 0 {
			c, err := number(rec[count])
			if err != nil {
				return fmt.Errorf("row %d of the trace: %w", row, err)
			}
			e.counts = append(e.counts, c)
		}
	}
}

// named says whether a first row names a column that is known.
func named(rec []string) bool {
	return slices.ContainsFunc(rec, func(s string) bool { base, _ := unit(s); return slices.Contains(timeNames, base) })
}

// header finds the columns of times and counts.
func (e *events) header(rec []string) (clock, count int, scale float64, err error) {
	clock, count = -1, -1
	for i, name := range rec {
		base, u := unit(name)
		switch {
		case clock < 0 && slices.Contains(timeNames, base):
			clock, scale = i, u
		case count < 0 && slices.Contains(countNames, base):
			count, e.format = i, "CSV, counts in column "+cut(name)
		case count < 0 && slices.Contains(rateNames, base):
			count, e.rates, e.format = i, true, "CSV, rates in column "+cut(name)
		}
	}
	if clock < 0 {
		return 0, 0, 0, fmt.Errorf("the trace has no column of times among %q: name one timestamp", cut(strings.Join(rec, ",")))
	}
	if count < 0 {
		e.format = "CSV, one request a row"
	}
	return clock, count, scale, nil
}

// lines reads JSON lines.
func (e *events) lines(data []byte) error {
	e.format = "JSON lines, one request each"
	clock, count, scale := "", "", 0.0
	for row, line := range bytes.Split(data, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var obj map[string]json.RawMessage
		if err := json.Unmarshal(line, &obj); err != nil {
			return fmt.Errorf("line %d of the trace: %w", row+1, err)
		}
		if clock == "" {
			for _, name := range timeNames {
				for key := range obj {
					if base, u := unit(key); base == name && clock == "" {
						clock, scale = key, u
					}
				}
			}
			for _, name := range countNames {
				if _, ok := obj[name]; ok && count == "" {
					count, e.format = name, "JSON lines, counts in "+name
				}
			}
			if clock == "" {
				return fmt.Errorf("line %d of the trace has no time: name the field timestamp", row+1)
			}
		}
		at, err := e.instant(strings.Trim(string(obj[clock]), `"`), scale)
		if err != nil {
			return fmt.Errorf("line %d of the trace: %s: %w", row+1, clock, err)
		}
		e.at = append(e.at, at)
		if count != "" {
			c, err := number(string(obj[count]))
			if err != nil {
				return fmt.Errorf("line %d of the trace: %s: %w", row+1, count, err)
			}
			e.counts = append(e.counts, c)
		}
	}
	return nil
}

// log reads an access log.
func (e *events) log(data []byte) error {
	e.format, e.dateful = "access log", true
	for row, line := range bytes.Split(data, []byte("\n")) {
		m := stamp.FindSubmatch(line)
		if m == nil {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			return fmt.Errorf("line %d of the trace has no time in brackets", row+1)
		}
		t, err := time.Parse("02/Jan/2006:15:04:05 -0700", string(m[1]))
		if err != nil {
			return fmt.Errorf("line %d of the trace: %w", row+1, err)
		}
		e.at = append(e.at, float64(t.Unix()))
	}
	return nil
}

// cloudWatch reads what the AWS CLI prints.
func (e *events) cloudWatch(data []byte) error {
	var doc struct {
		Datapoints []struct {
			Timestamp        string
			Sum, SampleCount *float64
		}
		MetricDataResults []struct {
			Timestamps []string
			Values     []float64
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("the trace: %w", err)
	}
	e.format, e.counts = "CloudWatch", []float64{}
	add := func(at string, v *float64) error {
		if v == nil {
			return errors.New("the trace: a datapoint has neither Sum nor SampleCount: ask CloudWatch for --statistics Sum")
		}
		t, err := e.instant(at, 0)
		if err != nil {
			return fmt.Errorf("the trace: %w", err)
		}
		if !(*v >= 0) {
			return fmt.Errorf("the trace: %g requests at %s", *v, cut(at))
		}
		e.at, e.counts = append(e.at, t), append(e.counts, *v)
		return nil
	}
	for _, p := range doc.Datapoints {
		v := p.Sum
		if v == nil {
			v = p.SampleCount
		}
		if err := add(p.Timestamp, v); err != nil {
			return err
		}
	}
	if n := len(doc.MetricDataResults); n > 1 {
		return fmt.Errorf("the trace holds %d metrics: ask CloudWatch for one", n)
	}
	for _, m := range doc.MetricDataResults {
		if len(m.Timestamps) != len(m.Values) {
			return fmt.Errorf("the trace: %d times and %d values", len(m.Timestamps), len(m.Values))
		}
		for i, at := range m.Timestamps {
			if err := add(at, &m.Values[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// trace puts events in order and into buckets: of a second for requests, of the source's width for counts.
func (e *events) trace() (*Trace, error) {
	if len(e.at) == 0 {
		return nil, errors.New("the trace holds no request")
	}
	order := make([]int, len(e.at))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case e.at[a] < e.at[b]:
			return -1
		case e.at[a] > e.at[b]:
			return 1
		}
		return 0
	})
	start, end := e.at[order[0]], e.at[order[len(order)-1]]
	width := 1.0
	if e.counts != nil {
		width = math.Inf(1)
		for i := 1; i < len(order); i++ {
			if d := e.at[order[i]] - e.at[order[i-1]]; d > 0 {
				width = math.Min(width, d)
			}
		}
		if math.IsInf(width, 1) {
			return nil, errors.New("the trace counts a single moment: nothing is known of its growth")
		}
		// Seconds and fractions of a millisecond are noise of how the time was written.
		width = math.Max(0.001, math.Round(width*1000)/1000)
	}
	n := (end-start)/width + 1
	if n > most {
		return nil, fmt.Errorf("the trace spans %.0f buckets of %g s: at most %d are read; cut it to the days that matter", n, width, most)
	}
	t := &Trace{Bucket: time.Duration(math.Round(width * 1e9)), Counts: make([]float64, int(n+1e-6)), Format: e.format, Start: time.Unix(0, 0).UTC()}
	if e.dateful || start > 1e8 { // a number that is a date, in seconds
		t.Start = time.Unix(0, int64(start*1e9)).UTC()
	}
	seen := make([]bool, len(t.Counts))
	for _, i := range order {
		b := min(len(t.Counts)-1, int((e.at[i]-start)/width+1e-6))
		c := 1.0
		if e.counts != nil {
			c = e.counts[i]
			if e.rates {
				c *= width
			}
		}
		t.Counts[b] += c
		seen[b] = true
	}
	if e.counts != nil {
		for _, s := range seen {
			if !s {
				t.Gaps++
			}
		}
	}
	return t, nil
}

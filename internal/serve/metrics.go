package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"loadline/internal/admission"
)

// Metrics are written as CloudWatch embedded metric documents, one JSON object a line, for each interval; a log agent or
// the local endpoint makes metrics of them.
const (
	Namespace = "Loadline/Speech"
	interval  = 10 * time.Second
	// maxValues is how many values of one metric a document may carry; more go into further documents of the interval.
	maxValues = 100
)

// The metrics that have a value for each request, and those that have one for each document.
var (
	perRequest = []metric{{"FirstAudio", "Milliseconds"}, {"QueueWait", "Milliseconds"}, {"ServiceTime", "Milliseconds"},
		{"Slack", "Milliseconds"}, {"RealTimeFactor", "None"}}
	perDocument = []metric{{"ActiveStreams", "Count"}, {"QueueDepth", "Count"}, {"Admitted", "Count"}, {"Rejected", "Count"},
		{"Cancelled", "Count"}, {"Stale", "Count"}, {"Underruns", "Count"}, {"AudioSeconds", "Seconds"}}
)

type metric struct {
	Name string `json:"Name"`
	Unit string `json:"Unit"`
}

// metrics gathers one interval.
type metrics struct {
	mu        sync.Mutex
	values    map[string][]float64
	cancelled int
	stale     int
	underruns int
	audio     float64 // seconds
}

// book counts a request that has ended.
func (m *metrics) book(sp *speaking) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var f *fault
	var old *admission.Expired
	var cut *interrupted
	switch {
	case sp.whole:
	case errors.As(sp.err, &old):
		m.stale++
	case sp.err == nil || errors.Is(sp.err, context.Canceled) || errors.As(sp.err, &f) || errors.As(sp.err, &cut):
		m.cancelled++ // the reader went, stopped reading, or was broken off
	}
	audio := seconds(sp.bytes, sp.s.info.Rate)
	m.audio += audio
	m.underruns += sp.underruns
	if sp.bytes == 0 {
		return
	}
	first := sp.first.Sub(sp.arrived)
	m.add("FirstAudio", ms(first))
	m.add("QueueWait", ms(sp.t.Waited()))
	m.add("ServiceTime", ms(sp.t.Held()))
	if slo := sp.s.cfg.SLO; slo > 0 {
		m.add("Slack", ms(slo-first))
	}
	if sp.whole {
		m.add("RealTimeFactor", sp.t.Held().Seconds()/audio)
	}
}

func (m *metrics) add(name string, v float64) {
	if m.values == nil {
		m.values = make(map[string][]float64)
	}
	m.values[name] = append(m.values[name], v)
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// report writes the documents of each interval until ctx ends, and then those of the last, unfinished one.
func (s *Server) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var seen struct{ admitted, refused int64 }
	var active, depth []float64
	sample := func() {
		c := s.Counts()
		active, depth = append(active, float64(c.InSystem)), append(depth, float64(c.Queued))
	}
	flush := func() {
		c := s.Counts()
		s.met.mu.Lock()
		values := s.met.values
		if values == nil {
			values = make(map[string][]float64)
		}
		values["Cancelled"] = []float64{float64(s.met.cancelled)}
		values["Stale"] = []float64{float64(s.met.stale)}
		values["Underruns"] = []float64{float64(s.met.underruns)}
		values["AudioSeconds"] = []float64{s.met.audio}
		s.met.values, s.met.cancelled, s.met.stale, s.met.underruns, s.met.audio = nil, 0, 0, 0, 0
		s.met.mu.Unlock()
		// Who was shed at its turn was told the same as who was refused at the door.
		in, out := c.Admitted-c.Shed, c.Refused+c.Shed
		values["Admitted"] = []float64{float64(in - seen.admitted)}
		values["Rejected"] = []float64{float64(out - seen.refused)}
		seen.admitted, seen.refused = in, out
		values["ActiveStreams"], values["QueueDepth"] = active, depth
		active, depth = nil, nil
		for _, doc := range documents(time.Now(), s.cfg.Endpoint, s.cfg.Variant, values) {
			s.log.line(string(doc))
		}
	}
	for n := 1; ; n++ {
		select {
		case <-tick.C:
			sample()
			if n%int(interval/time.Second) == 0 {
				flush()
			}
		case <-ctx.Done():
			sample()
			flush()
			return
		}
	}
}

// documents writes values, which it uses up, as embedded metric documents of at most maxValues a metric each.
func documents(now time.Time, endpoint, variant string, values map[string][]float64) [][]byte {
	var docs [][]byte
	for len(values) > 0 {
		root := map[string]any{"EndpointName": endpoint, "VariantName": variant}
		var named []metric
		for _, m := range append(append([]metric(nil), perDocument...), perRequest...) {
			v := values[m.Name]
			if len(v) == 0 {
				delete(values, m.Name)
				continue
			}
			n := min(len(v), maxValues)
			named = append(named, m)
			if root[m.Name] = v[:n]; n == 1 {
				root[m.Name] = v[0]
			}
			values[m.Name] = v[n:]
		}
		if len(named) == 0 {
			break
		}
		root["_aws"] = map[string]any{
			"Timestamp": now.UnixMilli(),
			"CloudWatchMetrics": []any{map[string]any{"Namespace": Namespace,
				"Dimensions": [][]string{{"EndpointName", "VariantName"}}, "Metrics": named}},
		}
		b, err := json.Marshal(root)
		if err != nil {
			panic(err) // names and finite numbers
		}
		docs = append(docs, b)
	}
	return docs
}

// mark writes the startup marker of a stage reached at t.
func (s *Server) mark(stage string, t time.Time) {
	s.log.line(fmt.Sprintf("=== STAGE %s t=%s elapsed_s=%.3f ===", stage,
		t.UTC().Format("2006-01-02T15:04:05.000Z"), t.Sub(s.cfg.Started).Seconds()))
}

// lineLog writes whole lines, one write each, so that a document is never mixed with a marker.
type lineLog struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineLog) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, text+"\n") // a log that cannot be written must not stop the speech
}

package measure

import (
	"context"
	"fmt"
	"time"
)

const (
	publishLimit = 3 * time.Minute
	publishEvery = 5 * time.Second
)

// await joins CloudWatch to every rung, waiting for what is not published yet, at most until the limit after the last
// rung. What has not come by then is left out and said, never guessed. It ends with ctx: what is measured is kept anyway.
func (m *run) await(ctx context.Context) {
	limit := m.Publish
	if limit == 0 {
		limit = publishLimit
	}
	last := m.doc.Rungs[len(m.doc.Rungs)-1]
	until := spanOf(m.Start, last).to.Add(limit)
	for {
		missing, err := m.join(ctx)
		left := time.Until(until)
		switch {
		case err != nil:
			m.doc.Warnings = append(m.doc.Warnings, fmt.Sprintf("CloudWatch could not be read, the rungs carry no server figures: %v", err))
			return
		case missing == 0:
			return
		case left <= 0:
			m.doc.Warnings = append(m.doc.Warnings, fmt.Sprintf("CloudWatch had not published %d datapoints %s after the last rung: they are left out", missing, limit))
			return
		}
		m.Progress.Show(time.Now(), fmt.Sprintf("waiting for CloudWatch to publish %d datapoints, at most %s more", missing, clock(left)))
		if pause(ctx, min(left, publishEvery)) != nil {
			m.doc.Warnings = append(m.doc.Warnings, fmt.Sprintf("interrupted before CloudWatch had published %d datapoints: they are left out", missing))
			return
		}
	}
}

// join reads CloudWatch once for all rungs and says how many datapoints are still to come.
func (m *run) join(ctx context.Context) (missing int, err error) {
	spans := make([]span, len(m.doc.Rungs))
	var from, to time.Time
	for i, r := range m.doc.Rungs {
		spans[i] = spanOf(m.Start, r)
		if _, n := spans[i].whole(10 * time.Second); n == 0 {
			continue
		}
		if from.IsZero() || spans[i].from.Before(from) {
			from = spans[i].from
		}
		if spans[i].to.After(to) {
			to = spans[i].to
		}
	}
	if from.IsZero() { // no rung holds a whole period
		return 0, nil
	}
	points, err := m.Metrics.Read(ctx, joined, from, to)
	if err != nil {
		return 0, err
	}
	for i := range m.doc.Rungs {
		r := &m.doc.Rungs[i]
		if s := join(*r, spans[i], points); s != nil {
			r.CW = s
		}
	}
	return unpublished(spans, points), nil
}

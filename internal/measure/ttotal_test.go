package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/sample"
	"loadline/internal/scaleout"
)

// grower is an endpoint that takes its time to grow, a probe whose latency follows the count, and a log.
type grower struct {
	*endpoint
	mu      sync.Mutex
	start   time.Time
	asked   time.Time // of the last growth
	takes   time.Duration
	drains  time.Duration // from service to fast replies
	reason  string        // it rolls back after takes, for this reason
	quota   bool
	marks   bool // the container prints markers
	slowed  bool // it never gets fast
	said    []string
	written int
}

func (g *grower) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (g *grower) Hold(ctx context.Context, rung, n int, observe func(sample.Request) bool) (sample.Client, error) {
	for i := 0; ; i++ {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return sample.Client{}, err
		}
		r := sample.New(i)
		at := sample.Since(time.Since(g.start))
		r.Outcome, r.FirstAudio, r.End = sample.OK, at, at
		r.Started = at - sample.Nanos(100*time.Millisecond)
		g.mu.Lock()
		if g.slowed || g.asked.IsZero() || time.Now().Before(g.asked.Add(g.takes+g.drains)) {
			r.Started = at - sample.Nanos(500*time.Millisecond)
		}
		g.mu.Unlock()
		observe(r)
	}
}

func (g *grower) Idle(context.Context, func(sample.Request)) error { return nil }
func (g *grower) Show(time.Time, string)                           {}
func (g *grower) Note(line string)                                 { g.said = append(g.said, line) }

func (g *grower) Scale(_ context.Context, n int) (time.Time, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.quota {
		return time.Time{}, fmt.Errorf("%w: limit is 1", ErrQuota)
	}
	g.state.Desired = n
	if g.asked = time.Now(); n == 1 {
		g.asked, g.state.Current = time.Time{}, 1
	}
	return time.Now(), nil
}

func (g *grower) Settle(context.Context, int) error { return nil }

func (g *grower) Look(context.Context) (Look, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := Look{Status: freeze.InService, Desired: g.state.Desired, Current: g.state.Current, Modified: g.asked}
	if g.state.Desired == g.state.Current {
		return l, nil
	}
	switch over := time.Since(g.asked) >= g.takes; {
	case over && g.reason != "":
		g.state.Desired, l.Desired, l.Reason = 1, 1, g.reason
	case over:
		g.state.Current, l.Current = g.state.Desired, g.state.Desired
	default:
		l.Status = "Updating"
	}
	return l, nil
}

func (g *grower) Streams(context.Context) ([]string, error) {
	if g.asked.IsZero() || time.Since(g.asked) < g.takes/2 {
		return []string{"primary/i-0"}, nil
	}
	return []string{"primary/i-0", "primary/i-1"}, nil
}

func (g *grower) Head(_ context.Context, stream string) ([]scaleout.Event, error) {
	if stream != "primary/i-1" {
		return nil, errors.New("the wrong stream")
	}
	began := g.asked.Add(g.takes / 2).UTC()
	events := []scaleout.Event{{At: began, Text: "hello"}}
	for i, name := range []string{"container_start", "framework_init", "weights_ready", "warmup_done", "ready"} {
		at := began.Add(time.Duration(i+1) * time.Second)
		if g.marks {
			events = append(events, scaleout.Event{At: at, Text: fmt.Sprintf("=== STAGE %s t=%s elapsed_s=%d ===", name, at.Format(time.RFC3339Nano), i)})
		}
	}
	return events, nil
}

func TestTTotal(t *testing.T) {
	tests := []struct {
		name          string
		desired, runs int
		set           func(*grower)
		code          int
		says          string
		total         float64
		stages        string
		cause         string
	}{
		{name: "whole", desired: 5, set: func(g *grower) { g.marks = true }, total: 250,
			stages: "desired_set instance_logging container_started framework_init weights_ready warmup_done ready in_service traffic_recovered"},
		{name: "without markers", desired: 1, total: 250, stages: "desired_set instance_logging in_service traffic_recovered"},
		{name: "three runs", desired: 2, runs: 3, set: func(g *grower) { g.marks = true }, total: 250,
			stages: "desired_set instance_logging container_started framework_init weights_ready warmup_done ready in_service traffic_recovered"},
		{name: "never recovers", desired: 5, set: func(g *grower) { g.marks, g.slowed = true, true }, code: exit.Unknown, says: "floor", total: 200,
			stages: "desired_set instance_logging container_started framework_init weights_ready warmup_done ready in_service", cause: artifact.CauseNoRecovery},
		{name: "no machine", desired: 5, set: func(g *grower) {
			g.reason = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
		},
			code: exit.No, says: "capacity", cause: artifact.CauseCapacity},
		{name: "bad image", desired: 5, set: func(g *grower) { g.reason = "The primary container did not pass the ping health check." },
			code: exit.No, says: "ping health check", cause: artifact.CauseHealth},
		{name: "no reason", desired: 5, set: func(g *grower) { g.takes = 2 * time.Hour }, code: exit.No, says: "no progress for 25:0", cause: artifact.CauseStuck},
		{name: "quota", desired: 5, set: func(g *grower) { g.quota = true }, code: exit.No, says: "quota", cause: artifact.CauseQuota},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &grower{endpoint: newEndpoint(tt.desired), start: time.Now(), takes: 200 * time.Second, drains: 50 * time.Second}
				if tt.set != nil {
					tt.set(g)
				}
				doc := &artifact.TTotal{Trigger: "force-desired", Detection: 60, DetectionSource: "planned"}
				doc, err := TTotal(t.Context(), ScaleOut{
					Doc: doc, Runs: tt.runs, Prober: g, Probe: 10, Mark: sample.OnFirstAudio, Start: g.start,
					Rule: scaleout.Rule{Window: time.Minute, Quantile: 0.95, Target: 0.2}, Warmup: 30 * time.Second, Settle: 3 * time.Minute,
					MaxWait: 25 * time.Minute, Poll: 10 * time.Second, Progress: g, Freeze: freeze.Record(g.state), Fleet: g, Records: g, Scaler: g, Logs: g,
					Keep: func(r []sample.Request) error { g.written += len(r); return nil },
				})
				if exit.Code(err) != tt.code || tt.says != "" && !strings.Contains(fmt.Sprint(err), tt.says) {
					t.Fatalf("%v, code %d", err, exit.Code(err))
				}
				if g.state.Desired != tt.desired || g.state.Current != tt.desired || g.record != nil {
					t.Errorf("it ends at %d of %d, record %v", g.state.Current, tt.desired, g.record)
				}
				if len(doc.Attempts) != max(1, tt.runs) || doc.Attempts[0].Cause != tt.cause {
					t.Errorf("attempts %+v", doc.Attempts)
				}
				if tt.total == 0 {
					if len(doc.Timeline) != 0 || len(doc.Runs) != 0 {
						t.Errorf("a failed run is in a figure: %+v", doc)
					}
					return
				}
				var stages []string
				for _, s := range doc.Timeline {
					stages = append(stages, s.Name)
				}
				sum := 0.0
				for _, d := range doc.Durations {
					sum += d.Seconds
				}
				if strings.Join(stages, " ") != tt.stages || math.Abs(sum-doc.TTotal) > 1e-6 {
					t.Errorf("stages %q add up to %g of %g", stages, sum, doc.TTotal)
				}
				if off := doc.TTotal - tt.total; off < -1 || off > 11 { // a look every 10 s
					t.Errorf("T_total is %g, want %g", doc.TTotal, tt.total)
				}
				if r := doc.Recovery; tt.code == exit.OK && (r == nil || *r.AfterMS > *r.TargetMS || *r.BeforeMS < 499) {
					t.Errorf("recovery %+v", r)
				}
				doc.RunID, doc.Target.Model = "run", "m"
				if err := doc.Check(); err != nil {
					t.Error(err)
				}
				if g.written == 0 || doc.Bounded != (tt.code != exit.OK) || !slices.Equal(g.did[:3], []string{"save", "suspend", "pin"}) {
					t.Errorf("%d requests kept, bounded %t, did %q", g.written, doc.Bounded, g.did)
				}
			})
		})
	}
}

// TestTTotalInterrupted: whenever it ends, the count that was is put back.
func TestTTotalInterrupted(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 40 * time.Second, 250 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := &grower{endpoint: newEndpoint(5), start: time.Now(), takes: 200 * time.Second}
			ctx, cancel := context.WithTimeoutCause(t.Context(), after, context.Canceled)
			defer cancel()
			_, err := TTotal(ctx, ScaleOut{Doc: &artifact.TTotal{}, Prober: g, Probe: 10, Start: g.start, Rule: scaleout.Rule{Window: time.Minute, Quantile: 0.95, Target: 0.2},
				Warmup: 30 * time.Second, Settle: 3 * time.Minute, MaxWait: time.Hour, Poll: time.Second, Progress: g,
				Freeze: freeze.Record(g.state), Fleet: g, Records: g, Scaler: g, Logs: g})
			if exit.Code(err) != exit.Unknown || g.state.Desired != 5 || g.record != nil {
				t.Errorf("after %s: %v, desired %d", after, err, g.state.Desired)
			}
		})
	}
}

// Command kokoro measures the shipped profile kokoro-g5 in real time through the whole chain: sagemaker-local serves it,
// tts-bench qmax measures it, and the answer is held against what the profile was calibrated to.
//
//	go run ./bench/kokoro
//
// The published schedule takes 35.5 minutes on the same endpoint, plus two of waiting for CloudWatch.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"time"

	"loadline/bench/chain"
	"loadline/internal/artifact"
)

// What the published run saw, and what is asked of the search.
const (
	cycleMS   = 1000 / 17.9 // p95 grows by this with each request held
	saturated = 17.9        // requests a second
	wantQ     = 53
	wantWall  = 9 * time.Minute
	band      = 0.02 // of throughput and of p95
)

func main() {
	chain.Repeat("kokoro", "profile kokoro-g5, corpus clips, p95 of first audio within 3 s", func(ctx context.Context, dir string) (bool, error) {
		doc, wall, err := measure(ctx, dir)
		if err != nil {
			return false, err
		}
		return judge(doc, wall), nil
	})
}

// measure starts a fresh endpoint and runs qmax on it.
func measure(ctx context.Context, dir string) (*artifact.QMax, time.Duration, error) {
	url, stop, err := chain.Serve(ctx, dir)
	if err != nil {
		return nil, 0, err
	}
	defer stop()
	began := time.Now()
	var doc, said bytes.Buffer
	qmax := exec.CommandContext(ctx, filepath.Join(dir, "tts-bench"), "qmax", "--endpoint", "speech-kokoro-82m", "--endpoint-url", url,
		"--corpus", "clips", "--yes", "--no-save", "--state-dir", dir, "--json")
	qmax.Stdout, qmax.Stderr = &doc, &said
	if err := qmax.Run(); err != nil {
		return nil, 0, fmt.Errorf("qmax: %w\n%s", err, said.String())
	}
	wall := time.Since(began)
	q, err := artifact.ReadQMax(doc.Bytes())
	if err == nil && q.QMax == nil {
		err = errors.New("no Q_max: " + q.Reason)
	}
	return q, wall, err
}

// judge prints one run against what it should be.
func judge(q *artifact.QMax, wall time.Duration) (missed bool) {
	verdict := func(ok bool) string {
		if ok {
			return "ok"
		}
		missed = true
		return "MISSED"
	}
	requests := 0
	fmt.Printf("\n%4s %-9s %9s %9s %9s %7s %9s\n", "N", "purpose", "p50 ms", "p95 ms", "N x 55.9", "X/s", "late/n")
	worstX, worstP95 := 0.0, 0.0
	for _, r := range q.Rungs {
		requests += r.Samples
		if r.P50 == nil || r.P95 == nil {
			continue
		}
		fmt.Printf("%4d %-9s %9.1f %9.1f %9.1f %7.2f %5d/%d\n", r.N, r.Purpose, *r.P50, *r.P95, float64(r.N)*cycleMS, r.X, r.Late, r.Samples)
		if r.N >= 5 && r.Valid && r.Samples >= 150 { // fewer samples say less than the band
			worstX = math.Max(worstX, math.Abs(r.X/saturated-1))
			worstP95 = math.Max(worstP95, math.Abs(*r.P95/(float64(r.N)*cycleMS)-1))
		}
	}
	fmt.Printf("throughput at N ≥ 5 within %.1f %% of %.1f a second (%.0f %% wanted): %s\n", 100*worstX, saturated, 100*band, verdict(worstX <= band))
	fmt.Printf("p95 at N ≥ 5 within %.1f %% of N × %.1f ms (%.0f %% wanted): %s\n", 100*worstP95, cycleMS, 100*band, verdict(worstP95 <= band))
	fmt.Printf("Q_max %d (%d ± 1 wanted): %s\n", *q.QMax, wantQ, verdict(*q.QMax >= wantQ-1 && *q.QMax <= wantQ+1))
	fmt.Printf("%s, %d judged requests (%s wanted): %s\n", wall.Round(time.Second), requests, wantWall, verdict(wall <= wantWall))
	return missed
}

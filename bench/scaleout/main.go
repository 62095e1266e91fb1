// Command scaleout times the shipped profile kokoro-g5 in real time: sagemaker-local adds an instance as slowly as the
// published run saw it, tts-bench ttotal measures the stages, and each is held against the profile.
//
//	go run ./bench/scaleout
//
// It takes five minutes a repetition, most of them waiting.
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
	"loadline/internal/engine/replay"
	"loadline/internal/scaleout"
)

const (
	ladder = "internal/artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json"
	poll   = 250 * time.Millisecond
	share  = 0.01 // of a stage that it may be off by,
	least  = 0.05 // seconds that it may at any rate
)

func main() {
	chain.Repeat("scaleout", fmt.Sprintf("profile kokoro-g5, a probe of 10 requests, a look every %s", poll), func(ctx context.Context, dir string) (bool, error) {
		p, err := replay.Builtin("kokoro-g5")
		if err != nil {
			return false, err
		}
		doc, err := measure(ctx, dir)
		if err != nil {
			return false, err
		}
		return judge(doc, p.Startup), nil
	})
}

// measure starts a fresh endpoint and runs ttotal on it.
func measure(ctx context.Context, dir string) (*artifact.TTotal, error) {
	url, stop, err := chain.Serve(ctx, dir, "--publication-delay", "0")
	if err != nil {
		return nil, err
	}
	defer stop()
	var doc, said bytes.Buffer
	ttotal := exec.CommandContext(ctx, filepath.Join(dir, "tts-bench"), "ttotal", "--qmax", ladder, "--allow-config-mismatch", "--endpoint-url", url,
		"--probe-concurrency", "10", "--warmup", "5s", "--settle", "60s", "--window", "15s", "--poll-interval", poll.String(), "--yes", "--no-save", "--state-dir", dir, "--json")
	ttotal.Stdout, ttotal.Stderr = &doc, &said
	err = ttotal.Run()
	if doc.Len() == 0 {
		return nil, fmt.Errorf("ttotal: %w\n%s", errors.Join(err, errors.New("it printed no record")), said.String())
	}
	return artifact.ReadTTotal(doc.Bytes())
}

// judge prints one run against the profile.
func judge(doc *artifact.TTotal, p replay.Startup) (missed bool) {
	took := map[string]float64{}
	for _, d := range doc.Durations {
		took[d.To] += d.Seconds
	}
	fmt.Printf("\n%-18s %9s %9s %8s\n", "stage", "profile s", "seen s", "off s")
	for _, s := range []struct {
		name   string
		want   float64
		seen   float64
		within float64
	}{
		{scaleout.InstanceLogging, p.Provision, took[scaleout.InstanceLogging], 0},
		{scaleout.ContainerStarted, p.Container, took[scaleout.ContainerStarted], 0},
		{scaleout.FrameworkInit, p.Framework, took[scaleout.FrameworkInit], 0},
		{scaleout.WeightsReady, p.Weights, took[scaleout.WeightsFetched] + took[scaleout.WeightsReady], 0},
		{scaleout.WarmupDone, p.Warmup, took[scaleout.WarmupDone] + took[scaleout.Ready], 0},
		{scaleout.InService, p.InService, took[scaleout.InService], poll.Seconds()},
	} {
		within := math.Max(s.within, math.Max(least, share*s.want))
		verdict := "ok"
		if off := math.Abs(s.seen - s.want); off > within {
			missed, verdict = true, fmt.Sprintf("MISSED (%.3f wanted)", within)
		}
		fmt.Printf("%-18s %9.3f %9.3f %8.3f %s\n", s.name, s.want, s.seen, s.seen-s.want, verdict)
	}
	sum := 0.0
	for _, d := range doc.Durations {
		sum += d.Seconds
	}
	verdict := "ok"
	if math.Abs(sum-doc.TTotal) > 1e-6 {
		missed, verdict = true, "MISSED"
	}
	fmt.Printf("T_total %.3f s, its stages add up to %.3f s: %s\n", doc.TTotal, sum, verdict)
	return missed
}

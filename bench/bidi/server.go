//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"loadline/bench/container"
	"loadline/internal/engine/replay"
	"loadline/internal/local"
)

// talk speaks in real time, whoever else is spoken to.
const talk = `
name: talk
service: {places: 4000, base_ms: 200, law: {kind: deterministic}}
audio: {per_char_s: 0.07, piece_s: 0.2}
instance: {type: ml.g5.xlarge}
`

// processorTime is the processor seconds that this process has used.
func processorTime() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// serveHere runs the account and its container until standard input ends.
func serveHere() error {
	profile, err := replay.Parse([]byte(talk))
	if err != nil {
		return err
	}
	l, err := local.New(local.Config{
		Start: func(_ context.Context, s local.Spec) (local.Instance, error) {
			return container.Start(profile, s.Seed, 0)
		},
		BidiAddr: "127.0.0.1:0", VerifySignatures: true,
		Endpoints: []local.Endpoint{{Name: "speech", Variants: []local.Variant{{Name: "primary", InstanceType: profile.Instance.Type, Instances: 1}}}},
	})
	if err != nil {
		return err
	}
	stats, err := serveStats()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	select {
	case <-l.Ready():
	case err := <-done:
		cancel()
		return err
	}
	b, err := json.Marshal(map[string]string{"Bidi": l.BidiURL(), "Stats": stats, "Certificate": string(l.BidiCertificate())})
	if err != nil {
		cancel()
		return err
	}
	fmt.Fprintf(os.Stdout, "%s\n", b)
	wait()
	cancel()
	return <-done
}

package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loadline/internal/engine/replay"
	"loadline/internal/serve"
)

// speaker is an engine whose first request takes 57 ms.
type speaker struct{ serve.Engine }

func (speaker) Load(context.Context, func(string)) error { return nil }
func (speaker) Info() serve.Info                         { return serve.Info{Places: 1, Rate: 24000} }
func (speaker) Prepare(context.Context, serve.Request) (serve.Utterance, error) {
	<-time.After(20 * time.Millisecond)
	return &said{left: 2}, nil
}

type said struct{ left int }

func (s *said) Size() int { return s.left }
func (s *said) Next(context.Context, time.Time) ([][]byte, error) {
	s.left--
	<-time.After(37 * time.Millisecond / 2)
	return [][]byte{make([]byte, 2)}, nil
}

// TestStagesOfTheProfile: the stages of an added instance take the profile's times, its real warm-up included, to the
// millisecond where nothing is drawn.
func TestStagesOfTheProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := replay.Startup{Framework: 0.014, Weights: 6.475, Warmup: 1.046}
		engine := &slow{Engine: speaker{}, shares: shares, total: 7535 * time.Millisecond, rng: rand.New(rand.NewPCG(1, 2))}
		var log bytes.Buffer
		s, err := serve.New(serve.Config{Engine: engine, Log: &log})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-s.Ready()
		if took := time.Since(began); took != 7535*time.Millisecond {
			t.Errorf("ready after %s", took)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, want := range []string{"framework_init t=2000-01-01T00:00:00.014Z", "weights_ready t=2000-01-01T00:00:06.489Z", "warmup_done t=2000-01-01T00:00:07.535Z"} {
			if !strings.Contains(log.String(), "=== STAGE "+want) {
				t.Errorf("no %s in\n%s", want, &log)
			}
		}
	})
}

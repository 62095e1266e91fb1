package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/internal/admission"
	"loadline/internal/engine/espeak"
	"loadline/internal/engine/replay"
	"loadline/internal/exit"
	"loadline/internal/serve"
)

// settings are serve's flags.
type settings struct {
	engine, addr, profile string
	sched, gate           string
	depth, workers        int
	slo, drain            time.Duration
	seed                  uint64
	kokoro                kokoroSettings
}

// variables of the environment fill flags that were not given. Those that package serve reads are named there.
var variables = []struct{ flag, variable string }{
	{"engine", "SPEECH_ENGINE"}, {"addr", "SPEECH_ADDR"}, {"profile", "SPEECH_PROFILE"}, {"workers", "SPEECH_WORKERS"}, {"seed", "SPEECH_SEED"},
	{"drain", "SPEECH_DRAIN"}, {"queue-depth", "MAX_QUEUE_DEPTH"}, {"sched", "SCHED"}, {"gate", "GATE"},
	{"model-dir", "SPEECH_MODEL_DIR"}, {"onnxruntime", "LOADLINE_ONNXRUNTIME"}, {"device", "SPEECH_DEVICE"}, {"sessions", "SPEECH_SESSIONS"},
	{"threads", "SPEECH_THREADS"}, {"voice", "SPEECH_VOICE"}, {"weights-revision", "WEIGHTS_REVISION"}, {"weights-sha256", "WEIGHTS_SHA256"},
}

func serveCommand(env map[string]string, stdout io.Writer) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "serve until told to stop",
		Long: `serve answers GET and POST /ping, POST /invocations (speech as a stream or whole)
and the WebSocket /invocations-bidirectional-stream, as SageMaker calls them.

/ping is 503 until a warm-up text was spoken. On SIGTERM it fails, new work is
refused, and streams have --drain to end; a stream that cannot stops at the end
of a sentence and says where to resume. Then serve exits 0.

Startup markers and metrics (CloudWatch embedded format) go to stdout.

Flags that are not given are filled by the environment:
  SPEECH_ENGINE SPEECH_ADDR SPEECH_PROFILE SPEECH_WORKERS SPEECH_SEED
  SPEECH_DRAIN MAX_QUEUE_DEPTH SCHED GATE SLO_MS
  SPEECH_MODEL_DIR LOADLINE_ONNXRUNTIME SPEECH_DEVICE SPEECH_SESSIONS
  SPEECH_THREADS SPEECH_VOICE WEIGHTS_REVISION WEIGHTS_SHA256
and SAGEMAKER_BIND_TO_PORT gives the port. Without a flag:
  MAX_REQUEST_AGE_S WARMUP_TEXT ENDPOINT_NAME VARIANT_NAME CONTAINER_START_EPOCH`,
		Example: `  speech-server serve --engine espeak --addr 127.0.0.1:8080
  curl -d '{"text": "Hello there."}' http://127.0.0.1:8080/invocations -o hello.wav

  # Kokoro on ONNX Runtime; without weights, a stand-in that hums
  speech-server stand-in model
  speech-server serve --engine kokoro --model-dir model

  # a replayed accelerator, a lock per request, 50 requests at most
  speech-server serve --profile quick --sched fifo --queue-depth 50`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Misuse(fmt.Errorf("serve takes flags only, not %q: speech-server serve --help lists them", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, done, err := s.config(cmd.Flags(), env, stdout)
			if err != nil {
				return exit.Misuse(err)
			}
			defer done()
			cfg.Log = stdout
			return s.serve(cmd.Context(), cfg, stdout)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.engine, "engine", "replay", "what speaks: replay (the times of a measured server, from --profile), espeak (eSpeak NG) or kokoro (Kokoro-82M, from --model-dir)")
	f.StringVar(&s.addr, "addr", ":8080", "address to listen on; port 0 takes a free one")
	f.StringVar(&s.profile, "profile", "kokoro-g5", "for replay: "+strings.Join(replay.Names(), ", ")+", or the path of a profile")
	f.IntVar(&s.workers, "workers", 0, "for espeak, and kokoro's front end: child processes; 0 is one a processor")
	f.Uint64Var(&s.seed, "seed", 1, "for replay: of every random draw")
	s.kokoro.flags(f)
	f.StringVar(&s.sched, "sched", "deadline", "whose turn is next: deadline, or fifo with a lock per request")
	f.StringVar(&s.gate, "gate", "depth", "who is refused: depth (more than --queue-depth), or slo (those too whose first sound would be late)")
	f.IntVar(&s.depth, "queue-depth", 0, "requests queued and executing; 0 is unbounded")
	f.DurationVar(&s.slo, "slo", 0, "objective on first audio; 0 is the profile's, or 300 ms for the order alone")
	f.DurationVar(&s.drain, "drain", 27*time.Second, "from SIGTERM until what is left is broken off")
	return cmd
}

// config fills the settings from the environment, checks them all, and makes the engine; done ends it.
func (s *settings) config(f *pflag.FlagSet, env map[string]string, log io.Writer) (c serve.Config, done func(), err error) {
	done = func() {}
	var wrong []error
	for _, v := range variables {
		if value := env[v.variable]; value != "" && !f.Changed(v.flag) {
			if err := f.Lookup(v.flag).Value.Set(value); err != nil {
				wrong = append(wrong, fmt.Errorf("%s=%q: %w", v.variable, value, err))
			}
		}
	}
	if port := env["SAGEMAKER_BIND_TO_PORT"]; port != "" && !f.Changed("addr") && env["SPEECH_ADDR"] == "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			wrong = append(wrong, fmt.Errorf("SAGEMAKER_BIND_TO_PORT=%q: want a port from 1 to 65535", port))
		}
		s.addr = ":" + port
	}
	if err := c.FromEnv(env); err != nil && len(wrong) == 0 { // they overlap
		wrong = append(wrong, err)
	}
	if s.depth < 0 {
		wrong = append(wrong, fmt.Errorf("--queue-depth is %d: it is 0 for an unbounded queue, or more", s.depth))
	}
	if s.slo < 0 || s.drain < 0 {
		wrong = append(wrong, errors.New("--slo and --drain are times of 0 or more"))
	}
	if s.workers < 0 {
		wrong = append(wrong, fmt.Errorf("--workers is %d: it is 0 for one a processor, or more", s.workers))
	}
	if s.sched != "deadline" && s.sched != "fifo" {
		wrong = append(wrong, fmt.Errorf("--sched is %q: it is deadline or fifo", s.sched))
	}
	if s.gate != "depth" && s.gate != "slo" {
		wrong = append(wrong, fmt.Errorf("--gate is %q: it is depth or slo", s.gate))
	}
	c.QueueDepth, c.Order, c.Predict = s.depth, admission.Deadline, s.gate == "slo"
	if s.sched == "fifo" {
		c.Order = admission.FIFO
	}
	if s.slo > 0 {
		c.SLO = s.slo
	}
	switch s.engine {
	case "replay":
		p, err := profile(s.profile)
		if err == nil {
			c.Engine, err = replay.New(p, s.seed)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--profile: %w", err))
		}
		if c.SLO == 0 {
			c.SLO = p.SLO()
		}
	case "espeak":
		e := espeak.New(espeak.Config{Workers: s.workers})
		c.Engine, done = e, e.Close
	case "kokoro":
		e, err := s.kokoro.engine(s.workers, log)
		if err != nil {
			wrong = append(wrong, err)
			break
		}
		c.Engine, done = e, e.Close
	default:
		wrong = append(wrong, fmt.Errorf("--engine is %q: it is replay, espeak or kokoro", s.engine))
	}
	c.Codecs = codecs()
	return c, done, errors.Join(wrong...)
}

// profile is one that ships with the project, or the file of that name.
func profile(name string) (replay.Profile, error) {
	if !strings.ContainsAny(name, "/.") {
		return replay.Builtin(name)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return replay.Profile{}, err
	}
	return replay.Parse(b)
}

// serve listens at once, so that /ping can say what is missing, and drains when ctx ends.
func (s *settings) serve(ctx context.Context, c serve.Config, stdout io.Writer) error {
	server, err := serve.New(c)
	if err != nil {
		return exit.Misuse(err)
	}
	ln, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(stdout, "listening http://%s engine=%s sched=%s gate=%s queue_depth=%d slo=%v drain=%v\n", ln.Addr(), s.engine, c.Order, s.gate, c.QueueDepth, c.SLO, s.drain)
	hs := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	var work sync.WaitGroup
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ran, served := make(chan error, 1), make(chan error, 1)
	work.Go(func() { ran <- server.Run(run) })
	work.Go(func() { served <- hs.Serve(serve.Listener(ln)) })
	defer work.Wait()
	defer stop()
	defer hs.Close()
	select {
	case err := <-ran: // the engine cannot speak; whoever started this decides whether to try again
		return err
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	over, cancel := context.WithTimeout(run, s.drain)
	defer cancel()
	if err := server.Drain(over); err != nil {
		fmt.Fprintln(stdout, err) // what was broken off is a fact, not a failure
	}
	// Every request has been answered; its connection may have the last bytes still to send.
	soon, cancel := context.WithTimeout(run, 200*time.Millisecond)
	defer cancel()
	_ = hs.Shutdown(soon) // what it leaves is closed
	return nil
}

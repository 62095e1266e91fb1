package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadline/internal/autoscale"
	"loadline/internal/engine/replay"
	"loadline/internal/exit"
	"loadline/internal/fleet"
	"loadline/internal/local"
	"loadline/internal/local/access"
)

// What is served without flags is models.yaml's kokoro-82m; a test holds the two together.
const (
	modelName = "kokoro-82m"
	image     = "000000000000.dkr.ecr.us-east-1.amazonaws.com/speech-kokoro-82m@sha256:8b1b96bc4dc0b30ddd84d8fe37af7c490937333c44a9f8f7d77b918c3d7eaced"
	most      = 9 // instances that the scalable target allows
)

// settings are serve's flags.
type settings struct {
	addr, profile, endpoint string
	exec                    string
	variants                []string
	empty                   bool
	routing                 local.Routing
	seed                    uint64
	quota, instances, depth int
	published, start        time.Duration
	fail, unknown, deny     []string
	noRole, verify          bool
	state                   string
	bidi, cert              string
	quiet                   bool
}

func serveCommand(stdout, stderr io.Writer) *cobra.Command {
	s := settings{routing: local.LeastOutstanding, published: 30 * time.Second, start: -1}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "serve until interrupted",
		Long: `serve answers SageMaker, its runtime, Application Auto Scaling, CloudWatch with
its Logs, IAM, STS and Service Quotas at one URL on loopback. Behind its
endpoints stand instances that take the times of a measured server from a
profile and reply with sound.

It prints "ready URL" once the endpoint is in service, and serves until it is
interrupted. Metrics of the platform can be read some time after the end of
their period, as in AWS: --publication-delay. Instances that are added take the
profile's time to come into service: --start. With --exec they are processes of
a program with the container's routes, and take the time that they take.`,
		Example: `  sagemaker-local serve --profile quick &
  tts-bench qmax --model kokoro-82m --endpoint-url http://127.0.0.1:PORT

  # three instances that refuse beyond 50 requests each, at a known port
  sagemaker-local serve --addr 127.0.0.1:4566 --instances 3 --queue-depth 50

  # instances that are processes, with a real voice
  SPEECH_ENGINE=espeak sagemaker-local serve --exec bin/speech-server --start 0

  # bidirectional streams too
  sagemaker-local serve --bidi-addr 127.0.0.1:8443 --bidi-cert bidi.pem`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Misuse(fmt.Errorf("serve takes flags only, not %q: sagemaker-local serve --help lists them", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.config(cmd.Flags().Changed, stderr)
			if err != nil {
				return err
			}
			if err := cfg.Check(); err != nil {
				return exit.Misuse(err)
			}
			l, err := local.New(cfg)
			if err != nil {
				return fmt.Errorf("start: %w", err)
			}
			if err := s.hand(l.BidiCertificate(), stderr); err != nil {
				return err
			}
			said := make(chan struct{})
			stop := make(chan struct{})
			go func() {
				defer close(said)
				select {
				case <-l.Ready():
					fmt.Fprintf(stdout, "ready %s\n", l.URL())
					if url := l.BidiURL(); url != "" {
						fmt.Fprintf(stdout, "ready-bidi %s\n", url)
					}
				case <-stop:
				}
			}()
			err = l.Run(cmd.Context())
			close(stop)
			<-said
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.profile, "profile", "kokoro-g5", "how fast an instance serves: "+strings.Join(replay.Names(), ", ")+", or the path of a profile")
	f.StringVar(&s.exec, "exec", "", "container that instances run: a program and its arguments, separated by spaces; serve where there are none. Its port is in SAGEMAKER_BIND_TO_PORT, SPEECH_… variables are passed on")
	f.StringVar(&s.addr, "addr", "127.0.0.1:0", "loopback address; port 0 takes a free one")
	f.StringVar(&s.bidi, "bidi-addr", "", "loopback address of a second door, for bidirectional streams: HTTP/2 over TLS; port 0 takes a free one. It is told as ready-bidi URL")
	f.StringVar(&s.cert, "bidi-cert", "", "file for that door's certificate, made at the start, for its clients to trust (AWS_CA_BUNDLE); without it, it is printed on stderr")
	f.StringVar(&s.endpoint, "endpoint", "speech-"+modelName, "name of the endpoint")
	f.StringSliceVar(&s.variants, "variant", []string{"primary"}, "production variants of the endpoint, --instances each")
	f.BoolVar(&s.empty, "empty", false, "an account without an endpoint")
	f.IntVar(&s.instances, "instances", 1, "instances at the start")
	f.IntVar(&s.depth, "queue-depth", 0, "MAX_QUEUE_DEPTH of the container: requests queued and executing; 0 unbounded")
	f.Var(oneOf[local.Routing]{&s.routing, []string{"lor", "random"}, []local.Routing{local.LeastOutstanding, local.Random}},
		"routing", "how requests find an instance: lor (least outstanding requests) or random")
	f.Var(duration{&s.published}, "publication-delay", "from the end of a metric's period until it can be read, 0 to 120 s")
	f.Var(duration{&s.start}, "start", "time that an added instance needs; default: the profile's")
	f.IntVar(&s.quota, "quota", local.DefaultQuota, "instances that the account may have of one type")
	f.StringSliceVar(&s.fail, "fail", nil, "make things fail, KIND[:RATE], for the share RATE, all without it: placement, quota, health or stuck of instances; throttle, timeout or 5xx of calls")
	f.StringSliceVar(&s.deny, "deny", nil, "actions that the caller may not do, such as sagemaker:UpdateEndpoint or iam:*")
	f.BoolVar(&s.noRole, "no-service-linked-role", false, "the role of Application Auto Scaling is not there until a target is registered")
	f.BoolVar(&s.verify, "verify-signatures", false, "refuse calls that are not signed with the keys AKIDEXAMPLE and secret")
	f.StringVar(&s.state, "state", "", "file that keeps what the account was told over a restart; where it is there, the flags about the endpoint are not looked at")
	f.StringSliceVar(&s.unknown, "unknown", nil, "what AWS does not publish about its autoscaler, NAME=SETTING: "+strings.Join(autoscale.Names(), ", "))
	f.Uint64Var(&s.seed, "seed", 1, "of every random draw")
	f.BoolVar(&s.quiet, "quiet", false, "log nothing on stderr")
	return cmd
}

// hand gives the second door's certificate to whoever is to trust it.
func (s *settings) hand(pem []byte, stderr io.Writer) error {
	switch {
	case pem == nil:
	case s.cert == "":
		fmt.Fprintf(stderr, "%s", pem)
	default:
		if err := replace(s.cert, pem); err != nil {
			return fmt.Errorf("--bidi-cert: %w", err)
		}
	}
	return nil
}

// config checks the settings, all of them, before anything is started.
func (s *settings) config(given func(flag string) bool, stderr io.Writer) (local.Config, error) {
	var wrong []error
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if s.quota < 1 {
		refuse("--quota is %d: an account has at least 1", s.quota)
	}
	if s.instances < 1 {
		refuse("--instances is %d: a variant has at least 1", s.instances)
	}
	if s.depth < 0 {
		refuse("--queue-depth is %d: it is 0 for an unbounded queue, or more", s.depth)
	}
	if s.cert != "" && s.bidi == "" {
		refuse("--bidi-cert without --bidi-addr: there is no second door whose certificate it could be")
	}
	if s.published > 2*time.Minute {
		refuse("--publication-delay is %s: it goes from 0 to 120 s", s.published)
	}
	if s.empty {
		for _, flag := range []string{"endpoint", "variant", "instances", "queue-depth", "routing"} {
			if given(flag) {
				refuse("--empty leaves nothing for --%s to say", flag)
			}
		}
	}
	p, err := profile(s.profile)
	if err != nil {
		wrong = append(wrong, fmt.Errorf("--profile: %w", err))
	}
	var processes local.Starter
	if command := strings.Fields(s.exec); len(command) > 0 {
		if processes, err = containers(command); err != nil {
			wrong = append(wrong, fmt.Errorf("--exec: %w", err))
		}
	} else if given("exec") {
		refuse("--exec is empty: name a program")
	}
	faults := fleet.Faults{}
	calls := access.Faults{}
	for _, f := range s.fail {
		call, rate, ours, err := access.ParseFault(f)
		if ours && err == nil {
			calls[call] = rate
			continue
		}
		var kind fleet.Fault
		if !ours {
			kind, rate, err = fleet.ParseFault(f)
		}
		if err != nil {
			refuse("--fail %s: %w", f, err)
			continue
		}
		faults[kind] = rate
	}
	unknowns := autoscale.Unknowns{Delay: s.published}
	for _, u := range s.unknown {
		switch err := unknowns.Set(u); {
		case err != nil:
			refuse("--unknown: %w", err)
		case strings.HasPrefix(u, "router="):
			refuse("--unknown %s: how requests find an instance is --routing's to say", u)
		case unknowns.Delay != s.published && given("publication-delay"):
			refuse("--unknown %s: --publication-delay says another one", u)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return local.Config{}, exit.Misuse(err)
	}
	cfg := local.Config{Addr: s.addr, BidiAddr: s.bidi, Quota: s.quota, Published: unknowns.Delay, Seed: s.seed, Unknowns: unknowns,
		Faults: faults, CallFaults: calls, Deny: s.deny, NoLinkedRole: s.noRole, VerifySignatures: s.verify}
	if !s.quiet {
		cfg.Log = stderr
	}
	if s.state != "" {
		b, err := os.ReadFile(s.state)
		switch {
		case err == nil:
			cfg.State = b
		case !errors.Is(err, fs.ErrNotExist):
			return cfg, fmt.Errorf("--state: %w", err)
		}
		cfg.Save = func(state []byte) error { return replace(s.state, state) }
		if err := probe(s.state); err != nil { // better now than after an hour's work
			return cfg, fmt.Errorf("--state: %w", err)
		}
	}
	ready, stages := startup(p, s.start)
	cfg.Start, cfg.Stages, cfg.CopyStages = starter(p, ready), stages, stages
	if processes != nil {
		cfg.Start = processes
	}
	if both := p.Startup.Provision + p.Startup.Container; both > 0 { // a copy has its instance already
		cfg.CopyStages.Provision = time.Duration(float64(stages.Provision) * p.Startup.Container / both)
	}
	if s.empty {
		return cfg, nil
	}
	e := local.Endpoint{Name: s.endpoint}
	for _, name := range s.variants {
		env := map[string]string{"ENDPOINT_NAME": s.endpoint, "VARIANT_NAME": name}
		if s.depth > 0 {
			env["MAX_QUEUE_DEPTH"] = strconv.Itoa(s.depth)
		}
		e.Variants = append(e.Variants, local.Variant{
			Name: name, Model: local.Model{Name: modelName, Image: image, Env: env}, InstanceType: p.Instance.Type,
			Instances: s.instances, Routing: s.routing, Min: 1, Max: max(most, s.instances), Stages: stages,
		})
	}
	cfg.Endpoints = []local.Endpoint{e}
	return cfg, nil
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

// startup is how the time of an added instance divides between its container, which is not healthy before, and the
// platform: from the profile, or, with a total of 0 or more, in the profile's proportions.
func startup(p replay.Profile, total time.Duration) (container time.Duration, platform fleet.Stages) {
	scale := 1.0
	if of := p.Startup.Total(); total >= 0 && of > 0 {
		scale = float64(total) / float64(of)
	}
	s := func(seconds float64) time.Duration { return time.Duration(seconds * scale * float64(time.Second)) }
	container = s(p.Startup.Ready())
	platform = fleet.Stages{Provision: s(p.Startup.Provision), Settle: s(p.Startup.InService), Spread: p.Startup.Spread}
	platform.Health = fleet.DefaultHealth + container
	return container, platform
}

// duration is a flag that reads 240, 240s or 4m; a bare number is seconds.
type duration struct{ d *time.Duration }

func (f duration) String() string {
	if f.d == nil || *f.d < 0 {
		return ""
	}
	return f.d.String()
}

func (f duration) Type() string { return "duration" }

func (f duration) Set(s string) error {
	d, err := time.ParseDuration(s)
	if v, bare := strconv.ParseFloat(s, 64); bare == nil && math.Abs(v) < 1e9 {
		d, err = time.Duration(v*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return errors.New("write 240, 240s or 4m")
	}
	*f.d = d
	return nil
}

package replay

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

//go:embed profiles/*.yaml
var profiles embed.FS

// Profile is what is known of a speech server: how long it works on a text, in how many places, and what else a local
// endpoint needs to stand in for it. Times are in the unit that each key names.
type Profile struct {
	Name   string  `yaml:"name"`
	About  string  `yaml:"about"`  // one line
	Source string  `yaml:"source"` // where the figures come from
	SLOMs  float64 `yaml:"slo_ms"` // the objective on first audio that goes with it; a hint

	Service  Service  `yaml:"service"`
	Overhead Overhead `yaml:"overhead"`
	Audio    Audio    `yaml:"audio"`
	Failures Failures `yaml:"failures"`
	Instance Instance `yaml:"instance"`
	Startup  Startup  `yaml:"startup"`
}

// Service is the work that needs a place: each piece of a text takes (base_ms + per_char_ms · characters) · F, with F drawn
// from a law of mean 1.
type Service struct {
	Places    int     `yaml:"places"` // served at the same time; 1 is a serial server
	BaseMs    float64 `yaml:"base_ms"`
	PerCharMs float64 `yaml:"per_char_ms"`
	Law       Law     `yaml:"law"`
}

// Overhead is the time of a request outside the places, before it asks for one: however many wait, it costs no throughput.
type Overhead struct {
	Ms  float64 `yaml:"ms"` // mean
	Law Law     `yaml:"law"`
}

// Law is the distribution of a positive factor of mean 1.
type Law struct {
	Kind string `yaml:"kind"` // deterministic, normal, lognormal, exponential, empirical
	// CV is the standard deviation over the mean, of normal (up to 0.3: beyond, its negative side would bend the mean) and
	// lognormal.
	CV float64 `yaml:"cv"`
	// Values is an empirical sample, drawn from evenly; only its shape counts, since it is divided by its mean.
	Values []float64 `yaml:"values"`
}

// Audio is the sound of the reply.
type Audio struct {
	PerCharS      float64  `yaml:"per_char_s"`      // seconds of sound a character, at speed 1
	LeadSilenceMs float64  `yaml:"lead_silence_ms"` // silence before the first sound
	PieceS        float64  `yaml:"piece_s"`         // the text is cut evenly into pieces of at most this; 0: never cut
	Voices        []string `yaml:"voices"`          // the first is the default
	// Sentences cuts texts into sentences, and those at clauses and words into pieces of at most piece_s. The first pieces of
	// a text aim at first_s and second_s, so that its listener need not wait for a long one; 0: not.
	Sentences bool    `yaml:"sentences"`
	FirstS    float64 `yaml:"first_s"`
	SecondS   float64 `yaml:"second_s"`
}

// Failures are shares of requests, 0 to 1.
type Failures struct {
	Error float64 `yaml:"error"` // fails, at any of its pieces: with several, a stream may break midway
	Empty float64 `yaml:"empty"` // ends without sound
	Slow  float64 `yaml:"slow"`  // takes SlowFactor times as long
	// SlowFactor is at least 1.
	SlowFactor float64 `yaml:"slow_factor"`
}

// Instance is the machine. Percentages of CPU are summed over its vCPUs, as CloudWatch has them.
type Instance struct {
	Type      string  `yaml:"type"`
	VCPUs     int     `yaml:"vcpus"`
	GPUs      int     `yaml:"gpus"`
	CPUIdle   float64 `yaml:"cpu_idle_percent"`
	CPUBusy   float64 `yaml:"cpu_busy_percent"` // while every place is taken
	GPUIdle   float64 `yaml:"gpu_idle_percent"`
	GPUBusy   float64 `yaml:"gpu_busy_percent"`
	Memory    float64 `yaml:"memory_percent"`
	GPUMemory float64 `yaml:"gpu_memory_percent"`
}

// Startup is how long an instance takes from the capacity call until it is in service, stage by stage, in seconds.
type Startup struct {
	Provision float64 `yaml:"provision_s"`       // until the instance logs: placement and image pull
	Container float64 `yaml:"container_start_s"` // until the container starts
	Framework float64 `yaml:"framework_init_s"`
	Weights   float64 `yaml:"weights_s"`
	Warmup    float64 `yaml:"warmup_s"`
	InService float64 `yaml:"in_service_s"` // ready until the platform sends work
	// Spread of each stage from one instance to the next: standard deviation over mean, 0 to 1.
	Spread float64 `yaml:"spread"`
}

// Total is the sum of the stages.
func (s Startup) Total() time.Duration {
	return secondsOf(s.Provision + s.Container + s.Framework + s.Weights + s.Warmup + s.InService)
}

// Ready is how many seconds of them a machine that is there takes until its container is ready.
func (s Startup) Ready() float64 { return s.Container + s.Framework + s.Weights + s.Warmup }

// SLO is the objective that goes with the profile.
func (p Profile) SLO() time.Duration { return secondsOf(p.SLOMs / 1e3) }

// Mean is the mean time in a place of a text of so many characters that is one piece.
func (p Profile) Mean(chars float64) time.Duration {
	return secondsOf((p.Service.BaseMs + p.Service.PerCharMs*chars) / 1e3)
}

func secondsOf(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// Names lists the profiles that ship with the project.
func Names() []string {
	files, err := profiles.ReadDir("profiles")
	if err != nil {
		panic(err) // embedded
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// Builtin is the shipped profile of that name.
func Builtin(name string) (Profile, error) {
	if !slices.Contains(Names(), name) {
		return Profile{}, fmt.Errorf("no profile %q ships with the project: there are %s; a profile of your own is given by its path", name, strings.Join(Names(), ", "))
	}
	b, err := profiles.ReadFile(path.Join("profiles", name+".yaml"))
	if err != nil {
		return Profile{}, err
	}
	return Parse(b)
}

// Parse reads a profile strictly: an unknown key, a second document or any value out of its range is an error, and all of
// the latter are named at once.
func Parse(b []byte) (Profile, error) {
	p := Profile{
		Service:  Service{Places: 1, Law: Law{Kind: "deterministic"}},
		Overhead: Overhead{Law: Law{Kind: "deterministic"}},
		Audio:    Audio{PerCharS: 0.07, Voices: []string{"af_heart"}},
		Failures: Failures{SlowFactor: 10},
		Instance: Instance{VCPUs: 1, CPUBusy: 100},
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&p); err == io.EOF {
		return Profile{}, errors.New("profile: the file is empty")
	} else if err != nil {
		return Profile{}, fmt.Errorf("profile: %w", err)
	}
	if err := d.Decode(new(yaml.Node)); err != io.EOF {
		return Profile{}, errors.New("profile: the file holds more than one document")
	}
	if err := p.check(); err != nil {
		return Profile{}, fmt.Errorf("profile %q: %w", p.Name, err)
	}
	return p, nil
}

func (p Profile) check() error {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	within := func(key string, v, low, high float64) {
		if !(v >= low && v <= high) {
			say("%s is %v: it goes from %v to %v", key, v, low, high)
		}
	}
	if p.Name == "" {
		say("name is missing")
	}
	const hourMs, day = 3.6e6, 86400
	within("slo_ms", p.SLOMs, 0, hourMs)
	within("service.places", float64(p.Service.Places), 1, 10000)
	within("service.base_ms", p.Service.BaseMs, 0, hourMs)
	within("service.per_char_ms", p.Service.PerCharMs, 0, 1e4)
	if p.Service.BaseMs == 0 && p.Service.PerCharMs == 0 {
		say("service.base_ms and service.per_char_ms are both 0: no server works in no time")
	}
	p.Service.Law.check("service.law", say)
	within("overhead.ms", p.Overhead.Ms, 0, hourMs)
	p.Overhead.Law.check("overhead.law", say)
	within("audio.per_char_s", p.Audio.PerCharS, 0.001, 10)
	within("audio.lead_silence_ms", p.Audio.LeadSilenceMs, 0, 60000)
	within("audio.piece_s", p.Audio.PieceS, 0, 3600)
	if p.Audio.PieceS > 0 && p.Audio.PieceS < 0.05 {
		say("audio.piece_s is %v: it is 0 or at least 0.05", p.Audio.PieceS)
	}
	within("audio.first_s", p.Audio.FirstS, 0, 60)
	within("audio.second_s", p.Audio.SecondS, 0, 60)
	if !p.Audio.Sentences && p.Audio.FirstS+p.Audio.SecondS > 0 {
		say("audio.first_s and audio.second_s are of texts cut into sentences: set audio.sentences")
	}
	if len(p.Audio.Voices) == 0 {
		say("audio.voices is empty")
	}
	within("failures.error", p.Failures.Error, 0, 1)
	within("failures.empty", p.Failures.Empty, 0, 1)
	within("failures.slow", p.Failures.Slow, 0, 1)
	if sum := p.Failures.Error + p.Failures.Empty + p.Failures.Slow; sum > 1 {
		say("failures add up to %v: at most 1", sum)
	}
	within("failures.slow_factor", p.Failures.SlowFactor, 1, 1e6)
	within("instance.vcpus", float64(p.Instance.VCPUs), 1, 10000)
	within("instance.gpus", float64(p.Instance.GPUs), 0, 1000)
	cpus, gpus := 100*float64(p.Instance.VCPUs), 100*float64(p.Instance.GPUs)
	within("instance.cpu_idle_percent", p.Instance.CPUIdle, 0, cpus)
	within("instance.cpu_busy_percent", p.Instance.CPUBusy, 0, cpus)
	within("instance.gpu_idle_percent", p.Instance.GPUIdle, 0, gpus)
	within("instance.gpu_busy_percent", p.Instance.GPUBusy, 0, gpus)
	within("instance.memory_percent", p.Instance.Memory, 0, 100)
	within("instance.gpu_memory_percent", p.Instance.GPUMemory, 0, gpus)
	within("startup.provision_s", p.Startup.Provision, 0, day)
	within("startup.container_start_s", p.Startup.Container, 0, day)
	within("startup.framework_init_s", p.Startup.Framework, 0, day)
	within("startup.weights_s", p.Startup.Weights, 0, day)
	within("startup.warmup_s", p.Startup.Warmup, 0, day)
	within("startup.in_service_s", p.Startup.InService, 0, day)
	within("startup.spread", p.Startup.Spread, 0, 1)
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

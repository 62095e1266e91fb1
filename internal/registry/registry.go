// Package registry is models.yaml: the models that people host, one flat block each, with the endpoint, the promise and
// the scaling fields that a plan derives. It reads strictly and tells every broken rule at once, and it writes derived
// fields back without touching a comment or any byte beside them.
//
//	f, err := registry.Load("models.yaml")
//	m, err := f.Model("kokoro-82m")
//	text, err := f.Edit("kokoro-82m", map[string]any{"max_instances": 9}) // for store.WriteFile
//
// What the derived values should be is decided in package plan.
package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"loadline/internal/artifact"
)

// Model is one block of models.yaml. A nil pointer is a field that is not set.
type Model struct {
	Name          string // model_name
	Endpoint      string // endpoint_name; speech-<name> when not set
	Variant       string // primary when not set
	InstanceType  string // ml.…
	StreamingMode string // response (when not set), bidirectional or none

	MinInstances       int      // 1 when not set
	MaxInstances       int      // 1 when not set
	ScalingTargetValue *float64 // in the units of the metric that the plan's policy tracks
	ScaleInThreshold   *float64
	QueueMaxDepth      *int // requests queued and executing per instance; 0 unbounded
	ScaleOutCooldown   *int // seconds
	ScaleInCooldown    *int // seconds

	SLOMS      float64 // ttfab_slo_ms
	Percentile float64 // that the objective is set on; 95 when not set

	Price *artifact.Price // price_per_hour, price_source, price_date; nil: unknown, never 0
	VCPUs int             // of one instance; 0 not known
	GPUs  int

	Image        string // URI with its digest, "" before the first build
	Weights      Weights
	ContainerEnv map[string]string

	Plan      string   // path of the plan that the scaling fields come from
	PeakRPS   *float64 // the traffic planned for, requests a second
	TroughRPS *float64
	Quota     *int // instances of this type that the account may run
}

// Weights names the model's files, pinned.
type Weights struct{ Repo, Revision, SHA256 string }

// ScalingEnabled says whether the bounds leave room to scale: max_instances > max(min_instances, 1).
func (m *Model) ScalingEnabled() bool { return m.MaxInstances > max(m.MinInstances, 1) }

// File is a models.yaml as it was read.
type File struct {
	Models []Model

	name  string
	text  []byte
	nodes []*yaml.Node // the mapping of each model
}

// Load reads and checks the file at path.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no model registry at %s: name it with --models FILE, or name what to measure with --endpoint or --url", path)
	case err != nil:
		return nil, fmt.Errorf("read the model registry: %w", err)
	}
	return Parse(path, data)
}

// Parse checks the text of a models.yaml; name stands in messages.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name, text: data}
	var bad broken
	f.read(&bad)
	if len(bad) > 0 {
		return nil, bad.err(name)
	}
	return f, nil
}

// Model finds a model by name, and guesses what was meant where there is none.
func (f *File) Model(name string) (*Model, error) {
	names := make([]string, len(f.Models))
	for i := range f.Models {
		if names[i] = f.Models[i].Name; names[i] == name {
			return &f.Models[i], nil
		}
	}
	return nil, fmt.Errorf("%s has no model %q%s: it lists %s", f.name, name, didYouMean(name, names), strings.Join(names, ", "))
}

// rule is one broken rule: where, which field, what it holds and what it may hold.
type rule struct {
	line int
	text string
}

type broken []rule

func (b *broken) add(n *yaml.Node, format string, a ...any) {
	*b = append(*b, rule{n.Line, fmt.Sprintf(format, a...)})
}

func (b broken) err(name string) error {
	slices.SortStableFunc(b, func(x, y rule) int { return x.line - y.line })
	var s strings.Builder
	fmt.Fprintf(&s, "%s breaks ", name)
	if len(b) == 1 {
		s.WriteString("a rule:")
	} else {
		fmt.Fprintf(&s, "%d rules:", len(b))
	}
	for _, r := range b {
		fmt.Fprintf(&s, "\n  line %d: %s", r.line, r.text)
	}
	return errors.New(s.String())
}

// didYouMean is ", did you mean X?" for the nearest of the names, or "" when none is near.
func didYouMean(got string, names []string) string {
	best, at := "", 1+len(got)/3
	for _, n := range names {
		if d := distance(strings.ToLower(got), strings.ToLower(n)); d <= at && (best == "" || d < at) {
			best, at = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// distance is the fewest insertions, deletions and replacements that turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, last+1, row[j]+1)
		}
	}
	return row[len(b)]
}

package registry

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"loadline/internal/artifact"
)

// draft is a model being read: the price is three fields in the file and one value afterwards.
type draft struct {
	Model
	perHour      *float64
	source, date string
}

// field is one key of a model's block.
type field struct {
	key      string
	legal    string // what it may hold, for people
	required bool
	set      func(d *draft, n *yaml.Node) bool // false: the value is not legal
}

var (
	awsName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,62})$`)
	instance = regexp.MustCompile(`^ml\.[a-z0-9-]+\.[a-z0-9-]+$`)
	image    = regexp.MustCompile(`^[^\s@]+@sha256:[0-9a-f]{64}$`)
	repo     = regexp.MustCompile(`^[\w.-]+/[\w.-]+$`)
	commit   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sha256   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	modelID  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	someText = regexp.MustCompile(`\S`)
)

var modes = []string{"response", "bidirectional", "none"}

// fields is every key in the order in which they are written.
var fields = []field{
	{"model_name", "1 to 63 letters, digits, dots, hyphens and underscores", true, matching(modelID, func(d *draft) *string { return &d.Name })},
	{"endpoint_name", "1 to 63 letters, digits and hyphens", false, matching(awsName, func(d *draft) *string { return &d.Endpoint })},
	{"variant", "1 to 63 letters, digits and hyphens", false, matching(awsName, func(d *draft) *string { return &d.Variant })},
	{"instance_type", "an instance type with its ml. prefix, like ml.g5.xlarge", true, matching(instance, func(d *draft) *string { return &d.InstanceType })},
	{"streaming_mode", "response, bidirectional or none", false, text(func(d *draft) *string { return &d.StreamingMode }, func(s string) bool { return slices.Contains(modes, s) })},
	{"min_instances", "a whole number from 0 to 10000", false, whole(0, 10000, func(d *draft, v int) { d.MinInstances = v })},
	{"max_instances", "a whole number from 1 to 10000", false, whole(1, 10000, func(d *draft, v int) { d.MaxInstances = v })},
	{"scaling_target_value", "a number above 0", false, number(above0, func(d *draft, v float64) { d.ScalingTargetValue = &v })},
	{"scale_in_threshold", "a number from 0", false, number(from0, func(d *draft, v float64) { d.ScaleInThreshold = &v })},
	{"ttfab_slo_ms", "milliseconds above 0, at most 60000 (the platform's own limit)", true, number(func(v float64) bool { return v > 0 && v <= 60000 }, func(d *draft, v float64) { d.SLOMS = v })},
	{"percentile", "a number from 50 to 99.9", false, number(func(v float64) bool { return v >= 50 && v <= 99.9 }, func(d *draft, v float64) { d.Percentile = v })},
	{"queue_max_depth", "a whole number from 0 (unbounded) to 100000", false, whole(0, 100000, func(d *draft, v int) { d.QueueMaxDepth = &v })},
	{"scale_out_cooldown_s", "whole seconds from 0 to 86400", false, whole(0, 86400, func(d *draft, v int) { d.ScaleOutCooldown = &v })},
	{"scale_in_cooldown_s", "whole seconds from 0 to 86400", false, whole(0, 86400, func(d *draft, v int) { d.ScaleInCooldown = &v })},
	{"peak_rps", "requests a second above 0", false, number(above0, func(d *draft, v float64) { d.PeakRPS = &v })},
	{"trough_rps", "requests a second from 0", false, number(from0, func(d *draft, v float64) { d.TroughRPS = &v })},
	{"plan", "the path of a plan", false, matching(someText, func(d *draft) *string { return &d.Plan })},
	{"price_per_hour", "US dollars above 0 (leave it out when not known)", false, number(above0, func(d *draft, v float64) { d.perHour = &v })},
	{"price_source", "where the price was read", false, matching(someText, func(d *draft) *string { return &d.source })},
	{"price_date", "the day it was read, as 2026-08-04", false, text(func(d *draft) *string { return &d.date }, func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil })},
	{"vcpus", "a whole number from 1 to 1024", false, whole(1, 1024, func(d *draft, v int) { d.VCPUs = v })},
	{"gpus", "a whole number from 0 to 64", false, whole(0, 64, func(d *draft, v int) { d.GPUs = v })},
	{"quota", "a whole number of instances from 0 to 10000", false, whole(0, 10000, func(d *draft, v int) { d.Quota = &v })},
	{"image", "an image URI with its digest, …@sha256:<64 hex>, or empty before the first build (a tag can move)", false, text(func(d *draft) *string { return &d.Image }, func(s string) bool { return s == "" || image.MatchString(s) })},
	{"weights", "a block of repo, revision and sha256", false, nil},
	{"container_env", "a block of NAME: value", false, nil},
}

var weights = []field{
	{"repo", "owner/name", true, matching(repo, func(d *draft) *string { return &d.Weights.Repo })},
	{"revision", "a commit, 40 hex (a branch can move)", false, matching(commit, func(d *draft) *string { return &d.Weights.Revision })},
	{"sha256", "64 hex", false, matching(sha256, func(d *draft) *string { return &d.Weights.SHA256 })},
}

func above0(v float64) bool { return v > 0 }
func from0(v float64) bool  { return v >= 0 }

func text(at func(*draft) *string, ok func(string) bool) func(*draft, *yaml.Node) bool {
	return func(d *draft, n *yaml.Node) bool {
		if tag := n.ShortTag(); tag != "!!str" && tag != "!!timestamp" || !ok(n.Value) {
			return false
		}
		*at(d) = n.Value
		return true
	}
}

func matching(re *regexp.Regexp, at func(*draft) *string) func(*draft, *yaml.Node) bool {
	return text(at, re.MatchString)
}

func whole(lo, hi int, put func(*draft, int)) func(*draft, *yaml.Node) bool {
	return func(d *draft, n *yaml.Node) bool {
		v, err := strconv.Atoi(n.Value)
		if n.ShortTag() != "!!int" || err != nil || v < lo || v > hi {
			return false
		}
		put(d, v)
		return true
	}
}

func number(ok func(float64) bool, put func(*draft, float64)) func(*draft, *yaml.Node) bool {
	return func(d *draft, n *yaml.Node) bool {
		tag := n.ShortTag()
		v, err := strconv.ParseFloat(n.Value, 64)
		if tag != "!!int" && tag != "!!float" || err != nil || math.IsNaN(v) || math.IsInf(v, 0) || !ok(v) {
			return false
		}
		put(d, v)
		return true
	}
}

// read fills f from its text.
func (f *File) read(bad *broken) {
	var doc yaml.Node
	if err := decode(f.text, &doc); err != nil {
		*bad = append(*bad, syntax(err))
		return
	}
	if len(doc.Content) == 0 {
		bad.add(&yaml.Node{Line: 1}, "the file is empty: a list of models was wanted (models:)")
		return
	}
	root := doc.Content[0]
	var list *yaml.Node
	pairs(root, "the file", []string{"models"}, bad, func(_, v *yaml.Node) { list = v })
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		if len(*bad) == 0 {
			bad.add(root, "models: a list of at least one model was wanted")
		}
		return
	}
	names, ends := map[string]int{}, map[string]int{}
	for i, n := range list.Content {
		m := readModel(n, i, bad)
		if at, twice := names[m.Name]; twice && m.Name != "" {
			bad.add(n, "%s: model_name stands twice, first on line %d", m.Name, at)
		}
		if at, twice := ends[m.Endpoint+"/"+m.Variant]; twice && m.Name != "" {
			bad.add(n, "%s: endpoint %s variant %s belongs to the model on line %d already", m.Name, m.Endpoint, m.Variant, at)
		}
		names[m.Name], ends[m.Endpoint+"/"+m.Variant] = n.Line, n.Line
		f.Models, f.nodes = append(f.Models, m), append(f.nodes, n)
	}
}

func readModel(n *yaml.Node, i int, bad *broken) Model {
	d := draft{Model: Model{Variant: "primary", StreamingMode: "response", MinInstances: 1, MaxInstances: 1, Percentile: 95}}
	at := map[string]*yaml.Node{}
	who := fmt.Sprintf("model %d", i+1)
	if v := value(n, "model_name"); v != nil && v.Value != "" {
		who = v.Value
	}
	block(n, who, "", fields, &d, at, bad)
	if w := at["weights"]; w != nil {
		block(w, who, "weights.", weights, &d, map[string]*yaml.Node{}, bad)
	}
	if env := at["container_env"]; env != nil {
		d.ContainerEnv = map[string]string{}
		pairs(env, who+": container_env", nil, bad, func(k, v *yaml.Node) {
			if v.Kind != yaml.ScalarNode || v.ShortTag() == "!!null" {
				bad.add(v, "%s: container_env.%s is %s: it may hold a text or a number", who, k.Value, shown(v))
				return
			}
			d.ContainerEnv[k.Value] = v.Value
		})
	}
	if d.Endpoint == "" {
		d.Endpoint = "speech-" + d.Name
		if d.Name != "" && !awsName.MatchString(d.Endpoint) {
			bad.add(n, "%s: endpoint_name is missing, and speech-%s is no name of an endpoint: set it (1 to 63 letters, digits and hyphens)", who, d.Name)
		}
	}

	together := func(bad *broken, keys ...string) {
		var there, missing []string
		for _, k := range keys {
			if at[k] != nil {
				there = append(there, k)
			} else {
				missing = append(missing, k)
			}
		}
		if len(there) > 0 && len(missing) > 0 {
			bad.add(at[there[0]], "%s: %s stands without %s: a price needs its source and its date", who, strings.Join(there, " and "), strings.Join(missing, " and "))
		}
	}
	together(bad, "price_per_hour", "price_source", "price_date")
	if d.perHour != nil {
		d.Price = &artifact.Price{PerHour: *d.perHour, Source: d.source, Date: d.date}
	}
	where := func(key string) *yaml.Node {
		if v := at[key]; v != nil {
			return v
		}
		return n
	}
	if d.MinInstances > d.MaxInstances {
		bad.add(where("min_instances"), "%s: min_instances is %d and max_instances is %d: min may be at most max", who, d.MinInstances, d.MaxInstances)
	}
	if t, in := d.ScalingTargetValue, d.ScaleInThreshold; t != nil && in != nil && *in >= *t {
		bad.add(at["scale_in_threshold"], "%s: scale_in_threshold is %g and scaling_target_value is %g: scale-in must lie below the target", who, *in, *t)
	}
	if p, q := d.PeakRPS, d.TroughRPS; p != nil && q != nil && *q > *p {
		bad.add(at["trough_rps"], "%s: trough_rps is %g and peak_rps is %g: the trough may be at most the peak", who, *q, *p)
	}
	return d.Model
}

// block reads the keys of a mapping by their table; at collects the value of each key that is set.
func block(n *yaml.Node, who, prefix string, table []field, d *draft, at map[string]*yaml.Node, bad *broken) {
	keys := make([]string, len(table))
	for i := range table {
		keys[i] = table[i].key
	}
	owner := who
	if prefix != "" {
		owner += ": " + strings.TrimSuffix(prefix, ".")
	}
	if !pairs(n, owner, keys, bad, func(k, v *yaml.Node) {
		f := table[slices.Index(keys, k.Value)]
		switch {
		case v.Kind == yaml.ScalarNode && v.ShortTag() == "!!null": // not set
		case f.set == nil: // a block of its own
			at[f.key] = v
		case v.Kind != yaml.ScalarNode || !f.set(d, v):
			bad.add(v, "%s: %s%s is %s: it may hold %s", who, prefix, f.key, shown(v), f.legal)
			at[f.key] = v
		default:
			at[f.key] = v
		}
	}) {
		return
	}
	for _, f := range table {
		if f.required && at[f.key] == nil {
			bad.add(n, "%s: %s%s is missing: it holds %s", who, prefix, f.key, f.legal)
		}
	}
}

// pairs visits the keys of a mapping and reports what is no mapping, stands twice or is not among keys (nil: any). It
// reports whether n is a mapping.
func pairs(n *yaml.Node, who string, keys []string, bad *broken, visit func(k, v *yaml.Node)) bool {
	if n.Kind != yaml.MappingNode {
		bad.add(n, "%s is %s: a block of key: value lines was wanted", who, shown(n))
		return false
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch line, twice := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode || k.Value == "":
			bad.add(k, "%s: %s is no key", who, shown(k))
			continue
		case twice:
			bad.add(k, "%s: %s stands twice, first on line %d", who, k.Value, line)
			continue
		case keys != nil && !slices.Contains(keys, k.Value):
			bad.add(k, "%s: unknown key %s%s", who, k.Value, didYouMean(k.Value, keys))
			continue
		}
		seen[k.Value] = k.Line
		visit(k, v)
	}
	return true
}

func value(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a block"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias (*" + n.Value + ")"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!str", "!!timestamp":
		return strconv.Quote(n.Value)
	}
	return n.Value
}

package artifact

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Difference is one field in which two fingerprints are not known to be equal.
type Difference struct {
	Field string // region, instance_type, image_digest, copy, container_env, container_env.NAME
	A, B  string // the values, as people read them
}

// MismatchError is two measurements that are not known to be of the same thing.
type MismatchError struct {
	A, B        string // what was compared, as "the ladder"
	Differences []Difference
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s and %s do not belong together: %s: measure again what is out of date, or pass --allow-config-mismatch to go on with a recorded warning",
		e.A, e.B, strings.Join(e.lines(), "; "))
}

func (e *MismatchError) lines() []string {
	lines := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		lines[i] = fmt.Sprintf("%s is %s in %s and %s in %s", d.Field, d.A, e.A, d.B, e.B)
	}
	return lines
}

// Pair says whether two fingerprints are of the same thing: region, instance type, image digest and container
// environment are equal, and what a copy of an inference component has. The queue bound is not compared: setting it is
// what a plan is for. What is missing matches nothing, but for the copy: see Uncompared, whose note is a warning then.
// nameA and nameB stand in messages ("the ladder", "the live endpoint").
//
// With allowMismatch the differences come back as warnings to record, otherwise as an *MismatchError that lists them all.
func Pair(nameA string, a Fingerprint, nameB string, b Fingerprint, allowMismatch bool) (warnings []string, err error) {
	mismatch := &MismatchError{A: nameA, B: nameB, Differences: Compare(a, b)}
	if len(mismatch.Differences) > 0 && !allowMismatch {
		return nil, mismatch
	}
	for _, line := range mismatch.lines() {
		warnings = append(warnings, "config mismatch let pass: "+line)
	}
	if note := Uncompared(nameA, a, nameB, b); note != "" {
		warnings = append(warnings, note)
	}
	return warnings, nil
}

// Uncompared says that one of two fingerprints holds what a copy has and the other does not, as records written before it
// was read do not; "" when both or neither do.
func Uncompared(nameA string, a Fingerprint, nameB string, b Fingerprint) string {
	silent := nameB
	switch {
	case (a.Copy == nil) == (b.Copy == nil):
		return ""
	case a.Copy == nil:
		silent = nameA
	}
	return fmt.Sprintf("what a copy of the component has was not compared: %s does not say it", silent)
}

// Compare lists every difference of two fingerprints. Two records of a format without a region (published files) are
// compared without one: both were written beside each other, and neither could have said. One such record against one
// with a region differs.
func Compare(a, b Fingerprint) []Difference {
	var ds []Difference
	field := func(name, va, vb string) {
		if va == "" || vb == "" || va != vb {
			ds = append(ds, Difference{name, shown(va), shown(vb)})
		}
	}
	if !(a.NoRegion && b.NoRegion) {
		field("region", a.Region, b.Region)
	}
	field("instance_type", a.InstanceType, b.InstanceType)
	field("image_digest", a.ImageDigest, b.ImageDigest)
	if a.Copy != nil && b.Copy != nil && *a.Copy != *b.Copy {
		field("copy", a.Copy.String(), b.Copy.String())
	}
	if a.ContainerEnv == nil || b.ContainerEnv == nil {
		return append(ds, Difference{"container_env", envShown(a.ContainerEnv), envShown(b.ContainerEnv)})
	}
	ea, eb := comparedEnv(a.ContainerEnv), comparedEnv(b.ContainerEnv)
	names := slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(slices.Collect(maps.Keys(ea)), maps.Keys(eb)))))
	for _, name := range names {
		va, inA := ea[name]
		vb, inB := eb[name]
		if inA != inB || va != vb {
			ds = append(ds, Difference{"container_env." + name, set(va, inA), set(vb, inB)})
		}
	}
	return ds
}

func shown(v string) string {
	if v == "" {
		return "not known"
	}
	return v
}

func envShown(env map[string]string) string {
	if env == nil {
		return "not known"
	}
	return fmt.Sprintf("known (%d)", len(env))
}

func set(v string, in bool) string {
	if !in {
		return "not set"
	}
	return strconv.Quote(v)
}

// Bounds are the variables that bound the container's queue, the one that counts first.
var Bounds = []string{"MAX_QUEUE_DEPTH", "MAX_PENDING_REQUESTS"}

// ContainerEnv splits the environment of a container into what a fingerprint holds and its queue bound. Left out is what
// says where the container runs rather than how it behaves: AWS_*, ENDPOINT_NAME, VARIANT_NAME, SM_MODEL_ID, and the
// bound MAX_QUEUE_DEPTH, which stands apart. A nil environment, one that could not be read, stays nil and its bound is
// not known; a bound that is no number is not known either; none set is 0, unbounded.
func ContainerEnv(env map[string]string) (compared map[string]string, bound *int) {
	if env == nil {
		return nil, nil
	}
	return comparedEnv(env), queueBound(env)
}

func queueBound(env map[string]string) *int {
	for _, name := range Bounds {
		if v := env[name]; v != "" {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			if err != nil || n < 0 {
				return nil
			}
			return &n
		}
	}
	return new(0)
}

func comparedEnv(env map[string]string) map[string]string {
	kept := map[string]string{}
	for name, v := range env {
		switch {
		case strings.HasPrefix(name, "AWS_"):
		case name == "ENDPOINT_NAME", name == "VARIANT_NAME", name == "SM_MODEL_ID", name == Bounds[0]:
		default:
			kept[name] = v
		}
	}
	return kept
}

// ImageDigest is the digest of an image reference ("…@sha256:8b1b…") in hex, or "" when it names a tag: a tag can move,
// so it proves nothing.
func ImageDigest(image string) string {
	_, digest, ok := strings.Cut(image, "@sha256:")
	if !ok || !hexDigest(digest) {
		return ""
	}
	return digest
}

func hexDigest(s string) bool {
	if len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}

package local

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadline/internal/wire"
)

// sagemaker is the control plane: models (models.go), endpoint configurations (configs.go), endpoints (endpoints.go) and
// the tags of all three.
var sagemaker = service{"SageMaker", map[string]operation{
	"CreateModel":                        op((*Local).createModel),
	"DescribeModel":                      op((*Local).describeModel),
	"ListModels":                         op((*Local).listModels),
	"DeleteModel":                        op((*Local).deleteModel),
	"CreateEndpointConfig":               op((*Local).createEndpointConfig),
	"DescribeEndpointConfig":             op((*Local).describeEndpointConfig),
	"ListEndpointConfigs":                op((*Local).listEndpointConfigs),
	"DeleteEndpointConfig":               op((*Local).deleteEndpointConfig),
	"CreateEndpoint":                     op((*Local).createEndpoint),
	"DescribeEndpoint":                   op((*Local).describeEndpoint),
	"ListEndpoints":                      op((*Local).listEndpoints),
	"UpdateEndpoint":                     op((*Local).updateEndpoint),
	"DeleteEndpoint":                     op((*Local).deleteEndpoint),
	"UpdateEndpointWeightsAndCapacities": op((*Local).updateWeightsAndCapacities),
	"CreateInferenceComponent":           op((*Local).createComponent),
	"DescribeInferenceComponent":         op((*Local).describeComponent),
	"ListInferenceComponents":            op((*Local).listComponents),
	"UpdateInferenceComponent":           op((*Local).updateComponent),
	"DeleteInferenceComponent":           op((*Local).deleteComponent),

	"UpdateInferenceComponentRuntimeConfig": op((*Local).updateComponent),

	"AddTags":    op((*Local).addTags),
	"ListTags":   op((*Local).listTags),
	"DeleteTags": op((*Local).deleteTags),
}}

func (l *Local) arn(service, resource string) string {
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, l.cfg.Region, l.cfg.Account, resource)
}

func (l *Local) endpointARN(name string) string { return l.arn("sagemaker", "endpoint/"+name) }

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9](-*[a-zA-Z0-9])*$`)

// named checks a resource name before it is looked up, in AWS's words.
func named(member string, name *string, longest int) (string, error) {
	switch {
	case name == nil:
		return "", wire.Refuse(wire.ValidationException, "1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", member)
	case len(*name) > longest:
		return "", wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must have length less than or equal to %d", *name, member, longest)
	case !nameForm.MatchString(*name):
		return "", wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9])*", *name, member)
	}
	return *name, nil
}

// endpointNamed is the endpoint of that name. l.mu is held.
func (l *Local) endpointNamed(member string, name *string) (*endpoint, error) {
	n, err := named(member, name, 63)
	if err != nil {
		return nil, err
	}
	ep := l.endpoints[n]
	if ep == nil {
		return nil, wire.Refuse(wire.ValidationException, "Could not find endpoint %q.", l.endpointARN(n))
	}
	return ep, nil
}

// listIn is what listings of SageMaker's resources are asked with.
type listIn struct {
	NameContains, SortBy, SortOrder, NextToken *string
	MaxResults                                 *int
	CreationTimeAfter, CreationTimeBefore      *wire.Stamp
}

// outside says whether a time is not between two others, where they are given.
func outside(t time.Time, after, before *wire.Stamp) bool {
	return after != nil && !t.After(after.Time) || before != nil && !t.Before(before.Time)
}

// listed is the page of a listing that is asked for; of tells an item's name and when it was created.
func listed[T any](all []T, in *listIn, of func(T) (string, time.Time)) (page []T, next string, err error) {
	all = slices.DeleteFunc(all, func(x T) bool {
		name, created := of(x)
		return !strings.Contains(name, deref(in.NameContains, "")) || outside(created, in.CreationTimeAfter, in.CreationTimeBefore)
	})
	byName := deref(in.SortBy, "CreationTime") == "Name"
	slices.SortFunc(all, func(x, y T) int {
		if deref(in.SortOrder, "Descending") == "Descending" {
			x, y = y, x
		}
		a, since := of(x)
		b, until := of(y)
		if byName {
			return strings.Compare(a, b)
		}
		return cmp.Or(since.Compare(until), strings.Compare(a, b))
	})
	return paged(all, in.MaxResults, in.NextToken, 10, 100, wire.ValidationException)
}

// paged is the page of a listing that a token names, and the token of the next; badToken is the code of a token that is
// none.
func paged[T any](all []T, limit *int, token *string, usual, most int, badToken string) (page []T, next string, err error) {
	n, from := deref(limit, usual), 0
	if n < 1 || n > most {
		return nil, "", wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: Member must have value between 1 and %d", n, most)
	}
	if token != nil {
		if from, err = strconv.Atoi(strings.TrimPrefix(*token, "after-")); err != nil || from < 0 || from > len(all) {
			return nil, "", wire.Refuse(badToken, "The NextToken %q is not valid.", *token)
		}
	}
	if to := from + n; to < len(all) {
		return all[from:to], "after-" + strconv.Itoa(to), nil
	}
	return all[from:], "", nil
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

type tag struct{ Key, Value string }

type tagsIn struct {
	ResourceArn *string
	Tags        []tag
	TagKeys     []string
	MaxResults  *int
	NextToken   *string
}

type tagsOut struct {
	Tags      []tag
	NextToken string `json:",omitempty"`
}

const mostTags = 50

// tagged is the tags of a resource that exists. l.mu is held.
func (l *Local) tagged(arn *string) (map[string]string, error) {
	if arn == nil {
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value null at 'resourceArn' failed to satisfy constraint: Member must not be null")
	}
	rest, ours := strings.CutPrefix(*arn, l.arn("sagemaker", ""))
	kind, name, _ := strings.Cut(rest, "/")
	exists := false
	switch kind {
	case "endpoint":
		exists = l.endpoints[name] != nil
	case "endpoint-config":
		exists = l.configs[name] != nil
	case "model":
		exists = l.models[name] != nil
	case "inference-component":
		exists = l.components[name] != nil
	}
	if !ours || !exists {
		return nil, wire.Refuse(wire.ValidationException, "Could not find resource %q.", *arn)
	}
	if l.tags[*arn] == nil {
		l.tags[*arn] = map[string]string{}
	}
	return l.tags[*arn], nil
}

// putTags are the tags that a resource is created with. l.mu is held.
func (l *Local) putTags(arn string, tags []tag) {
	for _, t := range tags {
		l.tagsOf(arn)[t.Key] = t.Value
	}
}

func (l *Local) addTags(_ context.Context, in *tagsIn) (*tagsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := l.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	merged := maps.Clone(have)
	for _, t := range in.Tags {
		switch {
		case t.Key == "" || len(t.Key) > 128 || len(t.Value) > 256:
			return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: the tag %q has a key of %d and a value of %d characters: 1 to 128 and 0 to 256 are possible", t.Key, len(t.Key), len(t.Value))
		case strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return nil, wire.Refuse(wire.ValidationException, "aws: prefixed tag key names are not allowed for external use.")
		}
		merged[t.Key] = t.Value
	}
	if len(merged) > mostTags {
		return nil, wire.Refuse(wire.LimitExceeded, "The resource %q would have %d tags, %d are the limit.", *in.ResourceArn, len(merged), mostTags)
	}
	l.tags[*in.ResourceArn] = merged
	return &tagsOut{Tags: sortedTags(merged)}, nil
}

func (l *Local) listTags(_ context.Context, in *tagsIn) (*tagsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := l.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(sortedTags(have), in.MaxResults, in.NextToken, mostTags, mostTags, wire.ValidationException)
	if err != nil {
		return nil, err
	}
	return &tagsOut{page, next}, nil
}

type nothing struct{}

func (l *Local) deleteTags(_ context.Context, in *tagsIn) (*nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := l.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	for _, k := range in.TagKeys {
		delete(have, k)
	}
	return &nothing{}, nil
}

func sortedTags(m map[string]string) []tag {
	out := []tag{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, tag{k, m[k]})
	}
	return out
}

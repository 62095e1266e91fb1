package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"loadline/internal/fleet"
	"loadline/internal/wire"
)

// sagemaker is the control plane.
var sagemaker = service{"SageMaker", map[string]operation{
	"DescribeEndpoint":                   op((*Local).describeEndpoint),
	"DescribeEndpointConfig":             op((*Local).describeEndpointConfig),
	"DescribeModel":                      op((*Local).describeModel),
	"ListEndpoints":                      op((*Local).listEndpoints),
	"UpdateEndpointWeightsAndCapacities": op((*Local).updateWeightsAndCapacities),
	"AddTags":                            op((*Local).addTags),
	"ListTags":                           op((*Local).listTags),
	"DeleteTags":                         op((*Local).deleteTags),
}}

// endpointConfig and model are what DescribeEndpointConfig and DescribeModel answer.
type endpointConfig struct {
	EndpointConfigName string
	EndpointConfigArn  string
	ProductionVariants []configVariant
	CreationTime       wire.Stamp
}

type configVariant struct {
	VariantName                                 string
	ModelName                                   string
	InitialInstanceCount                        int
	InstanceType                                string
	InitialVariantWeight                        float64
	RoutingConfig                               routingConfig
	ContainerStartupHealthCheckTimeoutInSeconds int `json:",omitempty"`
}

type routingConfig struct{ RoutingStrategy Routing }

type model struct {
	ModelName              string
	ModelArn               string
	PrimaryContainer       container
	ExecutionRoleArn       string
	CreationTime           wire.Stamp
	EnableNetworkIsolation bool
}

type container struct {
	Image       string
	Mode        string
	Environment map[string]string `json:",omitempty"`
}

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

type describeEndpointIn struct{ EndpointName *string }

type describeEndpointOut struct {
	EndpointName       string
	EndpointArn        string
	EndpointConfigName string
	ProductionVariants []variantSummary
	EndpointStatus     fleet.Status
	FailureReason      string `json:",omitempty"`
	CreationTime       wire.Stamp
	LastModifiedTime   wire.Stamp
}

type variantSummary struct {
	VariantName          string
	DeployedImages       []deployedImage
	CurrentWeight        float64
	DesiredWeight        float64
	CurrentInstanceCount int
	DesiredInstanceCount int
	RoutingConfig        routingConfig
	VariantStatus        []variantStatus `json:",omitempty"`
}

type deployedImage struct {
	SpecifiedImage string
	ResolvedImage  string
	ResolutionTime wire.Stamp
}

type variantStatus struct {
	Status        string
	StartTime     wire.Stamp
	StatusMessage string `json:",omitempty"`
}

func (l *Local) describeEndpoint(_ context.Context, in *describeEndpointIn) (*describeEndpointOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ep, err := l.endpointNamed("endpointName", in.EndpointName)
	if err != nil {
		return nil, err
	}
	f := ep.fleet
	out := &describeEndpointOut{
		EndpointName: f.Name, EndpointArn: l.endpointARN(f.Name), EndpointConfigName: ep.config.EndpointConfigName,
		EndpointStatus: f.Status, FailureReason: f.Reason, CreationTime: wire.At(f.Created), LastModifiedTime: wire.At(f.Modified),
	}
	for i, v := range f.Variants() {
		image := ep.spec.Variants[i].Model.Image
		s := variantSummary{
			VariantName: v.Name, DeployedImages: []deployedImage{{image, image, wire.At(f.Created)}},
			CurrentWeight: v.Weight, DesiredWeight: v.DesiredWeight,
			CurrentInstanceCount: v.Current(), DesiredInstanceCount: v.Desired,
			RoutingConfig: ep.config.ProductionVariants[i].RoutingConfig,
		}
		if f.Status == fleet.Creating || f.Status == fleet.Updating {
			s.VariantStatus = []variantStatus{{string(f.Status), wire.At(f.Modified), ""}}
		}
		out.ProductionVariants = append(out.ProductionVariants, s)
	}
	return out, nil
}

type describeEndpointConfigIn struct{ EndpointConfigName *string }

func (l *Local) describeEndpointConfig(_ context.Context, in *describeEndpointConfigIn) (*endpointConfig, error) {
	name, err := named("endpointConfigName", in.EndpointConfigName, 63)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.configs[name]
	if c == nil {
		return nil, wire.Refuse(wire.ValidationException, "Could not find endpoint configuration %q.", l.arn("sagemaker", "endpoint-config/"+name))
	}
	return c, nil // never changed once made
}

type describeModelIn struct{ ModelName *string }

func (l *Local) describeModel(_ context.Context, in *describeModelIn) (*model, error) {
	name, err := named("modelName", in.ModelName, 63)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.models[name]
	if m == nil {
		return nil, wire.Refuse(wire.ValidationException, "Could not find model %q.", l.arn("sagemaker", "model/"+name))
	}
	return m, nil // never changed once made
}

type listEndpointsIn struct {
	NameContains, StatusEquals, SortBy, SortOrder, NextToken *string
	MaxResults                                               *int
	CreationTimeAfter, CreationTimeBefore                    *wire.Stamp
	LastModifiedTimeAfter, LastModifiedTimeBefore            *wire.Stamp
}

type listEndpointsOut struct {
	Endpoints []endpointSummary
	NextToken string `json:",omitempty"`
}

type endpointSummary struct {
	EndpointName, EndpointArn      string
	CreationTime, LastModifiedTime wire.Stamp
	EndpointStatus                 fleet.Status
}

func (l *Local) listEndpoints(_ context.Context, in *listEndpointsIn) (*listEndpointsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := &listEndpointsOut{Endpoints: []endpointSummary{}}
	outside := func(t time.Time, after, before *wire.Stamp) bool {
		return after != nil && !t.After(after.Time) || before != nil && !t.Before(before.Time)
	}
	for name, ep := range l.endpoints {
		f := ep.fleet
		switch {
		case in.NameContains != nil && !strings.Contains(name, *in.NameContains),
			in.StatusEquals != nil && string(f.Status) != *in.StatusEquals,
			outside(f.Created, in.CreationTimeAfter, in.CreationTimeBefore),
			outside(f.Modified, in.LastModifiedTimeAfter, in.LastModifiedTimeBefore):
			continue
		}
		out.Endpoints = append(out.Endpoints, endpointSummary{name, l.endpointARN(name), wire.At(f.Created), wire.At(f.Modified), f.Status})
	}
	by, order := deref(in.SortBy, "CreationTime"), deref(in.SortOrder, "Descending")
	sort.Slice(out.Endpoints, func(i, j int) bool {
		a, b := out.Endpoints[i], out.Endpoints[j]
		if order == "Descending" {
			a, b = b, a
		}
		switch {
		case by == "CreationTime" && !a.CreationTime.Equal(b.CreationTime.Time):
			return a.CreationTime.Before(b.CreationTime.Time)
		case by == "Status" && a.EndpointStatus != b.EndpointStatus:
			return a.EndpointStatus < b.EndpointStatus
		}
		return a.EndpointName < b.EndpointName
	})
	page, next, err := paged(out.Endpoints, in.MaxResults, in.NextToken, 10, 100, wire.ValidationException)
	if err != nil {
		return nil, err
	}
	out.Endpoints, out.NextToken = page, next
	return out, nil
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

type updateWeightsIn struct {
	EndpointName                *string
	DesiredWeightsAndCapacities []struct {
		VariantName          *string
		DesiredWeight        *float64
		DesiredInstanceCount *int
	}
}

type endpointARNOut struct{ EndpointArn string }

func (l *Local) updateWeightsAndCapacities(_ context.Context, in *updateWeightsIn) (*endpointARNOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ep, err := l.endpointNamed("endpointName", in.EndpointName)
	if err != nil {
		return nil, err
	}
	if len(in.DesiredWeightsAndCapacities) == 0 {
		return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value null at 'desiredWeightsAndCapacities' failed to satisfy constraint: Member must not be null")
	}
	var changes []fleet.Change
	for _, c := range in.DesiredWeightsAndCapacities {
		name, err := named("desiredWeightsAndCapacities.1.member.variantName", c.VariantName, 63)
		if err != nil {
			return nil, err
		}
		if c.DesiredWeight != nil && !(*c.DesiredWeight >= 0) {
			return nil, wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%v' at 'desiredWeightsAndCapacities.1.member.desiredWeight' failed to satisfy constraint: Member must have value greater than or equal to 0", *c.DesiredWeight)
		}
		changes = append(changes, fleet.Change{Variant: name, Desired: c.DesiredInstanceCount, Weight: c.DesiredWeight})
	}
	if err := l.setCapacity(ep, changes); err != nil {
		return nil, err
	}
	return &endpointARNOut{l.endpointARN(ep.fleet.Name)}, nil
}

// setCapacity asks the fleet and puts its refusals in AWS's words. l.mu is held.
func (l *Local) setCapacity(ep *endpoint, changes []fleet.Change) error {
	events, err := ep.fleet.SetCapacity(l.now(), changes, l.quota)
	var (
		variant *fleet.VariantError
		count   *fleet.CountError
		limit   *fleet.LimitError
	)
	switch {
	case err == nil:
		for _, v := range ep.fleet.Variants() {
			ep.route.variant(v.Name).weigh(v.Weight)
		}
		l.act(ep, events)
		return nil
	case errors.Is(err, fleet.ErrInProgress):
		return wire.Refuse(wire.ValidationException, "Cannot update in-progress endpoint %q.", l.endpointARN(ep.fleet.Name))
	case errors.As(err, &variant):
		return wire.Refuse(wire.ValidationException, "Could not find variant(s) %q in endpoint %q.", variant.Variant, l.endpointARN(ep.fleet.Name))
	case errors.As(err, &count):
		return wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%d' at 'desiredWeightsAndCapacities.1.member.desiredInstanceCount' failed to satisfy constraint: Member must have value greater than or equal to 1", count.Count)
	case errors.As(err, &limit):
		return wire.Refuse(wire.LimitExceeded, "The account-level service limit '%s for endpoint usage' is %d Instances, with current utilization of %d Instances and a request delta of %d Instances. Please use AWS Service Quotas to request an increase for this quota.",
			limit.InstanceType, limit.Limit, limit.Used, limit.Delta)
	}
	return err
}

// quota counts the account's instances of a type. l.mu is held.
func (l *Local) quota(instanceType string) (limit, used int) {
	for _, ep := range l.endpoints {
		used += ep.fleet.Held(instanceType)
	}
	return l.cfg.Quota, used
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
	}
	if !ours || !exists {
		return nil, wire.Refuse(wire.ValidationException, "Could not find resource %q.", *arn)
	}
	if l.tags[*arn] == nil {
		l.tags[*arn] = map[string]string{}
	}
	return l.tags[*arn], nil
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

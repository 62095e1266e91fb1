package awsfleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"

	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/exit"
	"loadline/internal/freeze"
)

// ErrMissing is an endpoint that AWS says does not exist.
var ErrMissing = errors.New("endpoint does not exist")

// Variant is one production variant of an endpoint. It is for one goroutine at a time, but for Count, Read and Firing.
type Variant struct {
	Say  func(string)  // told what is being done, again and again while it waits; never nil
	Note func(string)  // told what the owner should know afterwards; never nil
	Poll time.Duration // first pause between looks at an endpoint that is changing; pauses grow to 20 times that

	region, endpoint, name string
	component              string // inference component whose copies scale; "": instances do
	local                  bool
	sagemaker              *sagemaker.Client
	scaling                *applicationautoscaling.Client
	cloudwatch             *cloudwatch.Client
	logs                   *cloudwatchlogs.Client
}

// Open finds the variant. An empty name is the endpoint's only one; where it has several, one has to be named.
func Open(ctx context.Context, cfg aws.Config, endpoint, variant string) (*Variant, error) {
	v := &Variant{
		Say: func(string) {}, Note: func(string) {}, Poll: time.Second,
		region: cfg.Region, endpoint: endpoint, name: variant,
		sagemaker:  sagemaker.NewFromConfig(cfg),
		scaling:    applicationautoscaling.NewFromConfig(cfg),
		cloudwatch: cloudwatch.NewFromConfig(cfg),
		logs:       cloudwatchlogs.NewFromConfig(cfg),
	}
	if cfg.BaseEndpoint != nil && loopback(*cfg.BaseEndpoint) {
		v.Poll, v.local = 50*time.Millisecond, true
	}
	if !audit.ValidName(endpoint) {
		return nil, exit.Misuse(fmt.Errorf("endpoint name %q is not one: 1 to 63 letters, digits and single hyphens", endpoint))
	}
	out, err := v.describe(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(out.ProductionVariants))
	for i, pv := range out.ProductionVariants {
		names[i] = aws.ToString(pv.VariantName)
	}
	switch {
	case variant != "" && !slices.Contains(names, variant):
		return nil, exit.Misuse(fmt.Errorf("endpoint %s has no variant %q: it has %s", endpoint, variant, strings.Join(names, ", ")))
	case variant == "" && len(names) > 1:
		return nil, exit.Misuse(fmt.Errorf("endpoint %s has several variants: name one with --variant: %s", endpoint, strings.Join(names, ", ")))
	case variant == "" && len(names) == 1:
		v.name = names[0]
	case len(names) == 0:
		return nil, exit.Refuse(fmt.Errorf("endpoint %s is %s and has no variant: wait until it is InService", endpoint, out.EndpointStatus))
	}
	return v, nil
}

// Name is the variant's name.
func (v *Variant) Name() string { return v.name }

func (v *Variant) describe(ctx context.Context) (*sagemaker.DescribeEndpointOutput, error) {
	out, err := v.sagemaker.DescribeEndpoint(ctx, &sagemaker.DescribeEndpointInput{EndpointName: &v.endpoint})
	switch {
	case err == nil:
		return out, nil
	case is(err, "ValidationException", "Could not find endpoint"):
		return nil, v.missing(ctx)
	}
	return nil, unread("read endpoint "+v.endpoint, err)
}

// missing is ErrMissing with the names that come nearest.
func (v *Variant) missing(ctx context.Context) error {
	err := fmt.Errorf("%w: %q in %s", ErrMissing, v.endpoint, v.region)
	var names []string
	pages := sagemaker.NewListEndpointsPaginator(v.sagemaker, &sagemaker.ListEndpointsInput{MaxResults: aws.Int32(100)})
	for pages.HasMorePages() && len(names) < 1000 {
		page, listErr := pages.NextPage(ctx)
		if listErr != nil {
			return exit.Refuse(fmt.Errorf("%w (its neighbours could not be listed: %v)", err, plain(listErr)))
		}
		for _, e := range page.Endpoints {
			names = append(names, aws.ToString(e.EndpointName))
		}
	}
	if len(names) == 0 {
		return exit.Refuse(fmt.Errorf("%w: the region has no endpoint; is --region right?", err))
	}
	return exit.Refuse(fmt.Errorf("%w: the nearest there: %s", err, strings.Join(nearest(v.endpoint, names, 5), ", ")))
}

// nearest is the n names that share most with name, counted in pairs of neighbouring letters.
func nearest(name string, names []string, n int) []string {
	pairs := func(s string) map[string]bool {
		set := map[string]bool{}
		for i := 0; i+2 <= len(s); i++ {
			set[strings.ToLower(s[i:i+2])] = true
		}
		return set
	}
	want := pairs(name)
	score := map[string]float64{}
	for _, other := range names {
		have := pairs(other)
		shared := 0
		for p := range have {
			if want[p] {
				shared++
			}
		}
		score[other] = 2 * float64(shared) / float64(len(have)+len(want)+1)
	}
	sorted := slices.SortedFunc(maps.Keys(score), func(a, b string) int {
		if score[a] != score[b] {
			if score[a] > score[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return sorted[:min(n, len(sorted))]
}

// Count is the variant's status and counts, or its component's, by one call.
func (v *Variant) Count(ctx context.Context) (status string, desired, current int, err error) {
	if v.component != "" {
		c, err := v.copies(ctx)
		return c.Status, c.Desired, c.Current, err
	}
	out, err := v.describe(ctx)
	if err != nil {
		return "", 0, 0, err
	}
	pv, err := v.of(out)
	if err != nil {
		return "", 0, 0, err
	}
	return string(out.EndpointStatus), int(aws.ToInt32(pv.DesiredInstanceCount)), int(aws.ToInt32(pv.CurrentInstanceCount)), nil
}

func (v *Variant) of(out *sagemaker.DescribeEndpointOutput) (*sm.ProductionVariantSummary, error) {
	for i := range out.ProductionVariants {
		if aws.ToString(out.ProductionVariants[i].VariantName) == v.name {
			return &out.ProductionVariants[i], nil
		}
	}
	return nil, exit.Refuse(fmt.Errorf("endpoint %s no longer has a variant %s", v.endpoint, v.name))
}

// Inspect reads everything that decides whether and how the variant is measured.
func (v *Variant) Inspect(ctx context.Context) (freeze.Variant, error) {
	s, err := v.State(ctx)
	if err != nil {
		return s, err
	}
	if err := v.fingerprint(ctx, &s); err != nil {
		return s, err
	}
	if n, err := v.invocations(ctx); err == nil {
		s.Invocations = &n
		if v.component != "" { // what is published is per copy
			n *= float64(max(1, s.Current))
		}
	} else {
		v.Note(fmt.Sprintf("its traffic of the last 10 minutes could not be read: %v", err))
	}
	if v.component != "" {
		if s.Neighbours, err = v.neighbours(ctx); err != nil {
			v.Note(fmt.Sprintf("whether other inference components share its instances could not be read: %v", plain(err)))
		}
	}
	return s, context.Cause(ctx)
}

// State reads what a freeze changes, the endpoint's tags included.
func (v *Variant) State(ctx context.Context) (freeze.Variant, error) {
	s, err := v.state(ctx)
	if err != nil {
		return s, err
	}
	if s.Tags, err = v.tags(ctx, s.ARN); err != nil {
		v.Note(fmt.Sprintf("its tags could not be read: %v", plain(err)))
	}
	return s, context.Cause(ctx)
}

// state reads scaling, count and status: what has to be read again and again while a change takes its course.
func (v *Variant) state(ctx context.Context) (freeze.Variant, error) {
	s := freeze.Variant{Region: v.region, Endpoint: v.endpoint, Name: v.name}
	out, err := v.describe(ctx)
	if err != nil {
		return s, err
	}
	pv, err := v.of(out)
	if err != nil {
		return s, err
	}
	s.ARN = aws.ToString(out.EndpointArn)
	s.Siblings = len(out.ProductionVariants) - 1
	s.Status = string(out.EndpointStatus)
	s.Desired, s.Current = int(aws.ToInt32(pv.DesiredInstanceCount)), int(aws.ToInt32(pv.CurrentInstanceCount))
	s.Async = out.AsyncInferenceConfig != nil
	s.Fingerprint.ImageDigest = deployedDigest(pv)
	if v.component != "" {
		c, err := v.copies(ctx)
		if err != nil {
			return s, err
		}
		s.Component, s.Desired, s.Current = v.component, c.Desired, c.Current
		if s.Status == freeze.InService {
			s.Status = c.Status
		}
	}

	s.Target, err = v.target(ctx)
	return s, err
}

// tags is the endpoint's tags, nil with an error where they could not be read.
func (v *Variant) tags(ctx context.Context, arn string) (map[string]string, error) {
	pages := sagemaker.NewListTagsPaginator(v.sagemaker, &sagemaker.ListTagsInput{ResourceArn: &arn})
	tags := map[string]string{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tags {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
	}
	return tags, nil
}

// Of makes the copies of an inference component what scales; "" leaves it to instances.
func (v *Variant) Of(component string) *Variant {
	v.component = component
	return v
}

// Take is Of, as measure.Thawable has it.
func (v *Variant) Take(component string) { v.component = component }

// resource is the id under which Application Auto Scaling knows the variant, or its inference component.
func (v *Variant) resource() string {
	if v.component != "" {
		return audit.ComponentResource(v.component)
	}
	return audit.Resource(v.endpoint, v.name)
}

func (v *Variant) dimension() aas.ScalableDimension {
	return aas.ScalableDimension(audit.Dimension(v.resource()))
}

// target reads the scalable target, nil when there is none. It is asked for by its exact id: a listing may leave out what
// exists.
func (v *Variant) target(ctx context.Context) (*freeze.Target, error) {
	out, err := v.scaling.DescribeScalableTargets(ctx, &applicationautoscaling.DescribeScalableTargetsInput{
		ServiceNamespace:  aas.ServiceNamespaceSagemaker,
		ScalableDimension: v.dimension(),
		ResourceIds:       []string{v.resource()},
	})
	if err != nil {
		return nil, unread("read the scalable target "+v.resource(), err)
	}
	for _, t := range out.ScalableTargets {
		if aws.ToString(t.ResourceId) != v.resource() {
			continue
		}
		target := &freeze.Target{Min: int(aws.ToInt32(t.MinCapacity)), Max: int(aws.ToInt32(t.MaxCapacity))}
		if s := t.SuspendedState; s != nil { // absent and {} are the same as all active
			target.Suspended = freeze.Flags{
				Out:   aws.ToBool(s.DynamicScalingOutSuspended),
				In:    aws.ToBool(s.DynamicScalingInSuspended),
				Sched: aws.ToBool(s.ScheduledScalingSuspended),
			}
		}
		return target, nil
	}
	return nil, nil
}

// fingerprint reads the endpoint config and the model behind the variant.
func (v *Variant) fingerprint(ctx context.Context, s *freeze.Variant) error {
	out, err := v.describe(ctx)
	if err != nil {
		return err
	}
	conf, err := v.sagemaker.DescribeEndpointConfig(ctx, &sagemaker.DescribeEndpointConfigInput{EndpointConfigName: out.EndpointConfigName})
	if err != nil {
		return unread("read endpoint config "+aws.ToString(out.EndpointConfigName), err)
	}
	var variant *sm.ProductionVariant
	for i := range conf.ProductionVariants {
		if aws.ToString(conf.ProductionVariants[i].VariantName) == v.name {
			variant = &conf.ProductionVariants[i]
		}
	}
	if variant == nil {
		return exit.CannotTell(fmt.Errorf("endpoint config %s has no variant %s: it was changed while it was read", aws.ToString(out.EndpointConfigName), v.name))
	}
	s.Async = s.Async || conf.AsyncInferenceConfig != nil
	s.Serverless = variant.ServerlessConfig != nil
	s.Fingerprint.Region = v.region
	s.Fingerprint.InstanceType = string(variant.InstanceType)
	if r := variant.RoutingConfig; r != nil {
		s.Routing = string(r.RoutingStrategy)
	} else {
		s.Routing = string(sm.RoutingStrategyRandom)
	}
	var containers []sm.ContainerDefinition
	switch name := variant.ModelName; {
	case name == nil && v.component == "":
		s.Components = true
		return nil
	case name == nil:
		component, inner, err := inside(ctx, v.sagemaker, v.component)
		if err != nil {
			return unread("read inference component "+v.component, err)
		}
		containers, s.Fingerprint.Copy = inner, copyOf(component)
	default:
		if containers, err = ofModel(ctx, v.sagemaker, name); err != nil {
			return unread("read model "+*name, err)
		}
	}
	s.Containers = len(containers)
	if len(containers) != 1 {
		return nil
	}
	c := containers[0]
	if s.Fingerprint.ImageDigest == "" {
		s.Fingerprint.ImageDigest = artifact.ImageDigest(aws.ToString(c.Image))
	}
	env := c.Environment
	if env == nil { // none is set, which is not the same as not known
		env = map[string]string{}
	}
	s.Fingerprint.ContainerEnv, _ = artifact.ContainerEnv(env)
	bound, bad := queueBound(env)
	s.BadBound = bad
	if bad == "" {
		s.Fingerprint.QueueBound = &bound
	}
	return nil
}

// deployedDigest is the digest of the image that the variant runs, as the platform resolved it.
func deployedDigest(pv *sm.ProductionVariantSummary) string {
	for _, image := range pv.DeployedImages {
		if d := artifact.ImageDigest(aws.ToString(image.ResolvedImage)); d != "" {
			return d
		}
	}
	return ""
}

// queueBound is the most requests that the container takes at once, the smallest of its bounds, 0 for none, and the
// setting that is no count.
func queueBound(env map[string]string) (bound int, bad string) {
	for _, key := range artifact.Bounds {
		text, ok := env[key]
		if !ok || text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, fmt.Sprintf("%s=%q", key, text)
		}
		if n > 0 && (bound == 0 || n < bound) {
			bound = n
		}
	}
	return bound, ""
}

// Local says whether the endpoint is on this machine.
func (v *Variant) Local() bool { return v.local }

package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aastypes "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker"
	smtypes "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"

	"loadline/internal/autoscale"
	"loadline/internal/fleet"
)

// instanceCount is the dimension that the tests scale.
const instanceCount = autoscale.InstanceCount

// set asks for so many instances of variant primary.
func (w *world) set(t *testing.T, n int32) error {
	_, err := w.sm.UpdateEndpointWeightsAndCapacities(t.Context(), &sm.UpdateEndpointWeightsAndCapacitiesInput{EndpointName: aws.String(speech),
		DesiredWeightsAndCapacities: []smtypes.DesiredWeightAndCapacity{{VariantName: aws.String("primary"), DesiredInstanceCount: aws.Int32(n)}}})
	return err
}

func TestDescribe(t *testing.T) {
	e := one(2)
	e.Variants[0].Model.Env["MAX_QUEUE_DEPTH"] = "50"
	w := serving(t, Config{Endpoints: []Endpoint{e}}, ok)
	out, err := w.sm.DescribeEndpoint(t.Context(), &sm.DescribeEndpointInput{EndpointName: aws.String(speech)})
	if err != nil {
		t.Fatal(err)
	}
	v := out.ProductionVariants[0]
	if out.EndpointStatus != "InService" || *out.EndpointArn != "arn:aws:sagemaker:us-east-1:000000000000:endpoint/"+speech ||
		time.Since(*out.CreationTime) > time.Minute || len(out.ProductionVariants) != 1 ||
		*v.VariantName != "primary" || *v.CurrentInstanceCount != 2 || *v.DesiredInstanceCount != 2 || *v.CurrentWeight != 1 {
		t.Errorf("endpoint: %+v, variant %+v", out, v)
	}
	cfg, err := w.sm.DescribeEndpointConfig(t.Context(), &sm.DescribeEndpointConfigInput{EndpointConfigName: out.EndpointConfigName})
	if err != nil {
		t.Fatal(err)
	}
	pv := cfg.ProductionVariants[0]
	if pv.InstanceType != "ml.g5.xlarge" || *pv.InitialInstanceCount != 2 || pv.RoutingConfig.RoutingStrategy != "LEAST_OUTSTANDING_REQUESTS" {
		t.Errorf("configuration: %+v", pv)
	}
	m, err := w.sm.DescribeModel(t.Context(), &sm.DescribeModelInput{ModelName: pv.ModelName})
	if err != nil {
		t.Fatal(err)
	}
	if c := m.PrimaryContainer; !strings.Contains(*c.Image, "@sha256:abab") || c.Environment["MAX_QUEUE_DEPTH"] != "50" || c.Environment["ENDPOINT_NAME"] != speech {
		t.Errorf("model: %+v", c)
	}
	if image := v.DeployedImages[0]; *image.ResolvedImage != *m.PrimaryContainer.Image {
		t.Errorf("deployed image: %+v", image)
	}
}

func TestSageMakerErrors(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}, Quota: 4}, ok)
	ctx := t.Context()
	_, err := w.sm.DescribeEndpoint(ctx, &sm.DescribeEndpointInput{EndpointName: aws.String("nobody")})
	wants(t, err, "ValidationException", 400, `Could not find endpoint "arn:aws:sagemaker:us-east-1:000000000000:endpoint/nobody".`)
	_, err = w.sm.DescribeEndpoint(ctx, &sm.DescribeEndpointInput{EndpointName: aws.String("no_body")})
	wants(t, err, "ValidationException", 400, "regular expression")
	_, err = w.sm.DescribeEndpoint(ctx, &sm.DescribeEndpointInput{EndpointName: aws.String(strings.Repeat("a", 64))})
	wants(t, err, "ValidationException", 400, "length less than or equal to 63")
	_, err = w.sm.DescribeEndpointConfig(ctx, &sm.DescribeEndpointConfigInput{EndpointConfigName: aws.String("nobody")})
	wants(t, err, "ValidationException", 400, "Could not find endpoint configuration")
	_, err = w.sm.DescribeModel(ctx, &sm.DescribeModelInput{ModelName: aws.String("nobody")})
	wants(t, err, "ValidationException", 400, "Could not find model")
	_, err = w.sm.ListEndpoints(ctx, &sm.ListEndpointsInput{NextToken: aws.String("stolen")})
	wants(t, err, "ValidationException", 400, "NextToken")
	_, err = w.sm.ListEndpoints(ctx, &sm.ListEndpointsInput{MaxResults: aws.Int32(101)})
	wants(t, err, "ValidationException", 400, "maxResults")

	wants(t, w.set(t, 0), "ValidationException", 400, "greater than or equal to 1")
	wants(t, w.set(t, 5), "ResourceLimitExceeded", 400,
		"The account-level service limit 'ml.g5.xlarge for endpoint usage' is 4 Instances, with current utilization of 1 Instances and a request delta of 4 Instances.")
	_, err = w.sm.UpdateEndpointWeightsAndCapacities(ctx, &sm.UpdateEndpointWeightsAndCapacitiesInput{EndpointName: aws.String(speech),
		DesiredWeightsAndCapacities: []smtypes.DesiredWeightAndCapacity{{VariantName: aws.String("blue"), DesiredInstanceCount: aws.Int32(1)}}})
	wants(t, err, "ValidationException", 400, `Could not find variant(s) "blue"`)
	_, err = w.sm.ListTags(ctx, &sm.ListTagsInput{ResourceArn: aws.String("arn:aws:sagemaker:us-east-1:000000000000:endpoint/nobody")})
	wants(t, err, "ValidationException", 400, "Could not find")
	if out := w.settled(t); *out.ProductionVariants[0].DesiredInstanceCount != 1 {
		t.Error("a refused change changed something")
	}
}

// TestScaling takes a fleet from 1 to 3 and back with requests under way: none is lost, and the instances' processes come
// and go.
func TestScaling(t *testing.T) {
	e := one(1)
	e.Variants[0].Stages = fleet.Stages{Provision: 100 * time.Millisecond, Settle: 10 * time.Millisecond}
	w := serving(t, Config{Endpoints: []Endpoint{e}}, ok)
	stop, failed := make(chan bool), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			if _, err := w.invoke(t, "x"); err != nil {
				failed <- err
				return
			}
		}
	}()
	if err := w.set(t, 3); err != nil {
		t.Fatal(err)
	}
	out, err := w.sm.DescribeEndpoint(t.Context(), &sm.DescribeEndpointInput{EndpointName: aws.String(speech)})
	if err != nil || out.EndpointStatus != "Updating" || *out.ProductionVariants[0].CurrentInstanceCount != 1 || *out.ProductionVariants[0].DesiredInstanceCount != 3 {
		t.Errorf("while instances come: %v %+v", err, out)
	}
	wants(t, w.set(t, 2), "ValidationException", 400, `Cannot update in-progress endpoint "arn:aws:sagemaker:us-east-1:000000000000:endpoint/`+speech+`".`)
	if got := *w.settled(t).ProductionVariants[0].CurrentInstanceCount; got != 3 {
		t.Errorf("%d instances", got)
	}
	if err := w.set(t, 1); err != nil {
		t.Fatal(err)
	}
	if got := *w.settled(t).ProductionVariants[0].CurrentInstanceCount; got != 1 {
		t.Errorf("%d instances", got)
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Errorf("a request failed while the fleet changed: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	running, seeds := 0, map[uint64]bool{}
	for i, b := range w.boxes {
		if !b.ended.Load() {
			running++
		}
		if s := w.specs[i]; s.AtOnce != (i == 0) || seeds[s.Seed] {
			t.Errorf("instance %d: %+v", i, s)
		}
		seeds[w.specs[i].Seed] = true
	}
	if running != 1 || len(w.boxes) != 3 {
		t.Errorf("%d of %d containers run", running, len(w.boxes))
	}
}

func TestListEndpoints(t *testing.T) {
	var endpoints []Endpoint
	for i := range 25 {
		e := one(1)
		e.Name = fmt.Sprintf("%c-%02d", "ab"[i%2], i)
		e.Variants[0].Max = 0
		endpoints = append(endpoints, e)
	}
	w := serving(t, Config{Endpoints: endpoints}, ok)
	var names []string
	for p := sm.NewListEndpointsPaginator(w.sm, &sm.ListEndpointsInput{SortBy: "Name", SortOrder: "Ascending", NameContains: aws.String("b-")}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Endpoints {
			names = append(names, *e.EndpointName)
		}
	}
	if len(names) != 12 || !slices.IsSorted(names) || names[0] != "b-01" {
		t.Errorf("%v", names)
	}
	out, err := w.sm.ListEndpoints(t.Context(), &sm.ListEndpointsInput{StatusEquals: "Updating"})
	if err != nil || len(out.Endpoints) != 0 {
		t.Errorf("%v %v", out, err)
	}
}

func TestTags(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}}, ok)
	arn := aws.String("arn:aws:sagemaker:us-east-1:000000000000:endpoint/" + speech)
	add := func(key, value string) error {
		_, err := w.sm.AddTags(t.Context(), &sm.AddTagsInput{ResourceArn: arn, Tags: []smtypes.Tag{{Key: &key, Value: &value}}})
		return err
	}
	if err := errors.Join(add("loadline:freeze", "out=0"), add("team", "speech"), add("team", "voice")); err != nil {
		t.Fatal(err)
	}
	wants(t, add("aws:mine", "x"), "ValidationException", 400, "aws:")
	if _, err := w.sm.DeleteTags(t.Context(), &sm.DeleteTagsInput{ResourceArn: arn, TagKeys: []string{"loadline:freeze"}}); err != nil {
		t.Fatal(err)
	}
	out, err := w.sm.ListTags(t.Context(), &sm.ListTagsInput{ResourceArn: arn})
	if err != nil || len(out.Tags) != 1 || *out.Tags[0].Key != "team" || *out.Tags[0].Value != "voice" {
		t.Errorf("%v %+v", err, out)
	}
	for i := range 49 {
		if err := add(fmt.Sprint(i), ""); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, add("one more", ""), "ResourceLimitExceeded", 400, "50")
}

func (w *world) register(t *testing.T, resource string, change func(*aas.RegisterScalableTargetInput)) error {
	in := &aas.RegisterScalableTargetInput{ServiceNamespace: "sagemaker", ResourceId: &resource, ScalableDimension: instanceCount}
	if change != nil {
		change(in)
	}
	_, err := w.aas.RegisterScalableTarget(t.Context(), in)
	return err
}

func (w *world) targets(t *testing.T, in aas.DescribeScalableTargetsInput) *aas.DescribeScalableTargetsOutput {
	t.Helper()
	in.ServiceNamespace = "sagemaker"
	out, err := w.aas.DescribeScalableTargets(t.Context(), &in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const primary = "endpoint/" + speech + "/variant/primary"

func TestScalableTarget(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}}, ok)
	target := func() aastypes.ScalableTarget {
		t.Helper()
		out := w.targets(t, aas.DescribeScalableTargetsInput{ResourceIds: []string{primary}})
		if len(out.ScalableTargets) != 1 {
			t.Fatalf("%d targets", len(out.ScalableTargets))
		}
		return out.ScalableTargets[0]
	}
	if tg := target(); *tg.MinCapacity != 1 || *tg.MaxCapacity != 9 || *tg.SuspendedState.DynamicScalingOutSuspended || tg.ScalableDimension != instanceCount {
		t.Errorf("%+v", tg)
	}
	// Suspending leaves the bounds and what is not named alone.
	suspend := func(s aastypes.SuspendedState) {
		t.Helper()
		if err := w.register(t, primary, func(in *aas.RegisterScalableTargetInput) { in.SuspendedState = &s }); err != nil {
			t.Fatal(err)
		}
	}
	suspend(aastypes.SuspendedState{DynamicScalingOutSuspended: aws.Bool(true), ScheduledScalingSuspended: aws.Bool(true)})
	suspend(aastypes.SuspendedState{ScheduledScalingSuspended: aws.Bool(false)})
	if tg := target(); *tg.MaxCapacity != 9 || !*tg.SuspendedState.DynamicScalingOutSuspended || *tg.SuspendedState.ScheduledScalingSuspended || *tg.SuspendedState.DynamicScalingInSuspended {
		t.Errorf("%+v", tg.SuspendedState)
	}
	// A minimum above the count moves the count.
	if err := w.register(t, primary, func(in *aas.RegisterScalableTargetInput) { in.MinCapacity = aws.Int32(3) }); err != nil {
		t.Fatal(err)
	}
	if got := *w.settled(t).ProductionVariants[0].CurrentInstanceCount; got != 3 {
		t.Errorf("%d instances under a minimum of 3", got)
	}
	policies, err := w.aas.DescribeScalingPolicies(t.Context(), &aas.DescribeScalingPoliciesInput{ServiceNamespace: "sagemaker"})
	if err != nil || len(policies.ScalingPolicies) != 0 {
		t.Errorf("%v %v", policies, err)
	}
	drop := func() error {
		_, err := w.aas.DeregisterScalableTarget(t.Context(), &aas.DeregisterScalableTargetInput{ServiceNamespace: "sagemaker", ResourceId: aws.String(primary), ScalableDimension: instanceCount})
		return err
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	wants(t, drop(), "ObjectNotFoundException", 400, "No scalable target found")
	wants(t, w.register(t, primary, nil), "ValidationException", 400, "MinCapacity and MaxCapacity")
}

// TestResourceIDs are ids that name no variant: malformed ones, and well-formed ones of a variant that is not there.
func TestResourceIDs(t *testing.T) {
	w := serving(t, Config{Endpoints: []Endpoint{one(1)}}, ok)
	bounds := func(in *aas.RegisterScalableTargetInput) { in.MinCapacity, in.MaxCapacity = aws.Int32(1), aws.Int32(4) }
	for id, text := range map[string]string{
		"endpoint/" + speech + "/variant/AllTraffic":       `Could not find variant "AllTraffic"`,
		"endpoint/" + speech + "-config/variant/primary":   "Could not find endpoint",
		speech + "/primary":                                "Unsupported resource ID",
		"endpoint/" + speech + "/variant/":                 "Unsupported resource ID",
		"variant/primary/endpoint/" + speech:               "Unsupported resource ID",
		"endpoint/" + speech + "/variant/primary/and/more": "Unsupported resource ID",
	} {
		wants(t, w.register(t, id, bounds), "ValidationException", 400, text)
	}
	wants(t, w.register(t, primary, func(in *aas.RegisterScalableTargetInput) { in.MinCapacity = aws.Int32(10) }), "ValidationException", 400, "Minimum capacity")
	wants(t, w.register(t, primary, func(in *aas.RegisterScalableTargetInput) {
		in.ScalableDimension = "ecs:service:DesiredCount"
	}), "ValidationException", 400, "dimension")
	if out := w.targets(t, aas.DescribeScalableTargetsInput{}); len(out.ScalableTargets) != 1 || *out.ScalableTargets[0].MinCapacity != 1 {
		t.Errorf("a refused registration left %+v", out.ScalableTargets)
	}
}

// TestLostTokens shows the listing that ends early: what is asked for by its id is always found.
func TestLostTokens(t *testing.T) {
	for _, lose := range []bool{false, true} {
		e := one(1)
		for _, name := range []string{"blue", "green"} {
			v := e.Variants[0]
			v.Name = name
			e.Variants = append(e.Variants, v)
		}
		w := serving(t, Config{Endpoints: []Endpoint{e}, LoseTokens: lose}, ok)
		out := w.targets(t, aas.DescribeScalableTargetsInput{MaxResults: aws.Int32(2)})
		if len(out.ScalableTargets) != 2 || (out.NextToken == nil) != lose {
			t.Errorf("lose %v: %d targets, token %v", lose, len(out.ScalableTargets), out.NextToken)
		}
		ids := []string{primary, "endpoint/" + speech + "/variant/blue", "endpoint/" + speech + "/variant/green"}
		if out := w.targets(t, aas.DescribeScalableTargetsInput{ResourceIds: ids}); len(out.ScalableTargets) != 3 {
			t.Errorf("lose %v: %d targets by their ids", lose, len(out.ScalableTargets))
		}
		_, err := w.aas.DescribeScalableTargets(t.Context(), &aas.DescribeScalableTargetsInput{ServiceNamespace: "sagemaker", ResourceIds: make([]string, 51)})
		wants(t, err, "ValidationException", 400, "50")
	}
}

// TestFailedScaleOut gives an instance up that does not start, and does not ask for it again and again because a target
// wants it.
func TestFailedScaleOut(t *testing.T) {
	var w *world
	starts := 0
	w = serving(t, Config{Endpoints: []Endpoint{one(1)}, Start: func(context.Context, Spec) (Instance, error) {
		if starts++; starts > 1 {
			return (*box)(nil), errors.New("no capacity")
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		b := &box{server: &http.Server{Handler: http.HandlerFunc(ok)}, addr: ln.Addr().String(), usage: func() Usage { return Usage{} }}
		go b.server.Serve(ln)
		return b, err
	}}, ok)
	if err := w.register(t, primary, func(in *aas.RegisterScalableTargetInput) { in.MinCapacity = aws.Int32(2) }); err != nil {
		t.Fatal(err)
	}
	out := w.settled(t)
	if v := out.ProductionVariants[0]; *v.CurrentInstanceCount != 1 || *v.DesiredInstanceCount != 1 || !strings.Contains(aws.ToString(out.FailureReason), "no capacity") {
		t.Errorf("%+v %s", v, aws.ToString(out.FailureReason))
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if starts != 2 {
		t.Errorf("%d containers were started", starts)
	}
	if _, err := w.invoke(t, "x"); err == nil {
		t.Error("it answers after its end")
	}
}

// Package stack is what is deployed, as three kinds of CloudFormation stack made by the AWS CDK: SpeechFoundation (roles,
// weights, images, alarm topic), SpeechModelCache (weights, fetched once and checked) and one Speech-<model> for each
// endpoint, with the constructs EndpointAutoscaling and EndpointObservability.
//
// Whether an endpoint scales was decided before, in package gate: a model without an open gate gets the template of one
// whose scaling is off, byte for byte. Reading models.yaml and running the CDK are left to the command.
//
//	err := stack.Synth("cdk.out", stack.Settings{}, []stack.Model{{Model: m, Gate: decision, Plan: plan}})
//
// Properties are written as CloudFormation names them, on plain CfnResources: nothing is in a template that is not here.
package stack

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"loadline/internal/artifact"
	"loadline/internal/gate"
	"loadline/internal/registry"
)

// Names of the stacks that every endpoint shares.
const (
	Foundation = "SpeechFoundation"
	ModelCache = "SpeechModelCache"
)

// Model is one endpoint to be deployed: what models.yaml says of it, and whether it scales. Plan counts only where the gate
// is open.
type Model struct {
	registry.Model
	Gate gate.Decision
	Plan *artifact.Plan
}

// Settings are what the operator chooses for all stacks.
type Settings struct {
	AlarmTopic   string   // ARN of the topic that alarms notify; "": the foundation's own
	AlarmEmail   string   // subscribed to the foundation's topic
	Clients      []string // ARNs of principals that may assume the client role; none: there is only a policy to attach
	TrustAccount bool     // everybody in the account may assume it
	Parameters   bool     // image, type and count are parameters of the template: for those who deploy it without this tool
}

var (
	noName = regexp.MustCompile(`[^A-Za-z0-9-]+`)
	noID   = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// Name is the name of the stack of a model.
func Name(model string) string { return "Speech-" + noName.ReplaceAllString(model, "-") }

// Synth makes the templates of the shared stacks and of each model into the folder out, a CDK cloud assembly. all is every
// model of the registry, which the shared stacks are for; models are those that get a stack of their own.
//
// It starts the CDK's kernel, a Node process, where none runs; jsii.Close ends it.
func Synth(out string, s Settings, all []registry.Model, models []Model) (err error) {
	names := map[string]string{}
	for _, m := range models {
		n := Name(m.Name)
		if other, twice := names[n]; twice {
			return fmt.Errorf("models %s and %s would both be stack %s: rename one", other, m.Name, n)
		}
		if n == Foundation || n == ModelCache {
			return fmt.Errorf("model %s would be stack %s, which every model shares: rename it", m.Name, n)
		}
		names[n] = m.Name
	}
	defer func() { // the kernel panics with what the CDK says
		if p := recover(); p != nil {
			err = fmt.Errorf("the CDK could not make the templates: %v", p)
		}
	}()
	app := awscdk.NewApp(&awscdk.AppProps{
		Outdir: jsii.String(out), AnalyticsReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false),
		Context: &map[string]any{"@aws-cdk/core:validateAgainstDefaultRules": true}, // a template that CloudFormation would refuse is an error
	})
	base := newStack(app, Foundation, "Loadline: roles, weights, images and the alarm topic that every speech endpoint shares.")
	foundation(base, s, all)
	cache := newStack(app, ModelCache, "Loadline: model weights, fetched once at a pinned revision and checked.")
	cache.s.AddStackDependency(base.s, nil)
	modelCache(cache, all)
	for _, m := range models {
		st := newStack(app, Name(m.Name), "Loadline: the endpoint of "+m.Name+".")
		st.s.AddStackDependency(base.s, nil)
		if Pinned(m.Model) {
			st.s.AddStackDependency(cache.s, nil)
		}
		endpoint(st, s, m)
	}
	app.Synth(nil)
	return nil
}

// Pinned says whether the weights of a model are synced: only what is pinned by revision and by hash is.
func Pinned(m registry.Model) bool {
	return m.Weights.Repo != "" && m.Weights.Revision != "" && m.Weights.SHA256 != ""
}

// scope is where resources are added: a stack, or a construct in it.
type scope struct {
	c constructs.Construct
	s awscdk.Stack
}

func newStack(app awscdk.App, name, description string) scope {
	// One template serves the CDK and those without it: no rule that asks for the CDK's bootstrap, which the CDK looks for
	// itself.
	synthesizer := awscdk.NewDefaultStackSynthesizer(&awscdk.DefaultStackSynthesizerProps{GenerateBootstrapVersionRule: jsii.Bool(false)})
	s := awscdk.NewStack(app, jsii.String(name), &awscdk.StackProps{
		StackName: jsii.String(name), Description: jsii.String(description), Synthesizer: synthesizer,
		Tags: &map[string]*string{"project": jsii.String("loadline")},
	})
	return scope{s, s}
}

// construct is a scope within s, whose resources carry its name.
func (s scope) construct(id string) scope {
	return scope{constructs.NewConstruct(s.c, jsii.String(id)), s.s}
}

type (
	object = map[string]any
	list   = []any
)

// resource is a resource of a template.
type resource struct {
	awscdk.CfnResource
	id string
}

// add puts a resource into the template under its name alone, or its construct's and its own.
func (s scope) add(id, kind string, properties object) resource {
	r := awscdk.NewCfnResource(s.c, jsii.String(id), &awscdk.CfnResourceProps{Type: jsii.String(kind), Properties: &properties})
	name := id
	if s.c != constructs.Construct(s.s) {
		name = *s.c.Node().Id() + id
	}
	r.OverrideLogicalId(jsii.String(name))
	return resource{r, name}
}

// keep leaves a resource in the account when its stack goes.
func (r resource) keep() resource {
	r.ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN, nil)
	return r
}

// after has r made when the others are there.
func (r resource) after(others ...resource) resource {
	for _, o := range others {
		r.AddResourceDependency(o.CfnResource, nil)
	}
	return r
}

// unknownTo leaves out a check of cfn-lint's, which does not know yet what AWS has.
func (r resource) unknownTo(check string) {
	r.AddMetadata(jsii.String("cfn-lint"), object{"config": object{"ignore_checks": list{check}}})
}

func (r resource) ref() object                { return object{"Ref": r.id} }
func (r resource) att(name string) object     { return object{"Fn::GetAtt": list{r.id, name}} }
func sub(text string) object                  { return object{"Fn::Sub": text} }
func subWith(text string, with object) object { return object{"Fn::Sub": list{text, with}} }

// export makes a value known to the other stacks.
func (s scope) export(name string, value any) {
	awscdk.NewCfnOutput(s.c, jsii.String(name), &awscdk.CfnOutputProps{Value: awscdk.Token_AsString(value, nil), ExportName: jsii.String(*s.s.StackName() + "-" + name)})
}

// shared is a value that the foundation exports.
func shared(name string) object { return object{"Fn::ImportValue": Foundation + "-" + name} }

// logicalID makes a name one of a template.
func logicalID(name string) string {
	var b strings.Builder
	for _, word := range noID.Split(name, -1) {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// pairs are the entries of a map as CloudFormation lists them, in order.
func pairs(m map[string]string) list {
	var out list
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, object{"Name": k, "Value": m[k]})
	}
	return out
}

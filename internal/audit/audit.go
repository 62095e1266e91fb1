// Package audit compares what is declared of an endpoint (its model in models.yaml and the plan that it names) with what is
// deployed, and says what differs, how much that matters, and how it is mended.
//
// Reading an account is left to package awsfleet. What could not be read is a result of its own: it never becomes
// "missing".
//
//	r := audit.Compare(declared, deployed, now)
//	r.Findings   // worst first; none: what is deployed is what was declared
//	r.Checks     // every value that was compared, for validate
//	r.Unread     // what could not be read: neither yes nor no
package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/capacity"
)

// Severity of a finding.
type Severity string

// The severities. From Medium up a finding is drift.
const (
	Critical Severity = "critical" // the endpoint does not scale out, or not at all
	High     Severity = "high"     // it scales otherwise than was computed, or will not when it must
	Medium   Severity = "medium"
	Info     Severity = "info"
)

func (s Severity) rank() int { return slices.Index([]Severity{Info, Medium, High, Critical}, s) }

// Drift says whether the severity is one that ends a command with exit code 1.
func (s Severity) Drift() bool { return s.rank() >= Medium.rank() }

// Finding is one thing that is not as it was declared.
type Finding struct {
	ID       string   `json:"id"` // kind and resource
	Kind     string   `json:"kind"`
	Severity Severity `json:"severity"`
	Resource string   `json:"resource"`
	Found    string   `json:"found"`
	Expected string   `json:"expected"`
	Mend     string   `json:"mend,omitempty"` // a command; none for what is not ours to change
	Foreign  bool     `json:"foreign,omitempty"`
}

// Check is one value that was compared.
type Check struct {
	Resource string `json:"resource"`
	Field    string `json:"field"`
	Found    string `json:"found"`
	Expected string `json:"expected"`
	OK       bool   `json:"ok"`
}

// Unread is something that could not be read, and why.
type Unread struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Report is what came of one endpoint.
type Report struct {
	Endpoint string    `json:"endpoint"`
	Findings []Finding `json:"findings"`
	Checks   []Check   `json:"checks"`
	Unread   []Unread  `json:"unread"`
	Calls    int       `json:"calls"` // API calls that the reading took
}

// Drift says whether any finding is one.
func (r *Report) Drift() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity.Drift() })
}

// Declared is what models.yaml and the plan say of one variant.
type Declared struct {
	Model, Endpoint, Variant string
	Component                string            // inference component whose copies scale; "": instances do
	Copy                     *artifact.Copy    // what one of them has
	InstanceType             string            // "": not declared, as is every empty field below
	ImageDigest              string            // hex
	Env                      map[string]string // nil: not declared
	QueueBound               *int
	Min, Max                 int // 0 and 0: not declared
	Scaling                  bool
	Routing                  string // RANDOM, LEAST_OUTSTANDING_REQUESTS
	PlanFile                 string
	Policies                 []capacity.Policy
	Alarms                   []capacity.Alarm
}

// Plan fills in what a plan declares: it owns the policies.
func (d *Declared) Plan(p *artifact.Plan) {
	d.Min, d.Max = max(1, p.Config.MinInstances), max(1, p.Config.MaxInstances)
	d.Scaling = d.Max > max(d.Min, 1)
	d.Policies, d.Alarms = p.Policies, p.Alarms
	d.QueueBound = &p.Config.QueueMaxDepth
	d.Component = p.Target.Component
	if p.Scenario.Routing == capacity.RouteLOR {
		d.Routing = "LEAST_OUTSTANDING_REQUESTS"
	}
	d.Copy = p.Fingerprint.Copy
	d.InstanceType, d.ImageDigest, d.Env = p.Fingerprint.InstanceType, p.Fingerprint.ImageDigest, p.Fingerprint.ContainerEnv
}

// Deployed is one endpoint as it was read.
type Deployed struct {
	Region, Endpoint string
	Missing          bool // AWS says that there is no such endpoint
	Status, Reason   string
	Modified         time.Time
	Variants         []Variant
	Component        *Component // that was asked for; nil: none was, or AWS says that there is none
	Tags             map[string]string
	Freeze           *artifact.Freeze // the record of this machine, if a run left one
	Invocations      *float64         // in the last ten minutes
	Targets          []Target
	Held             []Held // by the scaler; of each target the newest first
	Policies         []Policy
	Alarms           []Alarm
	Schedules        []Schedule
	Role             *bool // the service-linked role exists; nil: not read
	Quota            map[string]int
	Unread           []Unread
	Calls            int
}

// Variant of a deployed endpoint.
type Variant struct {
	Name, InstanceType       string
	Desired, Current         int
	Initial                  int // of the endpoint config
	Routing                  string
	ImageDigest              string
	Env                      map[string]string // compared part; nil: not read
	QueueBound               *int
	Enhanced                 bool // enhanced metrics
	MetricsPeriod            int  // seconds
	LastSet                  int  // count that the scaler set last; 0: none is known
	LastSetAt                time.Time
	Async, Serverless, Multi bool
}

// Component is an inference component. Its image, environment and queue bound stand in its variant.
type Component struct {
	Name, Status, Reason string
	Desired, Current     int            // copies
	Copy                 *artifact.Copy // what one of them has; nil: not told
}

// Target is a scalable target.
type Target struct {
	Resource       string
	Min, Max       int
	Out, In, Sched bool // suspended
}

// Policy is a scaling policy as it is deployed.
type Policy struct {
	Name, ARN, Resource, Type string // Type: capacity.TargetTracking or StepScaling
	Metric                    capacity.Metric
	Statistic                 string // of a metric of its own; the aggregation of a step policy
	Target                    *float64
	NoScaleIn                 bool
	OutCooldown, InCooldown   *int // of target tracking; nil: not set
	Cooldown                  *int // of a step policy
	Steps                     []capacity.Step
	Adjustment                string
	Alarms                    []string
}

// Alarm is a CloudWatch alarm as it is deployed.
type Alarm struct {
	Name, ARN              string
	Metric                 capacity.Metric
	Statistic              string
	Period                 int
	Comparison             string
	Threshold              float64
	Evaluation, Datapoints int
	MissingData            string
	Unit                   string // "": any
	Enabled                bool   // its actions
	Actions                []string
	Triggers               string    // the policy that is among its actions, by name
	State                  string    `json:"-"`
	Since                  time.Time `json:"-"` // in that state
}

// Schedule is a scheduled action.
type Schedule struct {
	Name, Resource, Expression string
	End                        time.Time // zero: none
	Min, Max                   *int
}

// comparison collects what comes of one endpoint.
type comparison struct {
	Report
	want Declared
	have Deployed
	now  time.Time
}

// Compare says what of the deployed endpoint is not as declared.
func Compare(want Declared, have Deployed, now time.Time) Report {
	c := &comparison{Report: Report{Endpoint: have.Endpoint, Unread: have.Unread, Calls: have.Calls}, want: want, have: have, now: now}
	c.endpoint()
	slices.SortStableFunc(c.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity.rank(), a.Severity.rank()), cmp.Compare(a.ID, b.ID))
	})
	return c.Report
}

func (c *comparison) find(kind string, s Severity, resource, found, expected, mend string) {
	c.Findings = append(c.Findings, Finding{ID: kind + ":" + resource, Kind: kind, Severity: s, Resource: resource, Found: found, Expected: expected, Mend: mend})
}

// same compares one value and says whether it is as wanted.
func (c *comparison) same(kind string, s Severity, resource, field string, found, expected any, mend string) bool {
	f, e := shown(found), shown(expected)
	ok := f == e
	c.Checks = append(c.Checks, Check{resource, field, f, e, ok})
	if !ok {
		c.find(kind, s, resource, field+" "+f, field+" "+e, mend)
	}
	return ok
}

// shown is a value for people; equal values read equal.
func shown(v any) string {
	switch v := v.(type) {
	case *int:
		if v == nil {
			return "not set"
		}
		return fmt.Sprint(*v)
	case *float64:
		if v == nil {
			return "not set"
		}
		return shown(*v)
	case float64:
		return fmt.Sprintf("%.10g", v)
	case bool:
		if v {
			return "on"
		}
		return "off"
	case string:
		if v == "" {
			return "none"
		}
		return v
	}
	return fmt.Sprint(v)
}

// Read is what was found, for people: a number to its third decimal where it is as expected, as it stands where it is not.
func (c Check) Read() string {
	if v, err := strconv.ParseFloat(c.Found, 64); err == nil && c.OK {
		return rounded(v)
	}
	return c.Found
}

// rounded is a number that people read and nothing is computed from.
func rounded(v float64) string {
	if math.Abs(v) < 1 {
		return fmt.Sprintf("%.4g", v)
	}
	return strconv.FormatFloat(math.Round(1000*v)/1000, 'f', -1, 64)
}

// near says whether two numbers are the same but for how they were written.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func (c *comparison) resource() string {
	if c.want.Component != "" {
		return ComponentResource(c.want.Component)
	}
	return Resource(c.have.Endpoint, c.want.Variant)
}

// Resource is the id under which Application Auto Scaling knows a variant.
func Resource(endpoint, variant string) string { return "endpoint/" + endpoint + "/variant/" + variant }

// ComponentResource is the id of an inference component.
func ComponentResource(component string) string { return componentPrefix + component }

const componentPrefix = "inference-component/"

// Dimension is the scalable dimension of a resource: instances, or copies.
func Dimension(resource string) string {
	if strings.HasPrefix(resource, componentPrefix) {
		return artifact.CopyCount
	}
	return artifact.InstanceCount
}

// ParseResource reads the id of a variant as Application Auto Scaling writes it. Whether the endpoint and the variant exist
// is for AWS to say: an endpoint config has the same kind of name.
func ParseResource(id string) (endpoint, variant string, err error) {
	part := strings.Split(id, "/")
	if len(part) != 4 || part[0] != "endpoint" || part[2] != "variant" {
		return "", "", fmt.Errorf("%q is no resource id: endpoint/NAME/variant/NAME is wanted", id)
	}
	for _, p := range []struct{ of, name string }{{"endpoint", part[1]}, {"variant", part[3]}} {
		if !ValidName(p.name) {
			return "", "", fmt.Errorf("%q is no resource id: its %s is called %q, and names have 1 to 63 letters, digits and single hyphens", id, p.of, p.name)
		}
	}
	return part[1], part[3], nil
}

// ValidName says whether SageMaker takes s as the name of an endpoint or a variant.
func ValidName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' || strings.Contains(s, "--") {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return !(r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) < 0
}

// variantOf is the variant that a resource id names, "" for another kind of id.
func variantOf(resource string) (endpoint, variant string) {
	endpoint, variant, err := ParseResource(resource)
	if err != nil {
		return "", ""
	}
	return endpoint, variant
}

func (c *comparison) apply() string {
	plan := c.want.PlanFile
	if plan == "" {
		plan = "FILE"
	}
	return "tts-bench apply --plan " + plan
}

// aas is a command of the AWS CLI on the variant's scaling.
func (c *comparison) aas(command, resource string, more ...string) string {
	s := "aws application-autoscaling " + command + " --service-namespace sagemaker"
	if resource != "" {
		s += " --resource-id " + resource
	}
	s += " --scalable-dimension " + Dimension(resource)
	if c.have.Region != "" {
		s += " --region " + c.have.Region
	}
	if len(more) > 0 {
		s += " " + strings.Join(more, " ")
	}
	return s
}

// Pair is one value that models.yaml and the plan both state.
type Pair struct {
	Field          string
	Registry, Plan any // nil pointers are not stated
}

// Registry compares what models.yaml states with the plan that it names: the plan owns the policies.
func Registry(model, plan string, pairs []Pair) []Finding {
	c := comparison{}
	for _, p := range pairs {
		if r := shown(p.Registry); r != "not set" && r != "none" {
			c.same("registry", High, "models.yaml/"+model, p.Field, p.Registry, p.Plan, "tts-bench plan --write, with the files that "+plan+" was made from")
		}
	}
	return c.Findings
}

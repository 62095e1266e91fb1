package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
	"github.com/aws/jsii-runtime-go"

	"loadline/infra/stack"
	"loadline/internal/artifact"
	"loadline/internal/audit"
	"loadline/internal/awsfleet"
	"loadline/internal/capacity"
	"loadline/internal/exit"
	"loadline/internal/ladder"
	"loadline/internal/plan"
	"loadline/internal/registry"
)

// root of the repository.
const root = "../../.."

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) { // as which program a child was called
	case "cdk":
		os.Exit(fakeCDK(os.Args[1:]))
	case "docker":
		os.Exit(fakeDocker(os.Args[1:]))
	case "speech-infra":
		main()
	}
	code := 1
	var err error
	if programs, err = os.MkdirTemp("", "speech-infra-bin-"); err == nil {
		home, err = os.Getwd()
	}
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(programs)
	jsii.Close() // the one kernel of all tests
	os.Exit(code)
}

// programs is where what tests build lies; home is the folder of this package: tests work in others.
var programs, home string

// desk is a folder with a registry, and the programs that commands call.
type desk struct {
	t        *testing.T
	dir, bin string
	env      map[string]string
	stdout   bytes.Buffer
	stderr   bytes.Buffer
}

func newDesk(t *testing.T, tools ...string) *desk {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("templates are not made: Node is not on the PATH (the CDK needs it)")
	}
	d := &desk{t: t, dir: t.TempDir(), bin: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		target := self
		if tool == "node" {
			target = node
		}
		if err := os.Symlink(target, filepath.Join(d.bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	d.env = map[string]string{"PATH": d.bin, "HOME": d.dir, "FAKE_LOG": filepath.Join(d.dir, "called"), "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1"}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(d.dir, "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(d.dir, "none"))
	t.Chdir(d.dir)
	return d
}

// registry writes a models.yaml with one model, some of its fields changed.
func (d *desk) registry(changes map[string]any) {
	d.t.Helper()
	text := `models:
  - model_name: kokoro-82m
    instance_type: ml.g5.xlarge
    ttfab_slo_ms: 3000
    price_per_hour: 1.408
    price_source: a price list
    price_date: 2026-08-04
    image: 000000000000.dkr.ecr.us-east-1.amazonaws.com/speech@sha256:` + strings.Repeat("8", 64) + "\n"
	if len(changes) > 0 {
		f, err := registry.Parse("models.yaml", []byte(text))
		if err != nil {
			d.t.Fatal(err)
		}
		edited, err := f.Edit("kokoro-82m", changes)
		if err != nil {
			d.t.Fatal(err)
		}
		text = string(edited)
	}
	if err := os.WriteFile("models.yaml", []byte(text), 0o666); err != nil {
		d.t.Fatal(err)
	}
}

// plan makes a plan for the registry's model and what it fills in.
func (d *desk) plan() map[string]any {
	d.t.Helper()
	data, err := os.ReadFile(published)
	if err != nil {
		d.t.Fatal(err)
	}
	q, err := artifact.ReadQMax(data)
	if err != nil {
		d.t.Fatal(err)
	}
	q.Fingerprint = artifact.Fingerprint{Region: "us-east-1", InstanceType: "ml.g5.xlarge", ImageDigest: strings.Repeat("8", 64), ContainerEnv: map[string]string{}, QueueBound: new(0)}
	q.Certificate = &ladder.Certificate{Confidence: 0.95, N: 307, NEff: 300, Fresh: true}
	p, err := plan.Make(plan.Input{QMax: q, QMaxFile: "qmax.json", AssumeT: 320, RunID: "01K0000000000000000000TEST", CreatedAt: time.Date(2026, 8, 5, 0, 0, 0, 0, time.UTC),
		Tool: "test", Settings: map[string]any{}, Scenario: capacity.Scenario{Rule: capacity.RuleFlow, PeakRPS: 100, TroughRPS: 10, SurgeRatio: 1.25, MinFloor: 1, Ceiling: 60, Routing: capacity.RouteLOR}})
	if err != nil {
		d.t.Fatal(err)
	}
	if data, err = json.Marshal(p); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile("plan.json", data, 0o666); err != nil {
		d.t.Fatal(err)
	}
	c := p.Config
	return map[string]any{"plan": "plan.json", "min_instances": c.MinInstances, "max_instances": c.MaxInstances, "scaling_target_value": c.ScalingTargetValue, "scale_in_threshold": c.ScaleInThreshold,
		"queue_max_depth": c.QueueMaxDepth, "scale_out_cooldown_s": c.OutCooldown, "scale_in_cooldown_s": c.InCooldown}
}

var published = func() string {
	path, err := filepath.Abs(root + "/internal/artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json")
	if err != nil {
		panic(err)
	}
	return path
}()

// run runs a command, and checks how it ends and that each text was said.
func (d *desk) run(code int, want []string, args ...string) string {
	d.t.Helper()
	d.stdout.Reset()
	d.stderr.Reset()
	var env []string
	for k, v := range d.env {
		env = append(env, k+"="+v)
	}
	a := newApp(env, strings.NewReader(""), &d.stdout, &d.stderr)
	a.synth = stack.Synth // the kernel goes on
	ctx, cancel := context.WithTimeout(d.t.Context(), 3*time.Minute)
	defer cancel()
	got := run(ctx, a, args)
	said := d.stdout.String() + d.stderr.String()
	if got != code {
		d.t.Errorf("speech-infra %s: exit code %d, not %d\n%s", strings.Join(args, " "), got, code, said)
	}
	for _, w := range want {
		if !strings.Contains(said, w) {
			d.t.Errorf("speech-infra %s does not say %q:\n%s", strings.Join(args, " "), w, said)
		}
	}
	return said
}

func (d *desk) called() string {
	data, _ := os.ReadFile(d.env["FAKE_LOG"]) // none: nothing was called
	return string(data)
}

// local builds sagemaker-local, once for all tests.
var local = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(programs, "sagemaker-local")
	build := exec.Command("go", "build", "-o", binary, "./cmd/sagemaker-local")
	build.Dir = filepath.Join(home, root)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sagemaker-local: %w\n%s", err, out)
	}
	return binary, nil
})

// account starts a local account without an endpoint.
func account(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := local()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, append([]string{"serve", "--empty", "--quiet", "--profile", "quick", "--start", "100ms", "--publication-delay", "0"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // after the interrupt it says nothing of the test
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if u, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return u
		}
	}
	t.Fatal("sagemaker-local ended before it was ready")
	return ""
}

func TestList(t *testing.T) {
	d := newDesk(t)
	d.registry(map[string]any{"max_instances": 9})
	d.run(exit.OK, []string{"speech-kokoro-82m/primary", "$1.41 an hour", "scaling is off: models.yaml names no plan", "next: speech-infra synth kokoro-82m"}, "list")
	d.run(exit.OK, []string{"STOP plan", "mend: tts-bench qmax"}, "list", "--explain-gate")
	d.registry(d.plan())
	d.run(exit.OK, []string{"on\n", "$1.41 to $"}, "list")
	d.run(exit.OK, []string{"scaling is on, as planned", "OK   fingerprint"}, "list", "--explain-gate")
	d.run(exit.OK, []string{"region was us-east-1 when it was measured and is eu-west-1"}, "list", "--region", "eu-west-1")
	var list []listed
	d.run(exit.OK, nil, "list", "--json")
	if err := json.Unmarshal(d.stdout.Bytes(), &list); err != nil || len(list) != 1 || !list[0].Gate.Open || list[0].Max < 2 {
		t.Errorf("%v %+v", err, list)
	}
	d.run(exit.Misused, []string{"did you mean kokoro-82m"}, "list", "kokoro-82n")
	d.run(exit.Misused, []string{"exclude each other"}, "list", "kokoro-82m", "--all")
	d.run(exit.Misused, []string{"unknown command"}, "lists")
	d.run(exit.Misused, []string{"no model registry"}, "list", "--models", "none.yaml")
	if d.called() != "" {
		t.Errorf("list has called %s", d.called())
	}
}

func TestSynth(t *testing.T) {
	d := newDesk(t, "node")
	d.registry(d.plan())
	d.run(exit.Misused, []string{"no model is named"}, "synth")
	d.run(exit.OK, []string{"scaling is on, as planned", "weights are not pinned", "next: speech-infra diff kokoro-82m"}, "synth", "kokoro-82m", "--out", "out")
	template := func(file string) string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if on := template("out/Speech-kokoro-82m.template.json"); !strings.Contains(on, "loadline-rate") {
		t.Error("an open gate, and no policy")
	}
	// The same again, over it, with another value than the plan's.
	d.registry(func() map[string]any { m := d.plan(); m["scaling_target_value"] = 0.713; return m }())
	d.run(exit.OK, []string{"scaling is off: models.yaml is not the plan's: scaling_target_value is 0.713", "STOP configuration"}, "synth", "kokoro-82m", "--out", "out", "--explain-gate")
	d.run(exit.OK, nil, "synth", "kokoro-82m", "--out", "out", "--json")
	var made synthed
	if err := json.Unmarshal(d.stdout.Bytes(), &made); err != nil || len(made.Stacks) != 3 || len(made.Models) != 1 || made.Models[0].Gate.Open || made.Stacks[2].Stack != made.Models[0].Stack {
		t.Errorf("%v\n%s", err, &d.stdout)
	}
	closed := template("out/Speech-kokoro-82m.template.json")
	if strings.Contains(closed, "ApplicationAutoScaling") {
		t.Error("a guess goes through")
	}
	d.registry(func() map[string]any { m := d.plan(); return map[string]any{"queue_max_depth": m["queue_max_depth"]} }())
	d.run(exit.OK, []string{"leaves nothing to scale"}, "synth", "--all", "--out", "off")
	if off := template("off/Speech-kokoro-82m.template.json"); off != closed {
		t.Error("a closed gate is not the same as scaling off")
	}
	for flag, said := range map[string]string{"--accept": "can be taken on", "--client": "ARN of a role or user", "--alarm-topic": "ARN of an SNS topic"} {
		d.run(exit.Misused, []string{said}, "synth", "kokoro-82m", flag, "qouta")
	}
	d.run(exit.Misused, []string{"names no digest"}, "synth", "kokoro-82m", "--image-uri", "speech:latest")
	if err := os.WriteFile("mine", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	d.run(exit.Misused, []string{"holds files that are no CDK templates"}, "synth", "kokoro-82m", "--out", ".")
	d.registry(map[string]any{"image": ""})
	d.run(exit.No, []string{"has no image yet"}, "synth", "kokoro-82m")
	d.run(exit.OK, nil, "synth", "kokoro-82m", "--out", "named/", "--image-uri", "111111111111.dkr.ecr.eu-west-1.amazonaws.com/theirs@sha256:"+strings.Repeat("d", 64))
	if base := template("named/SpeechFoundation.template.json"); !strings.Contains(base, "ecr:eu-west-1:111111111111:repository/theirs") {
		t.Error("an image is named, and may not be fetched")
	}
	d.run(exit.OK, []string{"never scale"}, "synth", "kokoro-82m", "--parameters", "--out", "plain")
	if left, err := filepath.Glob(".speech-infra-*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestOffline: templates are made without a network.
func TestOffline(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err == nil {
		err = exec.Command(unshare, "--map-root-user", "--net", "true").Run()
	}
	if err != nil {
		t.Skipf("a process without a network cannot be started here: %v", err)
	}
	d := newDesk(t, "node", "speech-infra")
	d.registry(nil)
	cmd := exec.Command(unshare, "--map-root-user", "--net", filepath.Join(d.bin, "speech-infra"), "synth", "kokoro-82m", "--out", "out")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat("out/Speech-kokoro-82m.template.json"); err != nil {
		t.Error(err)
	}
}

// TestMissing: what is not there is named, with what to do.
func TestMissing(t *testing.T) {
	d := newDesk(t)
	d.registry(nil)
	d.run(exit.No, []string{"node is not on the PATH", "install Node 22"}, "synth", "kokoro-82m")
	d = newDesk(t, "node")
	d.registry(nil)
	for _, verb := range []string{"diff", "deploy", "destroy"} {
		d.run(exit.No, []string{"cdk is not on the PATH", "npm install --global aws-cdk"}, verb, "kokoro-82m")
	}
	d = newDesk(t, "node", "cdk")
	d.registry(nil)
	d.run(exit.No, []string{"docker is not on the PATH", "--image-uri"}, "deploy", "kokoro-82m", "--build", ".", "--endpoint-url", "http://127.0.0.1:9")
	d.run(exit.Misused, []string{"--build excludes --image-uri"}, "deploy", "kokoro-82m", "--build", ".", "--image-uri", "x@sha256:"+strings.Repeat("a", 64))
}

func TestCDKFailure(t *testing.T) {
	for said, want := range map[string]string{
		"SSM parameter /cdk-bootstrap/hnb659fds/version not found. Has the environment been bootstrapped? Please run 'cdk bootstrap aws://000000000000/us-east-1'": "cdk bootstrap aws://000000000000/us-east-1",
		"no bucket named 'cdk-hnb659fds-assets'. Is this account bootstrapped?":                                                                                    "cdk bootstrap aws://ACCOUNT/eu-west-1",
		"Unable to resolve AWS account to use. It must be either configured":                                                                                       "found no credentials",
		`"--require-approval" is enabled and stack includes security-sensitive updates, but terminal (TTY) is not attached so we are unable to get a confirmation`: "--require-approval never",
		"Speech-x is in UPDATE_ROLLBACK_FAILED state":                                                                                                              "continue-update-rollback",
		"ResourceLimitExceeded: the account-level":                                                                                                                 "quota",
		"a bug": "",
	} {
		if got := cdkFailure(said, "eu-west-1"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, not %q", said, got, want)
		}
	}
}

// TestChain deploys onto a local account: made, changed with its count kept (A1), scaled as planned, its type changed in order
// (A2), and taken away without an orphan (A3).
func TestChain(t *testing.T) {
	d := newDesk(t, "node", "cdk")
	at := account(t)
	d.registry(nil)
	ctx := t.Context()
	cfg, _, err := awsfleet.Load(ctx, awsfleet.Config{EndpointURL: at})
	if err != nil {
		t.Fatal(err)
	}
	read := func() audit.Deployed {
		t.Helper()
		have, err := awsfleet.NewAuditor(cfg).Endpoint(ctx, "speech-kokoro-82m", "primary")
		if err != nil || len(have.Unread) > 0 {
			t.Fatalf("%v %v", err, have.Unread)
		}
		return have
	}

	d.run(exit.No, []string{"speech-kokoro-82m is not deployed"}, "status", "--endpoint-url", at)
	d.run(exit.OK, []string{"now nothing runs", "then 1 instances of ml.g5.xlarge, $1.41 an hour", "next: speech-infra deploy kokoro-82m"}, "diff", "kokoro-82m", "--endpoint-url", at)
	d.run(exit.Misused, []string{"no model is named"}, "deploy", "--endpoint-url", at)
	d.run(exit.OK, []string{"the endpoint will be made, with 1 instances", "scaling is off", "InService, 1 instances", "next: tts-bench drift"}, "deploy", "kokoro-82m", "--endpoint-url", at)
	if called := d.called(); !strings.Contains(called, "cdk deploy SpeechFoundation SpeechModelCache Speech-kokoro-82m\n") {
		t.Errorf("called %s", called)
	}
	d.run(exit.OK, []string{"speech-kokoro-82m is InService", "1 of 1 instances of ml.g5.xlarge", "queue bound 0", "LEAST_OUTSTANDING_REQUESTS", "scaling: none", "first-audio-burn"}, "status", "--endpoint-url", at)

	// A1: three run; another configuration starts with one, and three go on running.
	if _, err := sagemaker.NewFromConfig(cfg).UpdateEndpointWeightsAndCapacities(ctx, &sagemaker.UpdateEndpointWeightsAndCapacitiesInput{EndpointName: aws.String("speech-kokoro-82m"),
		DesiredWeightsAndCapacities: []sm.DesiredWeightAndCapacity{{VariantName: aws.String("primary"), DesiredInstanceCount: aws.Int32(3)}}}); err != nil {
		t.Fatal(err)
	}
	settled(t, read)
	fields := d.plan()
	d.registry(fields)
	d.run(exit.OK, []string{"now 3 instances of ml.g5.xlarge (3 run), $4.22 an hour", "then 1 to ", "scaling is on, as planned"}, "diff", "kokoro-82m", "--endpoint-url", at)
	d.run(exit.OK, []string{"the 3 instances that run now are kept", "InService, 3 instances", "next: tts-bench validate --plan plan.json"}, "deploy", "kokoro-82m", "--endpoint-url", at)

	// What is deployed is what was computed.
	have := read()
	data, err := os.ReadFile("plan.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := artifact.ReadPlan(data)
	if err != nil {
		t.Fatal(err)
	}
	want := audit.Declared{Model: "kokoro-82m", Endpoint: "speech-kokoro-82m", Variant: "primary", PlanFile: "plan.json"}
	want.Plan(p)
	if r := audit.Compare(want, have, time.Now()); r.Drift() {
		t.Errorf("what was deployed is not the plan: %+v", r.Findings)
	}
	d.run(exit.OK, []string{"policy loadline-rate (target_tracking)", "scaling: endpoint/speech-kokoro-82m/variant/primary, 1 to ", "alarm TargetTracking-endpoint/speech-kokoro-82m/variant/primary"}, "status", "--endpoint-url", at)
	if d.run(exit.OK, nil, "status", "kokoro-82m", "--json", "--endpoint-url", at); !json.Valid(d.stdout.Bytes()) {
		t.Errorf("no JSON: %s", &d.stdout)
	}

	// An endpoint that scales does not stop to by accident.
	changed := func(key string, v any) map[string]any {
		out := map[string]any{}
		for k, x := range fields {
			out[k] = x
		}
		out[key] = v
		return out
	}
	d.registry(changed("scale_in_cooldown_s", 1))
	d.run(exit.No, []string{"would not any more: models.yaml is not the plan's", "--scaling-off"}, "deploy", "kokoro-82m", "--endpoint-url", at)

	// A2: another type in one step is refused beforehand, with the order; then it is done in that order.
	d.registry(changed("instance_type", "ml.g6.xlarge"))
	before := len(d.called())
	d.run(exit.No, []string{"its type cannot become ml.g6.xlarge in one step", "1. save the target", "2. deregister", "is stale"}, "deploy", "kokoro-82m", "--endpoint-url", at)
	if len(d.called()) != before {
		t.Error("refused, and something was called")
	}
	d.run(exit.OK, []string{"1/4 save", "saved in", "4/4 measure on ml.g6.xlarge", "InService, 3 instances"}, "deploy", "kokoro-82m", "--endpoint-url", at, "--change-instance-type", "--state-dir", "state")
	if have := read(); have.Variants[0].InstanceType != "ml.g6.xlarge" || have.Variants[0].Desired != 3 || len(have.Targets) != 0 {
		t.Errorf("after the change: %+v %+v", have.Variants, have.Targets)
	}
	files, err := filepath.Glob("state/apply-*.json")
	if err != nil || len(files) != 1 {
		t.Fatalf("saved: %v %v", files, err)
	}
	if data, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(data), "loadline-rate") {
		t.Errorf("saved: %v\n%s", err, data)
	}
	// The control arm: without a target a type changes in one step, and so does the model alone.
	d.registry(changed("instance_type", "ml.g5.xlarge"))
	d.run(exit.OK, []string{"what was measured on those is stale", "InService, 3 instances"}, "deploy", "kokoro-82m", "--endpoint-url", at)

	// A step that fails puts back what scaled.
	d.registry(changed("instance_type", "ml.g6.xlarge"))
	d.env["FAKE_CDK_SAYS"] = "Has the environment been bootstrapped?"
	d.run(exit.No, []string{"cdk bootstrap aws://ACCOUNT/us-east-1", "what scaled before is put back"}, "deploy", "kokoro-82m", "--endpoint-url", at, "--change-instance-type", "--state-dir", "state")
	delete(d.env, "FAKE_CDK_SAYS")
	if have := read(); len(have.Targets) != 1 || have.Variants[0].InstanceType != "ml.g5.xlarge" {
		t.Errorf("after a step that failed: %+v %+v", have.Variants, have.Targets)
	}

	// A3: what scales is deregistered before its endpoint goes, and what stays is said.
	d.run(exit.No, []string{"--yes gives it"}, "destroy", "kokoro-82m", "--endpoint-url", at)
	d.run(exit.OK, []string{"stay: the weights bucket", "aws ecr delete-repository", "aws s3 rb"}, "destroy", "kokoro-82m", "--yes", "--endpoint-url", at)
	if have := read(); !have.Missing && have.Status != "Deleting" || len(have.Targets) != 0 {
		t.Errorf("after it was destroyed: %+v", have)
	}
	if called := d.called(); !strings.Contains(called, "cdk destroy Speech-kokoro-82m --exclusively --force\n") {
		t.Errorf("called %s", called)
	}
}

// settled waits until the endpoint takes a change.
func settled(t *testing.T, read func() audit.Deployed) {
	t.Helper()
	for range 600 {
		if read().Status == "InService" {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("the endpoint does not settle")
}

// TestRole: a role that is missing and may not be made is named before anything is (A3).
func TestRole(t *testing.T) {
	d := newDesk(t, "node", "cdk")
	at := account(t, "--no-service-linked-role", "--deny", "iam:CreateServiceLinkedRole")
	d.registry(d.plan())
	d.run(exit.No, []string{"AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint", "iam:CreateServiceLinkedRole", "Nothing was made"}, "deploy", "kokoro-82m", "--endpoint-url", at)
	d.run(exit.No, []string{"of another account"}, "deploy", "kokoro-82m", "--endpoint-url", at, "--account", "111111111111")
	if d.called() != "" {
		t.Errorf("called %s", d.called())
	}
}

// TestBuild: the image is built and pushed, its digest recorded, and only then templates are made of it.
func TestBuild(t *testing.T) {
	d := newDesk(t, "node", "cdk", "docker")
	behind, err := url.Parse(account(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetAuthorizationToken") { // the registry, which the account does not have
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			fmt.Fprintf(w, `{"authorizationData":[{"authorizationToken":%q}]}`, base64.StdEncoding.EncodeToString([]byte("AWS:secret")))
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	d.registry(map[string]any{"image": "", "streaming_mode": "bidirectional"})
	d.run(exit.No, []string{"has no image yet"}, "deploy", "kokoro-82m", "--endpoint-url", front.URL)
	image := "000000000000.dkr.ecr.us-east-1.amazonaws.com/speech@sha256:" + strings.Repeat("c", 64)
	const odd = "a folder; rm -rf /"
	if err := os.Mkdir(odd, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"Dockerfile": "FROM scratch\n", odd + "Dockerfile": "ARG DIGEST\nFROM base@${DIGEST}\nARG VERSION=1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"has no default for DIGEST: give --build-arg DIGEST=…", nil},
		{"has no such ARG, only DIGEST, VERSION", []string{"--build-arg", "DIGST=sha256:0"}},
		{"is not NAME=VALUE", []string{"--build-arg", "DIGEST"}},
		{"is not NAME=VALUE", []string{"--build-context", "=x"}},
		{"there is no nowhere to build by", []string{"--dockerfile", "nowhere"}},
		{"is no Dockerfile", []string{"--dockerfile", "models.yaml"}},
	} {
		d.run(exit.Misused, []string{c.want}, append([]string{"deploy", "kokoro-82m", "--build", odd, "--endpoint-url", front.URL}, c.flags...)...)
	}
	d.run(exit.Misused, []string{"are of --build"}, "deploy", "kokoro-82m", "--build-arg", "A=b", "--endpoint-url", front.URL)
	if d.called() != "" {
		t.Errorf("called %s", d.called())
	}
	for _, user := range []string{"", "root", "0:0"} {
		d.env["FAKE_USER"] = user
		d.run(exit.No, []string{"runs as root"}, "deploy", "kokoro-82m", "--build", ".", "--endpoint-url", front.URL)
	}
	if err := os.Remove(d.env["FAKE_LOG"]); err != nil {
		t.Fatal(err)
	}
	d.env["FAKE_USER"] = "speech"
	d.run(exit.OK, []string{"image " + image + " is recorded in models.yaml", "InService"}, "deploy", "kokoro-82m", "--build", odd, "--endpoint-url", front.URL, "--require-approval", "never",
		"--build-arg", "DIGEST=sha256:0; x", "--build-arg", "VERSION=2", "--build-context", "base=.")
	file, err := registry.Load("models.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := file.Model("kokoro-82m"); err != nil || m.Image != image {
		t.Errorf("recorded: %v %v", m, err)
	}
	called := strings.Split(strings.TrimSpace(d.called()), "\n")
	for i, want := range []string{"cdk deploy SpeechFoundation --outputs-file ", "docker build --platform linux/amd64 ", "docker image inspect", "docker login --username AWS --password-stdin 000000000000.dkr.ecr.us-east-1.amazonaws.com", "docker push ", "docker image inspect", "cdk deploy SpeechFoundation SpeechModelCache Speech-kokoro-82m --require-approval never"} {
		if i >= len(called) || !strings.HasPrefix(called[i], want) {
			t.Errorf("call %d is not %q: %q", i+1, want, called)
			break
		}
	}
	if len(called) > 1 && (!strings.Contains(called[1], "--label "+bidiLabel) || !strings.HasSuffix(called[1], " --build-arg DIGEST=sha256:0; x --build-arg VERSION=2 --build-context base=. "+odd)) {
		t.Errorf("docker was called with %s", called[1])
	}
	if strings.Contains(d.called(), "secret") {
		t.Error("the password is among the arguments")
	}
}

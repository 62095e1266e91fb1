package awsfleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/fleet"
	"loadline/internal/freeze"
	"loadline/internal/local"
	"loadline/internal/measure"
)

var (
	_ measure.Fleet    = (*Variant)(nil)
	_ measure.Thawable = (*Variant)(nil)
	_ measure.Counter  = (*Variant)(nil)
	_ measure.Metrics  = (*Variant)(nil)
)

const digest = "8b1b96bc4dc0b30ddd84d8fe37af7c490937333c44a9f8f7d77b918c3d7eaced"

// fault answers a call in place of the account, as often as times says; 0 is always.
type fault struct {
	target  string // end of X-Amz-Target, or of the path
	times   int
	status  int
	code    string // "": message is the answer
	message string
}

// account is a local account behind a door that can be told to fail.
type account struct {
	url string

	mu     sync.Mutex
	faults []*fault
	calls  map[string]int
}

func (a *account) fail(f fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = append(a.faults, &f)
}

// broken is the fault that a call meets, nil for none.
func (a *account) broken(call string) *fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[call]++
	for i, f := range a.faults {
		if strings.HasSuffix(call, f.target) {
			if f.times > 0 {
				if f.times--; f.times == 0 {
					a.faults = slices.Delete(a.faults, i, i+1)
				}
			}
			return f
		}
	}
	return nil
}

type container struct{ *httptest.Server }

func (c container) Addr() string               { return c.Listener.Addr().String() }
func (c container) Usage() local.Usage         { return local.Usage{} }
func (c container) Stop(context.Context) error { c.Close(); return nil }

func variant(name string, instances int) local.Variant {
	return local.Variant{
		Name: name, InstanceType: "ml.g5.xlarge", Instances: instances, Min: 1, Max: 9, Routing: local.LeastOutstanding,
		Model: local.Model{Name: "speech-" + name, Image: "000000000000.dkr.ecr.us-east-1.amazonaws.com/speech@sha256:" + digest,
			Env: map[string]string{"VOICE": "af_heart", "AWS_REGION": "us-east-1", "MAX_QUEUE_DEPTH": "0"}},
		Stages: fleet.Stages{Provision: 10 * time.Millisecond},
	}
}

// open runs an account with these variants of endpoint "tts".
func open(t *testing.T, variants ...local.Variant) *account {
	t.Helper()
	l, err := local.New(local.Config{
		Endpoints: []local.Endpoint{{Name: "tts", Variants: variants}},
		Start: func(context.Context, local.Spec) (local.Instance, error) {
			return container{httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "{}")
			}))}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	<-l.Ready()
	to, _ := url.Parse(l.URL())
	a := &account{calls: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(to)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.Header.Get("X-Amz-Target")
		if call == "" {
			call = r.URL.Path
		}
		_, call, _ = strings.Cut(strings.ReplaceAll(call, "/operation/", "."), ".")
		if f := a.broken(call); f != nil {
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(f.status)
			if f.code == "" {
				io.WriteString(w, f.message)
				return
			}
			fmt.Fprintf(w, `{"__type":%q,"message":%q}`, f.code, f.message)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	a.url = door.URL
	t.Cleanup(func() {
		door.Close()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a
}

// load is the configuration of a newcomer: no credentials, no region.
func load(t *testing.T, a *account) aws.Config {
	t.Helper()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	cfg, notes, err := Load(t.Context(), Config{EndpointURL: a.url})
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "dummy") {
		t.Errorf("notes %q, want one on dummy credentials", notes)
	}
	return cfg
}

func variantOf(t *testing.T, a *account, name string) *Variant {
	t.Helper()
	v, err := Open(t.Context(), load(t, a), "tts", name)
	if err != nil {
		t.Fatal(err)
	}
	v.Poll = 5 * time.Millisecond
	return v
}

func inspect(t *testing.T, v *Variant) freeze.Variant {
	t.Helper()
	s, err := v.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestInspect(t *testing.T) {
	got := inspect(t, variantOf(t, open(t, variant("primary", 3)), ""))
	zero, none := 0, 0.0
	want := freeze.Variant{
		Region: "us-east-1", Endpoint: "tts", ARN: got.ARN, Name: "primary", Status: freeze.InService, Desired: 3, Current: 3,
		Routing: "LEAST_OUTSTANDING_REQUESTS", Containers: 1,
		Fingerprint: artifact.Fingerprint{Region: "us-east-1", InstanceType: "ml.g5.xlarge", ImageDigest: digest,
			ContainerEnv: map[string]string{"VOICE": "af_heart"}, QueueBound: &zero},
		Target: &freeze.Target{Min: 1, Max: 9}, Tags: map[string]string{}, Invocations: &none,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOpenErrors(t *testing.T) {
	a := open(t, variant("primary", 1), variant("canary", 1))
	cfg := load(t, a)
	tests := []struct {
		endpoint, variant string
		code              int
		says              []string
	}{
		{"tts", "primary", exit.OK, nil},
		{"tts", "", exit.Misused, []string{"several variants", "--variant", "primary, canary"}},
		{"tts", "other", exit.Misused, []string{`no variant "other"`, "primary, canary"}},
		{"tst", "", exit.No, []string{"does not exist", "us-east-1", "tts"}},
		{"not a name", "", exit.Misused, []string{"63 letters"}},
	}
	for _, tt := range tests {
		_, err := Open(t.Context(), cfg, tt.endpoint, tt.variant)
		if exit.Code(err) != tt.code {
			t.Errorf("%s/%s: exit code %d (%v), want %d", tt.endpoint, tt.variant, exit.Code(err), err, tt.code)
		}
		for _, part := range tt.says {
			if !strings.Contains(fmt.Sprint(err), part) {
				t.Errorf("%s/%s: %v does not say %q", tt.endpoint, tt.variant, err, part)
			}
		}
	}

	cfg = load(t, &account{url: "http://127.0.0.1:1"}) // nobody is there
	if _, err := Open(t.Context(), cfg, "tts", "primary"); exit.Code(err) != exit.Unknown || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestLoadErrors(t *testing.T) {
	for _, bad := range []string{"127.0.0.1:4999", "ftp://127.0.0.1", "http://", "::"} {
		if _, _, err := Load(t.Context(), Config{EndpointURL: bad}); exit.Code(err) != exit.Misused {
			t.Errorf("%q: %v, want a misuse", bad, err)
		}
	}
}

func TestFreezeAndRestore(t *testing.T) {
	a := open(t, variant("primary", 3))
	v := variantOf(t, a, "")
	before := inspect(t, v)
	rec := freeze.Record(before)

	if err := v.Freeze(t.Context(), rec, 1); err != nil {
		t.Fatal(err)
	}
	frozen := inspect(t, v)
	if frozen.Desired != 1 || frozen.Current != 1 || frozen.Target.Suspended != freeze.All || frozen.Target.Max != 9 {
		t.Errorf("frozen: %+v, target %+v", frozen, frozen.Target)
	}
	if got, want := frozen.Tags[freeze.TagKey], "out=0/in=0/sched=0/min=1/max=9/desired=3"; got != want {
		t.Errorf("tag %q, want %q", got, want)
	}
	for range 2 { // a second time does no harm
		if err := v.Restore(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, inspect(t, v)); diff != "" {
			t.Error(diff)
		}
	}
	if n := a.calls["UpdateEndpointWeightsAndCapacities"]; n != 2 {
		t.Errorf("the count was set %d times, want down and up once", n)
	}
}

// TestFreezeRetries: what passes is retried, what is in progress is waited for, and none of it is taken for an answer.
func TestFreezeRetries(t *testing.T) {
	faults := []fault{
		{"DescribeScalableTargets", 2, 400, "FailedResourceAccessException", "Unable to retrieve alarms from AmazonCloudWatch: Rate exceeded"},
		{"RegisterScalableTarget", 2, 400, "ThrottlingException", ""},
		{"DescribeEndpoint", 2, 400, "ThrottlingException", "Rate exceeded"},
		{"UpdateEndpointWeightsAndCapacities", 2, 400, "ValidationException", `Cannot update in-progress endpoint "tts".`},
		{"AddTags", 0, 400, "AccessDeniedException", "not authorized"},
	}
	a := open(t, variant("primary", 3))
	v := variantOf(t, a, "")
	var notes []string
	v.Note = func(s string) { notes = append(notes, s) }
	rec := freeze.Record(inspect(t, v))
	for _, f := range faults {
		a.fail(f)
	}
	if err := v.Freeze(t.Context(), rec, 1); err != nil {
		t.Fatal(err)
	}
	if err := v.Restore(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "could not be tagged") {
		t.Errorf("notes %q", notes)
	}
}

func TestFailuresAreNotAbsence(t *testing.T) {
	tests := []struct {
		fault fault
		do    func(context.Context, *Variant, artifact.Freeze) error
		code  int
		says  string
	}{
		{fault{"DescribeScalableTargets", 0, 400, "FailedResourceAccessException", "Unable to retrieve alarms from AmazonCloudWatch: Rate exceeded"},
			func(ctx context.Context, v *Variant, _ artifact.Freeze) error { _, err := v.Inspect(ctx); return err }, exit.Unknown, "Rate exceeded"},
		{fault{"DescribeScalableTargets", 1, 400, "FailedResourceAccessException", "access denied to alarms"},
			func(ctx context.Context, v *Variant, _ artifact.Freeze) error { _, err := v.Inspect(ctx); return err }, exit.Unknown, "access denied to alarms"},
		{fault{"DescribeEndpoint", 1, 400, "AccessDeniedException", "not authorized to perform: sagemaker:DescribeEndpoint"},
			func(ctx context.Context, v *Variant, _ artifact.Freeze) error {
				_, _, _, err := v.Count(ctx)
				return err
			}, exit.Unknown, "needs that permission"},
		{fault{"RegisterScalableTarget", 1, 400, "ValidationException", "you may not"},
			func(ctx context.Context, v *Variant, rec artifact.Freeze) error { return v.Freeze(ctx, rec, 1) }, exit.No, "suspend scaling of endpoint/tts/variant/primary"},
		{fault{"UpdateEndpointWeightsAndCapacities", 1, 400, "ResourceLimitExceeded", "the limit is 0"},
			func(ctx context.Context, v *Variant, rec artifact.Freeze) error { return v.Freeze(ctx, rec, 1) }, exit.No, "pin endpoint/tts/variant/primary to 1"},
	}
	for _, tt := range tests {
		t.Run(tt.fault.target+" "+tt.fault.code, func(t *testing.T) {
			a := open(t, variant("primary", 3))
			v := variantOf(t, a, "")
			rec := freeze.Record(inspect(t, v))
			a.fail(tt.fault)
			err := tt.do(t.Context(), v, rec)
			if exit.Code(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("exit code %d, %v; want %d, %q", exit.Code(err), err, tt.code, tt.says)
			}
		})
	}
}

// TestFreezeEndsWithContext: a freeze that waits stops when it is told to, and says why.
func TestFreezeEndsWithContext(t *testing.T) {
	slow := variant("primary", 3)
	slow.Stages.Provision = time.Hour
	a := open(t, slow)
	v := variantOf(t, a, "")
	rec := freeze.Record(inspect(t, v))
	ctx, cancel := context.WithCancelCause(t.Context())
	v.Say = func(s string) {
		if strings.Contains(s, "waiting") {
			cancel(fmt.Errorf("told to stop"))
		}
	}
	err := v.Freeze(ctx, rec, 5) // two more instances never come
	if err == nil || !strings.Contains(err.Error(), "told to stop") {
		t.Errorf("got %v", err)
	}
}

func TestActivate(t *testing.T) {
	a := open(t, variant("primary", 3))
	v := variantOf(t, a, "")
	rec := freeze.Record(inspect(t, v))
	if err := v.Freeze(t.Context(), rec, 1); err != nil {
		t.Fatal(err)
	}
	if err := v.Activate(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if s := inspect(t, v); s.Desired != 2 || s.Target.Suspended != (freeze.Flags{}) {
		t.Errorf("got %+v, target %+v", s, s.Target)
	}
}

// TestMinAboveOne: one instance is held although the target's least is two, and nothing is left below it.
func TestMinAboveOne(t *testing.T) {
	two := variant("primary", 2)
	two.Min = 2
	v := variantOf(t, open(t, two), "")
	before := inspect(t, v)
	rec := freeze.Record(before)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := v.Freeze(ctx, rec, 1); err != nil {
		t.Fatal(err)
	}
	if err := v.Restore(ctx, rec); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, inspect(t, v)); diff != "" {
		t.Error(diff)
	}
}

// TestTargetGone: what someone else deregistered in the meantime is not made again.
func TestTargetGone(t *testing.T) {
	bare := variant("primary", 3)
	bare.Min, bare.Max = 0, 0
	v := variantOf(t, open(t, bare), "")
	s := inspect(t, v)
	if s.Target != nil {
		t.Fatalf("target %+v, want none", s.Target)
	}
	rec := freeze.Record(s)
	if err := v.Freeze(t.Context(), rec, 1); err != nil {
		t.Fatal(err)
	}
	rec.HadTarget, rec.Min, rec.Max = true, 1, 9
	if err := v.Restore(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if s := inspect(t, v); s.Target != nil || s.Desired != 3 {
		t.Errorf("target %+v, desired %d", s.Target, s.Desired)
	}
}

func TestRead(t *testing.T) {
	v := variantOf(t, open(t, variant("primary", 1)), "")
	m := measure.Metric{Namespace: "AWS/SageMaker", Name: "Invocations", Stat: "Sum", Period: time.Minute}
	got, err := v.Read(t.Context(), []measure.Metric{m}, time.Now().Add(-time.Hour), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range got[m] {
		if p.Value != 0 {
			t.Errorf("%s: %g invocations of none", p.At, p.Value)
		}
	}
	if _, err := v.Firing(t.Context(), []string{"no such alarm"}); exit.Code(err) != exit.No || !strings.Contains(err.Error(), "no such alarm") {
		t.Errorf("an alarm that is not there: %v", err)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"speech-kokoro-82m", "speech-orpheus", "billing", "kokoro-dev"}
	if got := nearest("speech-kokoro82m", names, 2); len(got) != 2 || got[0] != "speech-kokoro-82m" {
		t.Errorf("got %q", got)
	}
}

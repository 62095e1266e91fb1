package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/google/go-cmp/cmp"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func to(cfg Config) *Access {
	cfg.Account = service.Account{Region: "us-east-1", ID: "000000000000"}
	cfg.Now = func() time.Time { return noon }
	cfg.Ended = func() <-chan struct{} { return nil }
	return New(cfg)
}

func wants(t *testing.T, what string, err error, code string) {
	t.Helper()
	var f *wire.Fault
	if code == "" && err == nil {
		return
	}
	if !errors.As(err, &f) || f.Code != code {
		t.Errorf("%s: %v, want %q", what, err, code)
	}
}

// TestSignature takes what the SDK signs, and nothing that was changed since.
func TestSignature(t *testing.T) {
	a := to(Config{VerifySignatures: true})
	const body = `{"EndpointName":"x"}`
	for what, c := range map[string]struct {
		at     time.Time
		region string
		secret string
		change func(*http.Request)
		code   string
	}{
		"as it was signed": {at: noon},
		"a little early":   {at: noon.Add(-4 * time.Minute)},
		"too early":        {at: noon.Add(-6 * time.Minute), code: wire.BadSignature},
		"another region":   {at: noon, region: "eu-west-1", code: wire.BadSignature},
		"another secret":   {at: noon, secret: "other", code: wire.BadSignature},
		"another path":     {at: noon, change: func(r *http.Request) { r.URL.Path = "/endpoints/y" }, code: wire.BadSignature},
		"another query":    {at: noon, change: func(r *http.Request) { r.URL.RawQuery = "a=2&b=c+d" }, code: wire.BadSignature},
		"another header":   {at: noon, change: func(r *http.Request) { r.Header.Set("X-Amzn-Attribute", "z") }, code: wire.BadSignature},
		"another key": {at: noon, change: func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), accessKey, "AKIDOTHER", 1))
		}, code: wire.UnknownKey},
		"without signature": {at: noon, change: func(r *http.Request) { r.Header.Del("Authorization") }, code: wire.NoSignature},
		"without a time":    {at: noon, change: func(r *http.Request) { r.Header.Del("X-Amz-Date") }, code: wire.BadSignature},
	} {
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:1/endpoints/a%20b?b=c+d&a=1", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amzn-Attribute", " a  b ")
		keys := aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}
		if c.secret != "" {
			keys.SecretAccessKey = c.secret
		}
		region := "us-east-1"
		if c.region != "" {
			region = c.region
		}
		if err := v4.NewSigner().SignHTTP(context.Background(), keys, r, sum256([]byte(body)), "sagemaker", region, c.at); err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Length", fmt.Sprint(len(body))) // as it comes to a server
		if c.change != nil {
			c.change(r)
		}
		wants(t, what, a.Admit(r, []byte(body), "sagemaker:InvokeEndpoint"), c.code)
		if c.code == "" {
			wants(t, what+", with another body", a.Admit(r, []byte("{}"), "sagemaker:InvokeEndpoint"), wire.BadSignature)
		}
	}
}

// TestDenied: what the caller may not do, itself or through Application Auto Scaling.
func TestDenied(t *testing.T) {
	r := &http.Request{Header: http.Header{}}
	a := to(Config{Deny: []string{"IAM:*", "cloudwatch:Put?etricAlarm"}})
	for action, code := range map[string]string{
		"iam:GetRole":                                wire.AccessDenied,
		"sagemaker:UpdateEndpoint":                   "",
		"cloudwatch:PutMetricAlarm":                  wire.AccessDenied,
		"application-autoscaling:PutScalingPolicy":   wire.ValidationException,
		"application-autoscaling:PutScheduledAction": "",
	} {
		wants(t, action, a.Admit(r, nil, action), code)
	}
	a = to(Config{Deny: []string{"iam:CreateServiceLinkedRole"}})
	const register = "application-autoscaling:RegisterScalableTarget"
	wants(t, "without the linked role", a.Admit(r, nil, register), wire.ValidationException)
	a = to(Config{Deny: []string{"iam:CreateServiceLinkedRole"}, LinkedRole: true})
	wants(t, "with it", a.Admit(r, nil, register), "")
}

// TestFaults draws about as many as it is told to.
func TestFaults(t *testing.T) {
	a := to(Config{Faults: Faults{Fail5XX: 0.25}, Rand: rand.New(rand.NewPCG(1, 2))})
	r := &http.Request{Header: http.Header{}}
	broken := 0
	for range 1000 {
		if a.Admit(r, nil, "sagemaker:ListEndpoints") != nil {
			broken++
		}
	}
	if broken < 200 || broken > 300 {
		t.Errorf("%d of 1000 failed", broken)
	}
	for s, want := range map[string]string{"throttle": "", "5xx:0.5": "", "timeout:0": "not above 0", "5xx:2": "not above 0"} {
		if _, _, ours, err := ParseFault(s); !ours || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v", s, ours, err)
		}
	}
	if _, _, ours, _ := ParseFault("placement"); ours {
		t.Error("placement is a fault of calls")
	}
}

// TestIdentities: what is saved is what was told.
func TestIdentities(t *testing.T) {
	a := to(Config{LinkedRole: true})
	ask := func(name, in string) {
		t.Helper()
		if _, err := a.IAM().Operations[name](context.Background(), func(v any) error { return json.Unmarshal([]byte(in), v) }); err != nil {
			t.Fatal(err)
		}
	}
	ask("CreateRole", `{"RoleName":"r","Path":"/x/","AssumeRolePolicyDocument":"{\"Statement\":[]}","Tags":[{"Key":"k","Value":"v"}]}`)
	ask("PutRolePolicy", `{"RoleName":"r","PolicyName":"p","PolicyDocument":"{\"Statement\":[]}"}`)
	ask("CreatePolicy", `{"PolicyName":"p","PolicyDocument":"{\"Statement\":[]}"}`)
	ask("AttachRolePolicy", `{"RoleName":"r","PolicyArn":"arn:aws:iam::000000000000:policy/p"}`)
	roles, policies := a.Identities()
	if len(roles) != 2 || roles[1].Name != "r" || !roles[1].Attached["arn:aws:iam::000000000000:policy/p"] || len(policies) != 1 {
		t.Fatalf("%+v %+v", roles, policies)
	}
	again := to(Config{})
	again.Restore(roles, policies)
	gotRoles, gotPolicies := again.Identities()
	if d := cmp.Diff([]any{roles, policies}, []any{gotRoles, gotPolicies}); d != "" {
		t.Error(d)
	}
}

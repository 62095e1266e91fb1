// Package awsfleet reads, freezes, pins and restores a SageMaker variant through the AWS APIs, and reads its metrics and
// alarms. It tells "does not exist" from "could not be read", retries what is worth retrying, and waits for an endpoint
// that is being updated.
//
// What to change and what forbids it is decided in package freeze, when to do so in package measure.
//
//	cfg, notes, err := awsfleet.Load(ctx, awsfleet.Config{EndpointURL: "http://127.0.0.1:4999"})
//	v, err := awsfleet.Open(ctx, cfg, "speech-kokoro-82m", "")
//	state, err := v.Inspect(ctx)
package awsfleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go"

	"loadline/internal/exit"
)

// Config says where the AWS APIs are. What is empty is left to the SDK: its environment, profiles, SSO and roles.
type Config struct {
	Region      string
	EndpointURL string // a local endpoint
}

// Load is the SDK's configuration, and notes on what it took upon itself. A loopback endpoint needs neither credentials
// nor a region: dummies are used where none are configured.
func Load(ctx context.Context, c Config) (aws.Config, []string, error) {
	local := loopback(c.EndpointURL)
	options := []func(*config.LoadOptions) error{config.WithRetryer(func() aws.Retryer { return retryer(local) })}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	if c.EndpointURL != "" {
		u, err := url.Parse(c.EndpointURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return aws.Config{}, nil, exit.Misuse(fmt.Errorf("--endpoint-url %q is no URL of a server: give one like http://127.0.0.1:4999", c.EndpointURL))
		}
		options = append(options, config.WithBaseEndpoint(c.EndpointURL))
	}
	if local { // there is no instance to ask for a role
		options = append(options, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, nil, exit.CannotTell(fmt.Errorf("read the AWS configuration: %w", err))
	}

	var notes []string
	local = local || cfg.BaseEndpoint != nil && loopback(*cfg.BaseEndpoint) // AWS_ENDPOINT_URL
	if local {
		if cfg.Region == "" {
			cfg.Region = "us-east-1"
		}
		if cfg.Credentials == nil {
			cfg.Credentials = dummy()
		} else if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
			cfg.Credentials = dummy()
			notes = append(notes, "no AWS credentials are configured: the local endpoint gets dummy ones")
		}
	}
	if cfg.Region == "" {
		return aws.Config{}, nil, exit.Misuse(errors.New("no region is set: give --region us-east-1, or set AWS_REGION or the profile's region"))
	}
	return cfg, notes, nil
}

func dummy() aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")
}

// loopback says whether a URL is on this machine.
func loopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback()
}

// retryer retries throttling and passing failures with back-off: patiently against AWS, briefly against this machine,
// where a refused connection means that nothing is there.
func retryer(local bool) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 7
		o.MaxBackoff = 15 * time.Second
		if local {
			o.MaxAttempts, o.MaxBackoff = 5, 200*time.Millisecond
		}
		o.RateLimiter = ratelimit.None
		o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(throttledBehind))
	})
}

// throttledBehind tells apart a service that was throttled by another one on our behalf: its code is that of any failed
// access, only the text says that the rate was exceeded.
func throttledBehind(err error) aws.Ternary {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "FailedResourceAccessException" && strings.Contains(api.ErrorMessage(), "Rate exceeded") {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// is says whether err is an API error of this code whose message holds text ("" for any).
func is(err error, code, text string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code && strings.Contains(api.ErrorMessage(), text)
}

// unread marks a read that failed: it says nothing of what was asked about.
func unread(step string, err error) error {
	return exit.CannotTell(fmt.Errorf("%s: %w", step, plain(err)))
}

// plain is an SDK error in the words of a person: the service's own code and message, or what kept it from answering.
func plain(err error) error {
	var op *smithy.OperationError
	var api smithy.APIError
	switch {
	case errors.As(err, &api):
		name := "the call"
		if errors.As(err, &op) {
			name = op.Operation()
		}
		text := api.ErrorMessage()
		if text == "" {
			text = "no message"
		}
		if strings.Contains(api.ErrorCode(), "AccessDenied") || strings.Contains(api.ErrorCode(), "NotAuthorized") {
			text += "; the caller needs that permission"
		}
		return said{fmt.Sprintf("%s: %s: %s", name, api.ErrorCode(), text), err}
	case errors.As(err, &op):
		cause := op.Unwrap()
		for {
			var max *retry.MaxAttemptsError
			if !errors.As(cause, &max) {
				break
			}
			cause = max.Err
		}
		return said{fmt.Sprintf("%s: %v", op.Operation(), root(cause)), err}
	}
	return err
}

// root is the first error below the SDK's own wrappings, and what may listen where on this machine nothing does.
func root(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		if errors.Is(u, syscall.ECONNREFUSED) && loopback(u.URL) {
			return fmt.Errorf("%w (sagemaker-local serve starts a local account, and says where)", u)
		}
		return u
	}
	return err
}

// said is an error in other words.
type said struct {
	text string
	err  error
}

func (s said) Error() string { return s.text }
func (s said) Unwrap() error { return s.err }

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"loadline/internal/exit"
)

// remedies are what to do where a tool is missing.
var remedies = map[string]string{
	"node":   "the templates are made by the AWS CDK, which needs Node: install Node 22 or newer (https://nodejs.org), or deploy the ready templates in infra/templates by the AWS CLI (doc/deploy.md)",
	"cdk":    "the CDK's command deploys the templates: npm install --global aws-cdk@2",
	"docker": "Docker builds the image: install it, or build in the account's own project (doc/deploy.md, \"Without Docker\") and give --image-uri URI@sha256:…",
}

// tool finds a program on the PATH, or says how to get it.
func (a *app) tool(name string) (string, error) {
	for _, dir := range filepath.SplitList(a.env["PATH"]) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", exit.Refuse(fmt.Errorf("%s is not on the PATH: %s", name, remedies[name]))
}

// last keeps the end of what a program said.
type last struct{ bytes.Buffer }

func (l *last) Write(p []byte) (int, error) {
	const keep = 16 << 10
	if over := l.Len() + len(p) - keep; over > 0 && l.Len() > 0 {
		l.Next(min(over, l.Len()))
	}
	return l.Buffer.Write(p)
}

// child runs a program with its arguments as they are: no shell reads them. What it says goes to stdout and stderr as it
// comes, and its end is returned with the error.
func (a *app) child(ctx context.Context, f *flags, stdin io.Reader, stdout io.Writer, path string, args ...string) (said string, err error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = a.environ
	if f.region != "" {
		cmd.Env = append(cmd.Env, "AWS_REGION="+f.region, "AWS_DEFAULT_REGION="+f.region)
	}
	if f.endpointURL != "" {
		cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL="+f.endpointURL)
	}
	var kept last
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, io.MultiWriter(stdout, &kept), io.MultiWriter(a.stderr, &kept)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it leaves CloudFormation to go on or back by itself
	cmd.WaitDelay = 30 * time.Second
	err = cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return kept.String(), err
}

// cdk runs the CDK's command on an assembly.
func (a *app) cdk(ctx context.Context, f *flags, verb, assembly string, args ...string) error {
	path, err := a.tool("cdk")
	if err != nil {
		return err
	}
	said, err := a.child(ctx, f, a.stdin, a.stdout, path, append([]string{verb, "--app", assembly}, args...)...)
	if err == nil {
		return nil
	}
	if why := cdkFailure(said, a.home(f)); why != "" {
		return exit.Refuse(errors.New(why))
	}
	return exit.Refuse(fmt.Errorf("cdk %s %s: %w: what it said is above", verb, strings.Join(args, " "), err))
}

var (
	bootstrap = regexp.MustCompile(`(?i)has the environment been bootstrapped|is this account bootstrapped|cdk-bootstrap/\S+ not found|is not bootstrapped`)
	which     = regexp.MustCompile(`aws://(\d{12})/([a-z0-9-]+)`)
	nobody    = regexp.MustCompile(`(?i)unable to resolve AWS account|need to perform AWS calls for account|no credentials|could not load credentials|ExpiredToken|security token included in the request is (invalid|expired)`)
	terminal  = regexp.MustCompile(`terminal \(TTY\) is not attached`)
	broken    = regexp.MustCompile(`(?i)UPDATE_ROLLBACK_FAILED`)
	limit     = regexp.MustCompile(`(?i)ResourceLimitExceeded|service limit`)
)

// cdkFailure is why the CDK's command failed and what to do, where what it said is known; "" where it is not.
func cdkFailure(said, region string) string {
	switch {
	case bootstrap.MatchString(said):
		where := "aws://ACCOUNT/" + region
		if region == "" {
			where = "aws://ACCOUNT/REGION"
		}
		if m := which.FindString(said); m != "" {
			where = m
		}
		return "the account is not bootstrapped for the CDK in this region: cdk bootstrap " + where + " makes the bucket and roles that the CDK deploys by"
	case nobody.MatchString(said):
		return "the CDK found no credentials for the account: aws configure, aws sso login, or AWS_PROFILE, and then again"
	case terminal.MatchString(said):
		return "the CDK asks before it widens permissions, and there is no terminal to ask at: look at speech-infra diff, then --require-approval never"
	case broken.MatchString(said):
		return "a stack could not be rolled back and takes no update (UPDATE_ROLLBACK_FAILED): aws cloudformation continue-update-rollback --stack-name NAME"
	case limit.MatchString(said):
		return "the account's quota for this instance type is used up: ask for more (aws service-quotas list-service-quotas --service-code sagemaker), or plan with --quota"
	}
	return ""
}

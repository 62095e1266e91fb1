package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"

	"loadline/infra/stack"
	"loadline/internal/artifact"
	"loadline/internal/exit"
)

// bidiLabel is what SageMaker looks for before it opens a bidirectional stream to a container.
const bidiLabel = "com.amazonaws.sagemaker.capabilities.bidirectional-streaming=true"

// buildImage builds the image of a model into the foundation's repository, which it deploys first, and records the digest.
func (a *app) buildImage(ctx context.Context, cfg aws.Config, f *deployFlags, c chosen) (string, error) {
	docker, err := a.tool("docker")
	if err != nil {
		return "", err
	}
	extra, err := f.buildArgs()
	if err != nil {
		return "", err
	}
	m := c.models[0]
	repository, err := a.repository(ctx, f, c)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(a.stderr, "building the image of %s …\n", m.Name)
	tag := repository + ":" + strings.ToLower(m.Name) + "-" + time.Now().UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:4])
	args := []string{"build", "--platform", "linux/amd64", "--provenance=false", "--tag", tag}
	if m.StreamingMode == "bidirectional" {
		args = append(args, "--label", bidiLabel)
	}
	if f.dockerfile != "" {
		args = append(args, "--file", f.dockerfile)
	}
	if _, err := a.child(ctx, &f.flags, nil, a.stderr, docker, append(append(args, extra...), f.build)...); err != nil {
		return "", exit.Refuse(fmt.Errorf("docker build: %w: what it said is above", err))
	}
	as, err := a.inspect(ctx, f, docker, tag, "{{.Config.User}}")
	if err != nil {
		return "", err
	}
	if name, _, _ := strings.Cut(as, ":"); name == "" || name == "root" || name == "0" {
		return "", exit.Refuse(fmt.Errorf("the image of %s runs as root: give its Dockerfile a USER; nothing was pushed", m.Name))
	}
	user, password, err := token(ctx, cfg)
	if err != nil {
		return "", err
	}
	host, _, _ := strings.Cut(repository, "/")
	if _, err := a.child(ctx, &f.flags, strings.NewReader(password), a.stderr, docker, "login", "--username", user, "--password-stdin", host); err != nil {
		return "", exit.Refuse(fmt.Errorf("docker login to %s: %w: what it said is above", host, err))
	}
	fmt.Fprintf(a.stderr, "pushing %s …\n", tag)
	if _, err := a.child(ctx, &f.flags, nil, a.stderr, docker, "push", tag); err != nil {
		return "", exit.Refuse(fmt.Errorf("docker push: %w: what it said is above", err))
	}
	image, err := a.inspect(ctx, f, docker, tag, "{{index .RepoDigests 0}}")
	if err != nil {
		return "", err
	}
	if artifact.ImageDigest(image) == "" || !strings.HasPrefix(image, repository+"@") {
		return "", exit.CannotTell(fmt.Errorf("Docker says that %s is %q, which is no digest in %s", tag, image, repository))
	}
	return image, a.record(f.models, c.file, m.Name, image)
}

// inspect asks Docker for something about an image.
func (a *app) inspect(ctx context.Context, f *deployFlags, docker, tag, format string) (string, error) {
	var out bytes.Buffer
	if _, err := a.child(ctx, &f.flags, nil, &out, docker, "image", "inspect", "--format", format, tag); err != nil {
		return "", exit.Refuse(fmt.Errorf("ask Docker about %s: %w", tag, err))
	}
	return strings.TrimSpace(out.String()), nil
}

// repository deploys the foundation and asks what its repository is called.
func (a *app) repository(ctx context.Context, f *deployFlags, c chosen) (string, error) {
	dir, done, err := a.assembled(&f.flags, c, nil)
	if err != nil {
		return "", err
	}
	defer done()
	outputs := filepath.Join(filepath.Dir(dir), "outputs.json")
	if err := a.cdk(ctx, &f.flags, "deploy", dir, append([]string{stack.Foundation, "--outputs-file", outputs}, f.cdkArgs()...)...); err != nil {
		return "", err
	}
	data, err := os.ReadFile(outputs)
	if err != nil {
		return "", exit.CannotTell(fmt.Errorf("read what the CDK says of %s: %w", stack.Foundation, err))
	}
	var said map[string]map[string]string
	if err := json.Unmarshal(data, &said); err != nil || said[stack.Foundation]["RepositoryUri"] == "" {
		return "", exit.CannotTell(fmt.Errorf("the CDK does not say what the repository of %s is called", stack.Foundation))
	}
	return said[stack.Foundation]["RepositoryUri"], nil
}

// token is the user and password by which Docker pushes.
func token(ctx context.Context, cfg aws.Config) (user, password string, err error) {
	out, err := ecr.NewFromConfig(cfg).GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		return "", "", exit.CannotTell(fmt.Errorf("ask for a token to push with: %w", err))
	}
	if len(out.AuthorizationData) == 0 {
		return "", "", exit.CannotTell(errors.New("ask for a token to push with: there is none"))
	}
	data, err := base64.StdEncoding.DecodeString(aws.ToString(out.AuthorizationData[0].AuthorizationToken))
	user, password, ok := strings.Cut(string(data), ":")
	if err != nil || !ok {
		return "", "", exit.CannotTell(errors.New("the token to push with is not one"))
	}
	return user, password, nil
}

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/rogpeppe/go-internal/testscript"

	"loadline/internal/corpus"
	"loadline/internal/engine/replay"
	"loadline/internal/fleet"
	"loadline/internal/load"
	"loadline/internal/registry"
	"loadline/internal/sample"
	"loadline/internal/transport"
)

var update = flag.Bool("update", false, "rewrite the goldens of the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sagemaker-local": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"serve": started, "describe": describe, "speak": speak, "scale": scale, "stop": stop, "stream": stream},
	})
}

// started starts sagemaker-local serve with the flags, waits until it is ready and sets $URL; it is interrupted with the
// script and must then exit 0.
func started(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command("sagemaker-local", append([]string{"serve"}, args...)...)
	cmd.Env = append(cmd.Environ(), "PATH="+ts.Getenv("PATH"))
	path, err := exec.LookPath("sagemaker-local")
	if err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	var stderr strings.Builder
	cmd.Stderr, cmd.Dir = &stderr, ts.Getenv("WORK")
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	began := time.Now()
	ts.Check(cmd.Start())
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	url, ready := strings.CutPrefix(line, "ready ")
	ts.Logf("%s after %s", strings.TrimSpace(line), time.Since(began).Round(time.Millisecond))
	ts.Setenv("URL", strings.TrimSpace(url))
	if slices.Contains(args, "--bidi-addr") {
		second, err := lines.ReadString('\n')
		ts.Check(err)
		ts.Setenv("BIDI", strings.TrimSpace(strings.TrimPrefix(second, "ready-bidi ")))
	}
	end := sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		rest, _ := io.ReadAll(stdout)
		if err := cmd.Wait(); err != nil || len(rest) > 0 {
			ts.Fatalf("interrupted: %v, stdout %q, stderr %s", err, rest, stderr.String())
		}
	})
	ts.Defer(end)
	running.Store(ts.Getenv("WORK"), end)
	if !ready {
		ts.Fatalf("not ready: %q %v", line, err)
	}
}

var running sync.Map // the end of what a script has started last, by the script's folder

// stop ends what the script has started last.
func stop(ts *testscript.TestScript, _ bool, _ []string) {
	if end, ok := running.Load(ts.Getenv("WORK")); ok {
		end.(func())()
	}
}

func config(ts *testscript.TestScript) aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: aws.String(ts.Getenv("URL")), Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")}
}

// describe fails unless each variant of the endpoint has so many instances: describe VARIANT=N….
func describe(ts *testscript.TestScript, _ bool, args []string) {
	client := sagemaker.NewFromConfig(config(ts))
	list, err := client.ListEndpoints(context.Background(), &sagemaker.ListEndpointsInput{})
	ts.Check(err)
	var got []string
	for _, e := range list.Endpoints {
		for deadline := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
			out, err := client.DescribeEndpoint(context.Background(), &sagemaker.DescribeEndpointInput{EndpointName: e.EndpointName})
			ts.Check(err)
			if out.EndpointStatus == types.EndpointStatusInService {
				for _, v := range out.ProductionVariants {
					got = append(got, *e.EndpointName+"/"+*v.VariantName+"="+string(rune('0'+*v.CurrentInstanceCount)))
				}
				break
			}
			if time.Now().After(deadline) {
				ts.Fatalf("%s is still %s", *e.EndpointName, out.EndpointStatus)
			}
		}
	}
	if g, w := strings.Join(got, " "), strings.Join(args, " "); g != w {
		ts.Fatalf("the account has %q, want %q", g, w)
	}
}

// speak fails unless the endpoint says a text: speak ENDPOINT.
func speak(ts *testscript.TestScript, neg bool, args []string) {
	out, err := sagemakerruntime.NewFromConfig(config(ts)).InvokeEndpoint(context.Background(), &sagemakerruntime.InvokeEndpointInput{
		EndpointName: &args[0], ContentType: aws.String("application/json"), Body: []byte(`{"text":"Good morning."}`)})
	if neg != (err != nil) || !neg && !strings.HasPrefix(string(out.Body), "RIFF") {
		ts.Fatalf("speak: %v", err)
	}
}

// stream fails unless the endpoint says a text over a bidirectional stream: stream ENDPOINT CERTIFICATE.
func stream(ts *testscript.TestScript, _ bool, args []string) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ts.ReadFile(args[1]))) {
		ts.Fatalf("%s is no certificate", args[1])
	}
	tr, err := transport.NewBidi(config(ts), transport.BidiOptions{Net: transport.Net{TLS: &tls.Config{RootCAs: roots}}, URL: ts.Getenv("BIDI"), Endpoint: args[0]})
	ts.Check(err)
	defer tr.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began, rec := time.Now(), sample.New(0)
	rec.Started = 0
	tr.Do(ctx, load.Call{Text: corpus.Text{Body: "Good morning."}, Clock: func() sample.Nanos { return sample.Since(time.Since(began)) }}, &rec)
	if rec.Outcome != sample.OK || rec.Audio < 0.1 {
		ts.Fatalf("stream: %s (%s), %v s", rec.Outcome, rec.Cause, rec.Audio)
	}
}

// scale sets the count of variant primary: scale ENDPOINT N.
func scale(ts *testscript.TestScript, neg bool, args []string) {
	_, err := sagemaker.NewFromConfig(config(ts)).UpdateEndpointWeightsAndCapacities(context.Background(), &sagemaker.UpdateEndpointWeightsAndCapacitiesInput{
		EndpointName:                &args[0],
		DesiredWeightsAndCapacities: []types.DesiredWeightAndCapacity{{VariantName: aws.String("primary"), DesiredInstanceCount: aws.Int32(int32(args[1][0] - '0'))}}})
	if neg != (err != nil) {
		ts.Fatalf("scale: %v", err)
	}
}

// TestDefaultsAreTheRegistrys holds what is served without flags to models.yaml.
func TestDefaultsAreTheRegistrys(t *testing.T) {
	f, err := registry.Load("../../models.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Model(modelName)
	if err != nil {
		t.Fatal(err)
	}
	p, err := replay.Builtin("kokoro-g5")
	if err != nil {
		t.Fatal(err)
	}
	if m.Image != image || m.Endpoint != "speech-"+modelName || m.Variant != "primary" || m.InstanceType != p.Instance.Type ||
		m.VCPUs != p.Instance.VCPUs || m.GPUs != p.Instance.GPUs {
		t.Errorf("models.yaml says %+v", m)
	}
}

func TestStartup(t *testing.T) {
	p, err := replay.Builtin("kokoro-g5")
	if err != nil {
		t.Fatal(err)
	}
	for total, want := range map[time.Duration]time.Duration{-1: p.Startup.Total(), 0: 0, 10 * time.Second: 10 * time.Second} {
		container, platform := startup(p, total)
		if got := container + platform.Provision + platform.Settle; (got - want).Abs() > time.Microsecond {
			t.Errorf("--start %s: the stages add up to %s, want %s", total, got, want)
		}
		if platform.Health != fleet.DefaultHealth+container {
			t.Errorf("--start %s: %s until it must be healthy", total, platform.Health)
		}
	}
}

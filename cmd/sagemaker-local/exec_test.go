package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"

	"loadline/internal/local"
)

// The whole chain on instances that are processes of speech-server: measured, planned, scaled out and in, with the metrics
// that the containers print; and nothing runs on afterwards.
func TestChainThroughProcesses(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "loadline/cmd/sagemaker-local", "loadline/cmd/speech-server", "loadline/cmd/tts-bench").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	profile := filepath.Join(dir, "fast.yaml")
	if err := os.WriteFile(profile, []byte("name: fast\nservice: {base_ms: 10}\naudio: {per_char_s: 0.05, sentences: true, first_s: 1}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	account := exec.Command(filepath.Join(dir, "sagemaker-local"), "serve", "--exec", filepath.Join(dir, "speech-server"), "--start", "0", "--publication-delay", "0", "--queue-depth", "40",
		"--bidi-addr", "127.0.0.1:0", "--bidi-cert", filepath.Join(dir, "bidi.pem"))
	account.Env = append(os.Environ(), "SPEECH_PROFILE="+profile, "SCHED=ignored: not passed on")
	account.Stderr = &stderr
	stdout, err := account.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := account.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = account.Process.Kill() })
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok {
		t.Fatalf("sagemaker-local said %q: %v\n%s", line, err, &stderr)
	}
	line, err = lines.ReadString('\n')
	second, ok := strings.CutPrefix(strings.TrimSpace(line), "ready-bidi ")
	if !ok {
		t.Fatalf("sagemaker-local said %q: %v\n%s", line, err, &stderr)
	}
	const endpoint = "speech-kokoro-82m"
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cfg := aws.Config{Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")}

	try := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "tts-bench"), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "AWS_REGION=us-east-1", "AWS_CA_BUNDLE="+filepath.Join(dir, "bidi.pem"))
		out, err := cmd.CombinedOutput()
		return fmt.Sprintf("tts-bench %s\n%s", strings.Join(args, " "), out), err
	}
	bench := func(args ...string) {
		t.Helper()
		if out, err := try(args...); err != nil {
			t.Fatalf("%s%v", out, err)
		}
	}
	bench("say", "--endpoint", endpoint, "--endpoint-url", url, "Your table is ready. Please follow me.")
	bench("say", "--endpoint", endpoint, "--endpoint-url", url, "--transport", "bidi", "--bidi-endpoint-url", second, "Your table is ready. Please follow me.")
	// On a busy machine a rung as short as these may be invalid, and a ladder without its first is no base for a plan.
	for n := 0; ; n++ {
		bench("qmax", "--endpoint", endpoint, "--endpoint-url", url, "--slo-ms", "300", "--corpus", "clips", "--concurrency", "1,2,4,8", "--hold", "3s",
			"--measure-window", "2s", "--idle", "0s", "--probe-depth", "--yes", "--out", fmt.Sprint("out", n))
		files, _ := filepath.Glob(filepath.Join(dir, fmt.Sprint("out", n), "qmax-*.json"))
		if len(files) != 1 {
			t.Fatalf("ladders: %v", files)
		}
		out, err := try("plan", "--qmax", files[0], "--assume-t-total", "60", "--peak-rps", "20", "--accept", "fleet_throughput", "--no-save")
		if err == nil && strings.Contains(out, "scaling_target_value") {
			break
		}
		if n == 3 {
			t.Fatalf("%s%v", out, err)
		}
	}

	control := sagemaker.NewFromConfig(cfg)
	scale := func(n int32) {
		t.Helper()
		if _, err := control.UpdateEndpointWeightsAndCapacities(ctx, &sagemaker.UpdateEndpointWeightsAndCapacitiesInput{EndpointName: aws.String(endpoint),
			DesiredWeightsAndCapacities: []types.DesiredWeightAndCapacity{{VariantName: aws.String("primary"), DesiredInstanceCount: &n}}}); err != nil {
			t.Fatal(err)
		}
		for {
			out, err := control.DescribeEndpoint(ctx, &sagemaker.DescribeEndpointInput{EndpointName: aws.String(endpoint)})
			if err != nil {
				t.Fatal(err)
			}
			if out.EndpointStatus == types.EndpointStatusInService && *out.ProductionVariants[0].CurrentInstanceCount == n {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	scale(2)
	speaker := sagemakerruntime.NewFromConfig(cfg)
	names := map[string]bool{}
	for range 200 {
		out, err := speaker.InvokeEndpoint(ctx, &sagemakerruntime.InvokeEndpointInput{EndpointName: aws.String(endpoint), ContentType: aws.String("application/json"),
			Body: []byte(`{"text": "Hello.", "stream": false, "sample_rate": 8000}`)})
		if err != nil || !strings.HasPrefix(string(out.Body), "RIFF") {
			t.Fatalf("invoke: %v", err)
		}
		if names[aws.ToString(out.CustomAttributes)] = true; len(names) == 2 {
			break
		}
	}
	if len(names) != 2 {
		t.Errorf("only %v answered", names)
	}
	scale(1)
	watch := cloudwatch.NewFromConfig(cfg)
	for spoken := 0.0; spoken == 0; <-time.After(100 * time.Millisecond) {
		out, err := watch.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{Namespace: aws.String("Loadline/Speech"), MetricName: aws.String("AudioSeconds"),
			Dimensions: []cwtypes.Dimension{{Name: aws.String("EndpointName"), Value: aws.String(endpoint)}, {Name: aws.String("VariantName"), Value: aws.String("primary")}},
			StartTime:  aws.Time(time.Now().Add(-10 * time.Minute)), EndTime: aws.Time(time.Now().Add(time.Minute)), Period: aws.Int32(60), Statistics: []cwtypes.Statistic{cwtypes.StatisticSum}})
		if err != nil {
			t.Fatalf("the containers' metrics: %v", err)
		}
		for _, d := range out.Datapoints {
			spoken += *d.Sum
		}
	}
	running := offspring(t, account.Process.Pid)
	if len(running) != 1 {
		t.Errorf("%d processes for one instance", len(running))
	}
	if err := account.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	if err := account.Wait(); err != nil {
		t.Errorf("ended: %v\n%s", err, &stderr)
	}
	for _, pid := range running {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d runs on", pid)
		}
	}
}

// offspring is the processes that another one started.
func offspring(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("this system has no /proc to look for processes in")
	}
	for _, f := range stats {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(b, []byte(") "))
		var state string
		var ppid, pid int
		if _, err := fmt.Sscan(string(rest), &state, &ppid); err == nil && ppid == parent {
			fmt.Sscan(string(b), &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

// A program that ends at once, and one that does not end when asked, are told from a container.
func TestBadContainers(t *testing.T) {
	dir := t.TempDir()
	script := func(name, body string) []string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
		return []string{p}
	}
	if _, err := containers([]string{filepath.Join(dir, "nothing")}); err == nil {
		t.Error("a program that is not there")
	}
	start, err := containers(script("ends", "echo no weights; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	spec := local.Spec{ID: "i-1", Output: &out, Model: local.Model{Env: map[string]string{"ENDPOINT_NAME": "x"}}}
	if _, err := start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(out.String(), "no weights") {
		t.Errorf("ends at once: %v, %q", err, &out)
	}
	start, err = containers(script("deaf", "trap '' TERM\necho $1 $ENDPOINT_NAME $SPEECH_INSTANCE ${SAGEMAKER_BIND_TO_PORT:+port} $SECRET\nwhile :; do sleep 1; done"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SECRET", "of the caller")
	var said lines
	spec.Output = &said
	i, err := start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	said.until(t, "serve x i-1 port\n")
	if u := i.Usage(); u.Memory <= 0 {
		t.Errorf("usage %+v", u)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := i.Stop(ctx); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("stop: %v", err)
	}
}

// lines is an output that can be waited for.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) until(t *testing.T, want string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		l.mu.Lock()
		got := l.all.String()
		l.mu.Unlock()
		if got == want {
			return
		}
		<-tick.C
	}
	t.Fatalf("printed %q, want %q", l.all.String(), want)
}

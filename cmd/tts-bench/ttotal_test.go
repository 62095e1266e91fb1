package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/scaleout"
)

// grown are the arguments of a short scale-out of the quick profile.
func grown(t *testing.T, url string, more ...string) []string {
	t.Helper()
	ladder, err := filepath.Abs("testdata/qmax-quick.json")
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"ttotal", "--qmax", ladder, "--endpoint-url", url, "--probe-concurrency", "2", "--warmup", "200ms", "--settle", "2s", "--window", "1s", "--yes"}, more...)
}

// stages reads the record of the scale-out that was measured in dir.
func stages(t *testing.T, dir string) (*artifact.TTotal, []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "artifacts", "ttotal-*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("artifacts %v, %v", found, err)
	}
	doc, err := readRecord(found[0], artifact.ReadTTotal)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, d := range doc.Durations {
		sum += d.Seconds
	}
	if off := sum - doc.TTotal; off > 1e-6 || off < -1e-6 {
		t.Errorf("the stages add up to %g s, the total is %g s", sum, doc.TTotal)
	}
	var names []string
	for _, s := range doc.Timeline {
		names = append(names, s.Name)
	}
	return doc, names
}

// alarmOn puts an alarm on the busiest instance of the last period, in seconds.
func alarmOn(t *testing.T, c *cloudwatch.Client, name string, period int32, threshold float64, actions ...string) {
	t.Helper()
	if _, err := c.PutMetricAlarm(t.Context(), &cloudwatch.PutMetricAlarmInput{AlarmName: &name, Namespace: aws.String("AWS/SageMaker"), MetricName: aws.String("ConcurrentRequestsPerModel"),
		Dimensions: []cw.Dimension{{Name: aws.String("EndpointName"), Value: aws.String(localEndpoint)}, {Name: aws.String("VariantName"), Value: aws.String("primary")}},
		Statistic:  cw.StatisticMaximum, Period: &period, EvaluationPeriods: aws.Int32(1), Threshold: &threshold, ComparisonOperator: cw.ComparisonOperatorGreaterThanThreshold,
		TreatMissingData: aws.String("notBreaching"), AlarmActions: actions}); err != nil {
		t.Fatal(err)
	}
}

// TestTTotalStopAlarm: an alarm that fires ends the measurement, and everything is put back.
func TestTTotalStopAlarm(t *testing.T) {
	t.Parallel()
	url, dir := served(t, "--instances", "3", "--start", "300ms"), t.TempDir()
	alarms := cloudwatch.NewFromConfig(awsAt(t, url))
	alarmOn(t, alarms, "guard", 60, 1e6)
	b := start(t, dir, grown(t, url, "--stop-alarm", "guard", "--warmup", "2m")...)
	b.until(t, "InService 1/1, awaits desired set")
	if s := state(t, url); s.Desired != 1 {
		t.Errorf("it is not pinned: %+v", s)
	}
	ended, firing := make(chan struct{}), make(chan error, 1)
	go func() { // a state that is set lasts until the alarm is evaluated again
		for {
			if _, err := alarms.SetAlarmState(context.WithoutCancel(t.Context()), &cloudwatch.SetAlarmStateInput{AlarmName: aws.String("guard"), StateValue: cw.StateValueAlarm, StateReason: aws.String("a test")}); err != nil {
				firing <- err
				return
			}
			select {
			case <-ended:
				firing <- nil
				return
			case <-time.After(2 * time.Second):
			}
		}
	}()
	defer func() {
		close(ended)
		if err := <-firing; err != nil {
			t.Error(err)
		}
	}()
	if code := b.end(); code != exit.No || !strings.Contains(b.said.String(), "guard") {
		t.Errorf("exit code %d\n%s%s", code, &b.said, &b.stdout)
	}
	whole(t, url, 3)
	ran(t, dir, exit.OK, "nothing to do", "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)
}

// TestTTotalByPolicy lets a deployed policy decide: what it takes until the breach is seen, and from there to a decision,
// are stages, and the detection is measured. The fastest that there is, one period of ten seconds.
func TestTTotalByPolicy(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for an alarm")
	}
	url, dir := served(t, "--start", "300ms"), t.TempDir()
	cfg := awsAt(t, url)
	policy, err := applicationautoscaling.NewFromConfig(cfg).PutScalingPolicy(t.Context(), &applicationautoscaling.PutScalingPolicyInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: aws.String("endpoint/" + localEndpoint + "/variant/primary"),
		ScalableDimension: aas.ScalableDimensionSageMakerVariantDesiredInstanceCount, PolicyName: aws.String("out"), PolicyType: aas.PolicyTypeStepScaling,
		StepScalingPolicyConfiguration: &aas.StepScalingPolicyConfiguration{AdjustmentType: aas.AdjustmentTypeChangeInCapacity, Cooldown: aws.Int32(600), MetricAggregationType: aas.MetricAggregationTypeMaximum,
			StepAdjustments: []aas.StepAdjustment{{MetricIntervalLowerBound: aws.Float64(0), ScalingAdjustment: aws.Int32(1)}}}})
	if err != nil {
		t.Fatal(err)
	}
	alarmOn(t, cloudwatch.NewFromConfig(cfg), "busy", 10, 1, *policy.PolicyARN)
	b := start(t, dir, grown(t, url, "--trigger", "policy", "--max-wait", "2m")...)
	if code := b.end(); code != exit.OK && code != exit.Unknown { // a busy machine cannot tell
		t.Fatalf("exit code %d\n%s%s", code, &b.said, &b.stdout)
	}
	doc, names := stages(t, dir)
	var detected []string
	for _, s := range doc.Detected {
		detected = append(detected, s.Name)
	}
	if got := strings.Join(append(detected, names...), " "); !strings.HasPrefix(got, "breach alarm decision desired_set ") || doc.Trigger != byPolicy {
		t.Errorf("stages %s", got)
	}
	if doc.DetectionSource != "measured" || doc.Detection <= 0 || doc.Detection > 60 {
		t.Errorf("detection %g s, %s", doc.Detection, doc.DetectionSource)
	}
	whole(t, url, 1) // it may act again only once its alarm is over
	ran(t, dir, exit.OK, "nothing to do", "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)
}

// liar is a container: the first of its folder speaks, those after it say that they are well and can do nothing.
func liar() {
	first, err := os.OpenFile(filepath.Join(os.Args[1], "first"), os.O_CREATE|os.O_EXCL, 0o600)
	speaks := err == nil
	if speaks {
		first.Close()
	}
	wav := "RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\xc0\x5d\x00\x00\x80\xbb\x00\x00\x02\x00\x10\x00data\xff\xff\xff\xff" + strings.Repeat("\x00\x40\x00\xc0", 600)
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/invocations", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !speaks {
			http.Error(w, `{"error":"model_error","message":"the weights were never read"}`, http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "audio/wav")
		_, _ = io.WriteString(w, wav)
	})
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("SAGEMAKER_BIND_TO_PORT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() { _ = http.Serve(l, mux) }()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	<-stop
}

// TestTTotalLiar: an instance that says it is well and cannot speak comes into service, and never counts as ready: there is
// no first good audio, no recovered traffic and no total to plan with.
func TestTTotalLiar(t *testing.T) {
	t.Parallel()
	url, dir := served(t, "--exec", "liar "+t.TempDir(), "--start", "0"), t.TempDir()
	b := start(t, dir, grown(t, url)...)
	if code := b.end(); code == exit.OK {
		t.Errorf("it measured a total:\n%s%s", &b.said, &b.stdout)
	}
	doc, names := stages(t, dir)
	for _, name := range names {
		if name == scaleout.FirstGoodAudio || name == scaleout.TrafficRecovered || name == scaleout.Ready {
			t.Errorf("stage %s of an instance that cannot speak: %q", name, names)
		}
	}
	if !doc.Bounded || len(doc.Attempts) != 1 || doc.Attempts[0].Cause != artifact.CauseNoRecovery || doc.Attempts[0].Total != nil {
		t.Errorf("bounded %t, attempts %+v", doc.Bounded, doc.Attempts)
	}
	whole(t, url, 1)
}

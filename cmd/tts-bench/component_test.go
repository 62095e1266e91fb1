package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"

	"loadline/internal/artifact"
	"loadline/internal/awsfleet"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/scaleout"
)

// copiesOf reads an inference component as it is measured.
func copiesOf(t *testing.T, url, component string) freeze.Variant {
	t.Helper()
	v, err := awsfleet.Open(t.Context(), awsAt(t, url), localEndpoint, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := v.Of(component).Inspect(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// copied gives a component so many copies, and a scalable target of 1 to 4.
func copied(t *testing.T, url, component string, n int32) {
	t.Helper()
	cfg := awsAt(t, url)
	if _, err := sagemaker.NewFromConfig(cfg).UpdateInferenceComponentRuntimeConfig(t.Context(), &sagemaker.UpdateInferenceComponentRuntimeConfigInput{
		InferenceComponentName: &component, DesiredRuntimeConfig: &sm.InferenceComponentRuntimeConfig{CopyCount: &n}}); err != nil {
		t.Fatal(err)
	}
	if _, err := applicationautoscaling.NewFromConfig(cfg).RegisterScalableTarget(t.Context(), &applicationautoscaling.RegisterScalableTargetInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: aws.String("inference-component/" + component),
		ScalableDimension: aas.ScalableDimension(artifact.CopyCount), MinCapacity: aws.Int32(1), MaxCapacity: aws.Int32(4)}); err != nil {
		t.Fatal(err)
	}
	for s := copiesOf(t, url, component); s.Current != int(n) || s.Status != freeze.InService; s = copiesOf(t, url, component) {
		select {
		case <-t.Context().Done():
			t.Fatalf("%+v", s)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// compacted is the changes, each once in a row: a call that was not answered is made again.
func compacted(changes string) []string { return slices.Compact(strings.Fields(changes)) }

// TestComponentMeasured: qmax, rates and ttotal ask an inference component and pin and scale its copies; a kill before any
// change loses nothing, and its endpoint's instance is never counted.
func TestComponentMeasured(t *testing.T) {
	t.Parallel()
	url, dir := served(t, "--empty", "--start", "100ms"), t.TempDir()
	withComponent(t, url, "voice")
	copied(t, url, "voice", 3)
	whole := func(why string) {
		t.Helper()
		s := copiesOf(t, url, "voice")
		if s.Status != freeze.InService || s.Desired != 3 || s.Current != 3 || s.Target == nil || *s.Target != (freeze.Target{Min: 1, Max: 4}) || s.Tags[freeze.TagKey] != "" {
			t.Fatalf("%s: not as it was: %s, desired %d, current %d, target %+v, tags %v", why, s.Status, s.Desired, s.Current, s.Target, s.Tags)
		}
	}
	of := func(url string, more ...string) []string {
		return append([]string{"qmax", "--endpoint", localEndpoint, "--component", "voice", "--endpoint-url", url, "--slo-ms", "300", "--corpus", "clips",
			"--concurrency", "1,2", "--hold", "300ms", "--measure-window", "300ms", "--idle", "0", "--no-cloudwatch", "--probe-depth"}, more...)
	}

	// What forbids it, and what has to be agreed to.
	ran(t, dir, exit.No, "--component NAME", "qmax", "--endpoint", localEndpoint, "--endpoint-url", url)
	ran(t, dir, exit.No, "it has 3 copies", of(url)...)
	ran(t, dir, exit.No, "inference component does not exist", append(of(url), "--component", "none")...)
	ran(t, dir, exit.Misused, "no place for a component", append(of(url), "--transport", "bidi")...)
	ran(t, dir, exit.Misused, "--component and --clone", append(of(url), "--clone")...)
	whole("refused")

	// One copy is left while it is measured.
	d := newDoor(t, url)
	b := start(t, dir, of(d.url, "--yes")...)
	b.end() // a rung may be invalid on a busy machine
	said := b.said.String() + b.stdout.String()
	const changes = "AddTags RegisterScalableTarget UpdateInferenceComponentRuntimeConfig UpdateInferenceComponentRuntimeConfig RegisterScalableTarget DeleteTags"
	if !slices.Equal(compacted(d.told()), compacted(changes)) {
		t.Errorf("changed %s, want %s\n%s", d.told(), changes, said)
	}
	whole("qmax")
	found, err := filepath.Glob(filepath.Join(dir, "artifacts", "qmax-*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("artifacts: %v, %v", found, err)
	}
	doc, err := readRecord(found[0], artifact.ReadQMax)
	if err != nil || !doc.Complete || doc.Target.Component != "voice" || doc.Target.Variant != "primary" || !slices.Equal(doc.InstanceCounts, []int{1}) || doc.Rungs[0].OK == 0 {
		t.Fatalf("%+v, %v", doc, err)
	}

	// What a copy has is read, and held against a plan that was made of another.
	if doc.Fingerprint.Copy == nil || *doc.Fingerprint.Copy != (artifact.Copy{CPUs: 1, MinMemoryMB: 1024}) {
		t.Errorf("a copy has %v", doc.Fingerprint.Copy)
	}
	for _, c := range []struct {
		copy  *artifact.Copy
		state string
		line  string
	}{
		{doc.Fingerprint.Copy, fresh, "was measured on"},
		{nil, fresh, "not compared: the plan does not say it"},
		{&artifact.Copy{CPUs: 2, MinMemoryMB: 1024}, stale, "copy is 1 cores, 0 accelerators, 1024 MB, and was 2 cores"},
	} {
		p := &artifact.Plan{Header: doc.Header}
		p.Fingerprint.Copy = c.copy
		w := behind("plan.json", p).watched
		if err := w.look(t.Context(), awsAt(t, url), p); err != nil || w.State != c.state || !strings.Contains(w.line(), c.line) {
			t.Errorf("%s: %s, %v", c.line, w.line(), err)
		}
	}

	// A kill before every change, or right after it.
	for k, change := range strings.Fields(changes) {
		d := newDoor(t, url)
		reached := make(chan *os.Process, 1)
		d.at = k + 1
		d.on = func(http.ResponseWriter, string) {
			p := <-reached
			_ = p.Kill()
			d.answered = k%2 == 0 // every other kill comes once the call has been made
		}
		b := start(t, dir, of(d.url, "--yes", "--no-save")...)
		reached <- b.cmd.Process
		if code := b.end(); code != -1 {
			t.Fatalf("at %d %s: it was not killed: exit code %d\n%s%s", k, change, code, &b.said, &b.stdout)
		}
		ran(t, dir, exit.No, "frozen", "drift", "--endpoint", localEndpoint, "--endpoint-url", url)
		from := dir
		if k == 3 { // another machine has the tag alone
			from = t.TempDir()
		}
		ran(t, from, exit.OK, localEndpoint, "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)
		whole(change)
		ran(t, dir, exit.OK, localEndpoint, "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)
		whole(change + ", a second time")
	}

	// The scale-out is one of copies, and what it found is put back.
	quick, err := filepath.Abs("testdata/qmax-quick.json")
	if err != nil {
		t.Fatal(err)
	}
	more := []string{"--endpoint", localEndpoint, "--component", "voice", "--endpoint-url", url, "--allow-config-mismatch", "--yes"}
	b = start(t, dir, append([]string{"ttotal", "--qmax", quick, "--probe-concurrency", "2", "--warmup", "200ms", "--settle", "1s", "--window", "1s", "--max-wait", "30s"}, more...)...)
	b.end() // two copies may not recover within a second on a busy machine
	if said = b.said.String() + b.stdout.String(); !strings.Contains(said, "the quota is not checked") || !strings.Contains(said, "1 to 2 copies") {
		t.Error(said)
	}
	whole("ttotal")
	grown, names := stages(t, dir)
	if grown.Target.Component != "voice" || grown.From != 1 || grown.To != 2 || !slices.Contains(names, scaleout.InService) || !slices.Contains(names, scaleout.Ready) {
		t.Errorf("%+v, stages %v", grown, names)
	}
	b = start(t, dir, append([]string{"rates", "--qmax", quick, "--shares", "0.2", "--hold", "1s", "--no-cloudwatch"}, more...)...)
	b.end() // its rung may be invalid on a busy machine
	if said = b.said.String() + b.stdout.String(); !strings.Contains(said, "inference component voice") {
		t.Error(said)
	}
	whole("rates")
}

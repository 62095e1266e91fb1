package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/internal/exit"
)

// TestClone: a clone is made, measured and deleted, and production is not touched, however the run ends.
func TestClone(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes and deletes endpoints")
	}
	url, dir := served(t, "--instances", "3", "--start", "200ms"), t.TempDir()
	args := func(url string) []string {
		return []string{"qmax", "--clone", "--endpoint", localEndpoint, "--endpoint-url", url, "--slo-ms", "300", "--corpus", "clips", "--concurrency", "1,2",
			"--hold", "1s", "--measure-window", "500ms", "--idle", "0", "--no-cloudwatch"}
	}
	clones := func() string {
		b := start(t, dir, "say", "--endpoint", "nobody", "--endpoint-url", url, "hello")
		b.end()
		return b.said.String()
	}
	whole(t, url, 3)
	ran(t, dir, exit.No, "a temporary endpoint", args(url)...)

	d := newDoor(t, url)
	b := start(t, dir, append(args(d.url), "--yes")...)
	if code := b.end(); code != exit.OK && code != exit.Unknown { // a busy machine cannot tell
		t.Fatalf("exit code %d\n%s%s", code, &b.said, &b.stdout)
	}
	const changes = "CreateEndpointConfig CreateEndpoint DeleteEndpoint DeleteEndpointConfig"
	if got := d.told(); got != changes {
		t.Errorf("changes %q, want %q", got, changes)
	}
	whole(t, url, 3)
	found, err := filepath.Glob(filepath.Join(dir, "artifacts", "qmax-*-g5xlarge-8b1b96bc.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("artifacts %v, %v", found, err)
	}
	if data, err := os.ReadFile(found[0]); err != nil || !strings.Contains(string(data), `"endpoint": "`+localEndpoint+`"`) {
		t.Errorf("the record does not name the endpoint that was cloned: %v", err)
	}

	// Rates and a scale-out are measured on a clone too.
	ladder, err := filepath.Abs("testdata/qmax-quick.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args    []string
		changes string
	}{
		{[]string{"rates", "--shares", "0.5", "--hold", "1s", "--no-cloudwatch"}, changes},
		{[]string{"ttotal", "--probe-concurrency", "2", "--warmup", "100ms", "--settle", "1s", "--window", "1s"},
			"CreateEndpointConfig CreateEndpoint AddTags UpdateEndpointWeightsAndCapacities UpdateEndpointWeightsAndCapacities DeleteTags DeleteEndpoint DeleteEndpointConfig"},
	} {
		d := newDoor(t, url)
		b := start(t, dir, append(c.args, "--clone", "--qmax", ladder, "--endpoint-url", d.url, "--yes")...)
		if code := b.end(); code != exit.OK && code != exit.Unknown { // a busy machine cannot tell
			t.Fatalf("%s: exit code %d\n%s%s", c.args[0], code, &b.said, &b.stdout)
		}
		if got := d.told(); got != c.changes {
			t.Errorf("%s: changes %q, want %q", c.args[0], got, c.changes)
		}
		whole(t, url, 3)
	}

	for k := 1; k <= 4; k++ { // killed at every change
		d := newDoor(t, url)
		reached := make(chan *os.Process, 1)
		d.at = k
		d.on = func(http.ResponseWriter, string) { _ = (<-reached).Kill(); d.answered = k%2 == 0 }
		b := start(t, dir, append(args(d.url), "--yes")...)
		reached <- b.cmd.Process
		if code := b.end(); code != -1 {
			t.Fatalf("it was not killed: %d %s\n%s", code, d.told(), &b.said)
		}
		said := ran(t, dir, exit.No, "clone_left", "drift", "--endpoint", localEndpoint, "--endpoint-url", url)
		_, name, _ := strings.Cut(said, "tts-bench thaw --endpoint ")
		name, _, _ = strings.Cut(name, "\n")
		ran(t, dir, exit.OK, "deleted, a clone of "+localEndpoint, "thaw", "--endpoint", name, "--endpoint-url", url)
		ran(t, dir, exit.OK, "preflight-ok", "drift", "--endpoint", localEndpoint, "--endpoint-url", url)
		whole(t, url, 3)
	}
	if said := clones(); strings.Contains(said, "-clone-") {
		t.Errorf("a clone is left: %s", said)
	}
	left, err := os.ReadDir(filepath.Join(dir, ".local/state/loadline"))
	for _, e := range left {
		if strings.HasSuffix(e.Name(), ".json") {
			t.Errorf("a record is left: %s, %v", e.Name(), err)
		}
	}
}

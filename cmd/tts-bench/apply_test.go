package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/internal/exit"
)

// TestApplyUndone: whichever change fails, what was there before is put back, and said so.
func TestApplyUndone(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	url, dir := served(t), t.TempDir()
	ran(t, dir, exit.OK, "saved", "plan", "--qmax", filepath.Join(root, "internal/artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json"),
		"--models", filepath.Join(root, "models.yaml"), "--assume-t-total", "320", "--peak-rps", "100")
	plans, err := filepath.Glob(filepath.Join(dir, "artifacts", "plan-*.json"))
	if err != nil || len(plans) != 1 {
		t.Fatalf("plans %v, %v", plans, err)
	}
	apply := func(url string, more ...string) []string {
		return append([]string{"apply", "--plan", plans[0], "--endpoint-url", url, "--allow-config-mismatch"}, more...)
	}
	differs := func() string {
		b := start(t, dir, apply(url, "--dry-run")...)
		if code := b.end(); code != exit.OK {
			t.Fatalf("exit code %d\n%s", code, &b.said)
		}
		return b.stdout.String()
	}
	before := differs()
	if !strings.Contains(before, "create policy") || !strings.Contains(before, "put alarm") {
		t.Fatalf("the difference: %s", before)
	}
	for k, done := 1, false; !done; k++ {
		d := newDoor(t, url)
		d.at = k
		d.on = func(w http.ResponseWriter, name string) {
			d.answered = true
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"ValidationException","message":"no %s today"}`, name)
		}
		b := start(t, dir, apply(d.url, "--yes")...)
		code := b.end()
		said := b.said.String() + b.stdout.String()
		if done = len(strings.Fields(d.told())) < k; done { // every change went through
			if code != exit.OK || !strings.Contains(said, "applied and read back") {
				t.Errorf("exit code %d\n%s", code, said)
			}
			break
		}
		if code != exit.No || !strings.Contains(said, "what was there before is put back") {
			t.Errorf("change %d refused: exit code %d\n%s", k, code, said)
		}
		if after := differs(); after != before {
			t.Errorf("change %d refused, and it is not as it was before:\n%s\nwas\n%s", k, after, before)
		}
		if k > 20 {
			t.Fatalf("changes without end: %s", d.told())
		}
	}
	// What only reads changes nothing, before and after.
	d := newDoor(t, url)
	ran(t, dir, exit.No, "DIFFERS", "validate", "--plan", plans[0], "--endpoint-url", d.url) // another region, transport and bound
	ran(t, dir, exit.No, "policy_extra", "drift", "--endpoint", localEndpoint, "--endpoint-url", d.url, "--models", filepath.Join(root, "models.yaml"))
	ran(t, dir, exit.OK, "nothing to do", apply(d.url, "--dry-run")...)
	ran(t, dir, exit.OK, "nothing to do", apply(d.url, "--yes")...)
	if told := d.told(); told != "" {
		t.Errorf("commands that only read have changed: %s", told)
	}

	if left, err := os.ReadDir(filepath.Join(dir, ".local/state/loadline")); err != nil || len(left) < 2 {
		t.Errorf("what was saved: %v, %v", left, err)
	}
}

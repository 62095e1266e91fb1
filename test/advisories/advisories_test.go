package advisories

import (
	"context"
	"net/http"
	"os/exec"
	"testing"
	"time"
)

const (
	database    = "https://vuln.go.dev"
	govulncheck = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"
)

// TestAdvisories fails on a known vulnerability in a function that is called, here and in the stacks.
func TestAdvisories(t *testing.T) {
	if testing.Short() {
		t.Skip("advisories are not asked for in a short run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, database+"/index/db.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Skipf("the advisories are not checked: the database cannot be reached from here (%v)", err)
	}
	reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		t.Skipf("the advisories are not checked: the database answers %s", reply.Status)
	}
	for _, module := range []string{"../..", "../../infra"} {
		cmd := exec.Command("go", "run", govulncheck, "-db", database, "-C", module, "./...")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", module, err, out)
		}
	}
}

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"loadline/internal/exit"
)

// door stands before a local endpoint, counts the calls that change something, and does something at one of them.
type door struct {
	url string

	mu       sync.Mutex
	changes  []string
	at       int                                      // which change, from 1; 0: none
	on       func(w http.ResponseWriter, name string) // sets answered where the call must not go on
	answered bool                                     // by on, in place of the endpoint
}

func newDoor(t *testing.T, to string) *door {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	proxy.FlushInterval = -1
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.stop(w, operation(r)) {
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	d.url = srv.URL
	return d
}

// operation is what a request asks for, "" for a request to a model.
func operation(r *http.Request) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return target[strings.LastIndex(target, ".")+1:]
	}
	if _, op, ok := strings.Cut(r.URL.Path, "/operation/"); ok {
		return op
	}
	return ""
}

// stop counts a change, and says whether it must not reach the endpoint.
func (d *door) stop(w http.ResponseWriter, name string) bool {
	for _, read := range []string{"Describe", "List", "Get", "Filter", "Simulate"} {
		if name == "" || strings.HasPrefix(name, read) {
			return false
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes = append(d.changes, name)
	if len(d.changes) != d.at {
		return false
	}
	d.answered = false
	d.on(w, name)
	return d.answered
}

// told is the changes so far.
func (d *door) told() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.changes, " ")
}

// TestKilledAtEveryChange: a kill just before any change that qmax or ttotal makes loses nothing. drift names the frozen
// endpoint, thaw puts back flags, bounds and count, and thawing twice does no harm.
func TestKilledAtEveryChange(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills a dozen runs")
	}
	published := "../../internal/artifact/testdata/published/qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json"
	ladder, err := filepath.Abs(published)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args func(url string) []string
		want string // the changes of a whole run
	}{
		{"qmax", func(url string) []string {
			return []string{"qmax", "--endpoint", localEndpoint, "--endpoint-url", url, "--slo-ms", "300", "--corpus", "clips", "--concurrency", "1",
				"--hold", "300ms", "--measure-window", "300ms", "--idle", "0", "--no-cloudwatch", "--yes", "--no-save"}
		}, "AddTags RegisterScalableTarget UpdateEndpointWeightsAndCapacities UpdateEndpointWeightsAndCapacities RegisterScalableTarget DeleteTags"},
		{"ttotal", func(url string) []string {
			return []string{"ttotal", "--qmax", ladder, "--allow-config-mismatch", "--endpoint", localEndpoint, "--endpoint-url", url, "--probe-concurrency", "10",
				"--warmup", "100ms", "--settle", "1s", "--window", "1s", "--skip-drift", "--yes", "--no-save"}
		}, "AddTags RegisterScalableTarget UpdateEndpointWeightsAndCapacities UpdateEndpointWeightsAndCapacities UpdateEndpointWeightsAndCapacities RegisterScalableTarget DeleteTags"},
	} {
		changes := strings.Fields(c.want)
		for k := 1; k <= len(changes); k++ {
			t.Run(fmt.Sprintf("%s at %d %s", c.name, k, changes[k-1]), func(t *testing.T) {
				t.Parallel()
				url, dir := served(t, "--instances", "3", "--start", "200ms"), t.TempDir()
				d := newDoor(t, url)
				reached := make(chan *os.Process, 1)
				d.at = k
				d.on = func(http.ResponseWriter, string) {
					p := <-reached
					_ = p.Kill()
					d.answered = k%2 == 1 // every other kill comes once the call has been made
				}
				b := start(t, dir, c.args(d.url)...)
				reached <- b.cmd.Process
				if code := b.end(); code != -1 {
					t.Fatalf("it was not killed: exit code %d, changes %s\n%s%s", code, d.told(), &b.said, &b.stdout)
				}
				ran(t, dir, exit.No, "frozen", "drift", "--endpoint", localEndpoint, "--endpoint-url", url)
				ran(t, dir, exit.No, "tts-bench thaw --endpoint "+localEndpoint, append(c.args(url), "--no-save")...)
				ran(t, dir, exit.OK, localEndpoint, "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)
				whole(t, url, 3)
				ran(t, dir, exit.OK, "nothing to do", "thaw", "--endpoint", localEndpoint, "--endpoint-url", url)
				whole(t, url, 3)
				ran(t, dir, exit.OK, "preflight-ok", "drift", "--endpoint", localEndpoint, "--endpoint-url", url)
			})
		}
	}
}

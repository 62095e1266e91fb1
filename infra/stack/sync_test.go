package stack

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The commands of a sync, with curl and aws that know one repository.
const (
	fakeCurl = `#!/bin/bash
for last; do :; done
while [ $# -gt 0 ]; do [ "$1" = --output ] && out=$2; shift; done
case $last in
  */api/models/*) cat "$HUB/siblings" ;;
  *) cp "$HUB/files/${last#*/resolve/*/}" "$out" ;;
esac
`
	fakeAWS = `#!/bin/bash
echo "$@" > "$HUB/aws"
`
)

// TestSync: what is fetched is what was pinned, only files that hold no code are kept, and CloudFormation is told how it went.
func TestSync(t *testing.T) {
	for _, tool := range []string{"bash", "python3", "sha256sum", "xargs", "od"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the sync is not tried: %s is not on the PATH", tool)
		}
	}
	var spec struct {
		Phases map[string]struct{ Commands []string }
	}
	if err := yaml.Unmarshal([]byte(syncSpec), &spec); err != nil {
		t.Fatal(err)
	}
	hash := func(files map[string]string, names ...string) string {
		var list strings.Builder
		for _, n := range names {
			fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256([]byte(files[n])), n)
		}
		return fmt.Sprintf("%x", sha256.Sum256([]byte(list.String())))
	}
	good := map[string]string{"onnx/model.onnx": "a graph", "config.json": "{}", "voices/af.bin": "\x00\x00\x10\x41", "kokoro.pth": "\x80\x02pickle", "run.py": "import os", "pytorch_model.bin": "PK"}
	pinned := hash(good, "config.json", "onnx/model.onnx", "voices/af.bin")
	disguised := map[string]string{"model.safetensors": "weights", "voices/af.bin": "PK\x03\x04pickle"}
	for _, c := range []struct {
		name, status, reason string
		files                map[string]string
		sha                  string
	}{
		{"good", "SUCCESS", "3 files", good, pinned},
		{"another hash", "FAILED", "have the hash " + pinned, good, strings.Repeat("0", 64)},
		{"pickles alone", "FAILED", "holds neither safetensors nor ONNX", map[string]string{"kokoro.pth": "\x80\x02", "config.json": "{}"}, pinned},
		{"a voice that is a pickle", "FAILED", "voices/af.bin is a pickle", disguised, hash(disguised, "model.safetensors", "voices/af.bin")},
	} {
		var told struct{ Status, Reason, PhysicalResourceId, StackId, RequestId, LogicalResourceId string }
		formation := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body) // what is cut off is no JSON
			if r.Method != http.MethodPut || json.Unmarshal(data, &told) != nil {
				t.Errorf("%s: %s %s", c.name, r.Method, data)
			}
		}))
		hub := t.TempDir()
		write := func(name, text string, mode os.FileMode) {
			path := filepath.Join(hub, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
		}
		write("bin/curl", fakeCurl, 0o777)
		write("bin/aws", fakeAWS, 0o777)
		siblings := []map[string]string{{"rfilename": "../../etc/passwd.json"}}
		for name, text := range c.files {
			write("files/"+name, text, 0o666)
			siblings = append(siblings, map[string]string{"rfilename": name})
		}
		list, err := json.Marshal(map[string]any{"siblings": siblings})
		if err != nil {
			t.Fatal(err)
		}
		write("siblings", string(list), 0o666)
		env := append(os.Environ(), "PATH="+filepath.Join(hub, "bin")+":"+os.Getenv("PATH"), "HUB="+hub, "WORK="+filepath.Join(hub, "work"), "MODEL=kokoro-82m", "REPO=a/b", "REVISION="+strings.Repeat("1", 40),
			"SHA256="+c.sha, "KEPT=weights/kokoro-82m/1", "BUCKET=bucket", "RESPONSE_URL="+formation.URL, "STACK_ID=stack", "REQUEST_ID=request", "LOGICAL_ID=Weights", "CODEBUILD_BUILD_ID=build:1", "no_proxy=*", "NO_PROXY=*")
		phase := func(name string, more ...string) ([]byte, error) {
			cmd := exec.Command("bash", "-c", spec.Phases[name].Commands[0])
			cmd.Env, cmd.Dir = append(env, more...), hub
			return cmd.CombinedOutput()
		}
		out, err := phase("build")
		if (err == nil) != (c.status == "SUCCESS") {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
		succeeding := "CODEBUILD_BUILD_SUCCEEDING=1"
		if err != nil {
			succeeding = "CODEBUILD_BUILD_SUCCEEDING=0"
		}
		if out, err := phase("post_build", succeeding); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
		formation.Close()
		if told.Status != c.status || !strings.Contains(told.Reason, c.reason) || !strings.Contains(told.Reason, "build:1") || told.PhysicalResourceId != "weights/kokoro-82m/1" || told.RequestId != "request" || told.LogicalResourceId != "Weights" {
			t.Errorf("%s: CloudFormation is told %+v", c.name, told)
		}
		copied, err := os.ReadFile(filepath.Join(hub, "aws"))
		if got := err == nil && strings.Contains(string(copied), "s3://bucket/weights/kokoro-82m/1/"); got != (c.status == "SUCCESS") {
			t.Errorf("%s: copied: %q", c.name, copied)
		}
	}
}

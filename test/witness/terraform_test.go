package witness_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mirror is a folder with the AWS provider: TF_PLUGIN_MIRROR, or one of those where Terraform or its packagers put them.
func mirror(t *testing.T) string {
	t.Helper()
	home, _ := os.UserHomeDir() // without one there is one place less
	for _, pattern := range []string{os.Getenv("TF_PLUGIN_MIRROR"), filepath.Join(home, ".terraform.d/plugins"),
		"/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins", "/opt/*"} {
		found, _ := filepath.Glob(filepath.Join(pattern, "registry.terraform.io/hashicorp/aws/5.100.0"))
		if pattern != "" && found != nil {
			return filepath.Join(found[0], "../../../..")
		}
	}
	miss(t, "no folder has version 5.100.0 of Terraform's AWS provider: TF_PLUGIN_MIRROR may name one")
	return ""
}

// TestTerraform applies a whole deployment, and beside it what plan emits for another endpoint; finds nothing to change
// afterwards, neither by Terraform nor by apply and validate; and destroys it all.
func TestTerraform(t *testing.T) {
	if testing.Short() {
		t.Skip("short: Terraform takes half a minute")
	}
	tf, plugins := need(t, "terraform"), mirror(t)
	dir := t.TempDir()
	source, err := os.ReadFile("main.tf")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.tf": string(source),
		"rc": fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", plugins)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := serve(t, "--quiet", "--start", "300ms", "--queue-depth", "53", "--verify-signatures")
	bench, saved := emit(t, a, dir)
	a.env = append(a.env, "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "rc"), "TF_VAR_url="+a.url, "TF_IN_AUTOMATION=1")
	if out, err := a.try(t, dir, tf, "fmt", "-check", "-diff", "emitted.tf"); err != nil {
		t.Errorf("terraform fmt: %v\n%s", err, out)
	}
	a.run(t, dir, tf, "init", "-no-color")
	if out := a.run(t, dir, tf, "apply", "-no-color", "-auto-approve"); !strings.Contains(out, "20 added, 0 changed, 0 destroyed") {
		t.Errorf("apply:\n%s", out)
	}
	if out, err := a.try(t, dir, tf, "plan", "-no-color", "-detailed-exitcode"); err != nil {
		t.Errorf("a plan after the apply is not empty: %v\n%s", err, out)
	}
	if out := a.run(t, dir, bench, "apply", "--plan", saved, "--dry-run"); !strings.Contains(out, "nothing to do") {
		t.Errorf("apply would put something else than plan emits:\n%s", out)
	}
	if out, err := a.try(t, dir, bench, "validate", "--plan", saved); err != nil || !strings.Contains(out, "every alarm and the fingerprint equal the plan") {
		t.Errorf("validate: %v\n%s", err, out)
	}
	if out := a.run(t, dir, tf, "destroy", "-no-color", "-auto-approve", "-refresh=false"); !strings.Contains(out, "20 destroyed") {
		t.Errorf("destroy:\n%s", out)
	}
}

// emit plans on the ladder of the quick profile and puts what plan emits into dir as emitted.tf. It returns tts-bench and
// the saved plan.
func emit(t *testing.T, a account, dir string) (bench, saved string) {
	t.Helper()
	bench = filepath.Join(dir, "tts-bench")
	if out, err := exec.Command("go", "build", "-o", bench, "loadline/cmd/tts-bench").CombinedOutput(); err != nil {
		t.Fatalf("build tts-bench: %v: %s", err, out)
	}
	ladder, err := filepath.Abs("../../cmd/tts-bench/testdata/qmax-quick.json")
	if err != nil {
		t.Fatal(err)
	}
	text := a.run(t, dir, bench, "plan", "--qmax", ladder, "--assume-t-total", "170", "--peak-rps", "800", "--trough-rps", "40",
		"--candidate", "both, steps", "--cpu", "70", "--vcpus", "4", "--out", dir, "--emit", "terraform")
	text, _, _ = strings.Cut(text, "saved ") // what was done is said on stderr
	if err := os.WriteFile(filepath.Join(dir, "emitted.tf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "plan-*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("plans %v, %v", found, err)
	}
	return bench, found[0]
}

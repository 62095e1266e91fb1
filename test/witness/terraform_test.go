package witness_test

import (
	"fmt"
	"os"
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

// TestTerraform applies a whole deployment, finds nothing to change afterwards, and destroys it.
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
	a := serve(t, "--empty", "--start", "300ms", "--verify-signatures")
	a.env = append(a.env, "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "rc"), "TF_VAR_url="+a.url, "TF_IN_AUTOMATION=1")
	a.run(t, dir, tf, "init", "-no-color")
	if out := a.run(t, dir, tf, "apply", "-no-color", "-auto-approve"); !strings.Contains(out, "14 added, 0 changed, 0 destroyed") {
		t.Errorf("apply:\n%s", out)
	}
	if out, err := a.try(t, dir, tf, "plan", "-no-color", "-detailed-exitcode"); err != nil {
		t.Errorf("a plan after the apply is not empty: %v\n%s", err, out)
	}
	if out := a.run(t, dir, tf, "destroy", "-no-color", "-auto-approve", "-refresh=false"); !strings.Contains(out, "14 destroyed") {
		t.Errorf("destroy:\n%s", out)
	}
}

package stack

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guardFolder is where `make setup` puts cfn-guard and rules that others wrote.
const guardFolder = "../../.cfnguard"

// written lays every template that was made into a folder.
func written(t *testing.T) []string {
	t.Helper()
	needNode(t)
	dir := t.TempDir()
	var files []string
	seen := map[string]bool{}
	for name, stacks := range made {
		for stack, data := range stacks {
			if seen[string(data)] {
				continue
			}
			seen[string(data)] = true
			f := filepath.Join(dir, name+"-"+stack+".json")
			if err := os.WriteFile(f, data, 0o666); err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
	}
	slices.Sort(files)
	return files
}

// TestLint: cfn-lint finds nothing in any template, and does find what is broken.
func TestLint(t *testing.T) {
	files := written(t)
	lint, err := exec.LookPath("cfn-lint")
	if err != nil {
		t.Skip("cfn-lint is not on the PATH")
	}
	if out, err := exec.Command(lint, append([]string{"--format", "parseable"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("cfn-lint: %v\n%s", err, cut(out))
	}
	broken := filepath.Join(t.TempDir(), "broken.json")
	data := bytes.ReplaceAll(made["flow"][kokoroStack], []byte("sagemaker:variant:DesiredInstanceCount"), []byte("sagemaker:variant:Count"))
	if err := os.WriteFile(broken, data, 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(lint, broken).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("E3030")) {
		t.Errorf("a dimension that does not exist passes: %v\n%s", err, cut(out))
	}
}

// cut keeps lines readable: some messages list every value that would do.
func cut(out []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(out)) {
		b.WriteString(strings.TrimRight(line[:min(len(line), 300)], "\n") + "\n")
	}
	return b.String()
}

// exempt are rules of others that are not kept, and why.
var exempt = map[string]string{
	"ct-codebuild-pr-4":  "an image cannot be built without the privileged mode",
	"ct-cloudwatch-pr-3": "the key is another stack's, which the rule does not follow; our own rule asks for one",
	"ct-lambda-pr-3":     "a function that starts a build needs no network of its own",
	"ct-s3-pr-2":         "a log of reads of public weights is worth no second bucket",
	"ct-s3-pr-4":         "nobody acts on a change of the weights",
	"ct-s3-pr-9":         "weights can be fetched again at their revision: they are versioned, not locked",
}

// TestGuard: every template keeps our own rules and, but for those exempt, AWS Control Tower's.
func TestGuard(t *testing.T) {
	files := written(t)
	guard := filepath.Join(guardFolder, "cfn-guard")
	if _, err := os.Stat(guard); err != nil {
		t.Skip("cfn-guard is not there: make setup fetches it")
	}
	kept := []string{"../rules/loadline.guard"}
	rules, err := filepath.Glob(filepath.Join(guardFolder, "ct-*.guard"))
	if err != nil || len(rules) < 20 {
		t.Fatalf("%d rules of Control Tower, %v", len(rules), err)
	}
	for _, r := range rules {
		if exempt[strings.TrimSuffix(filepath.Base(r), ".guard")] == "" {
			kept = append(kept, r)
		}
	}
	for _, f := range files {
		rules := kept
		if strings.Contains(f, "clients-"+Foundation) { // trusts the account, as it was told to
			rules = kept[1:]
		}
		args := []string{"validate", "--show-summary", "none", "--data", f}
		for _, r := range rules {
			args = append(args, "--rules", r)
		}
		if out, err := exec.Command(guard, args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(f), err, cut(out))
		}
	}
}

// TestGuardSees: each of our rules fails on what it is for.
func TestGuardSees(t *testing.T) {
	needNode(t)
	guard := filepath.Join(guardFolder, "cfn-guard")
	if _, err := os.Stat(guard); err != nil {
		t.Skip("cfn-guard is not there: make setup fetches it")
	}
	set := func(id string, value any, path ...string) func(map[string]any) {
		return func(resources map[string]any) {
			v, _ := resources[id].(map[string]any)
			for _, p := range path[:len(path)-1] {
				if list, ok := v[p].([]any); ok {
					v, _ = list[0].(map[string]any)
				} else {
					v, _ = v[p].(map[string]any)
				}
			}
			if last := path[len(path)-1]; value == nil {
				delete(v, last)
			} else {
				v[last] = value
			}
		}
	}
	for rule, c := range map[string]struct {
		stack string
		edit  func(map[string]any)
	}{
		"encryption_of_buckets":         {Foundation, set("Weights", nil, "Properties", "BucketEncryption")},
		"encryption_of_repositories":    {Foundation, set("Repository", nil, "Properties", "EncryptionConfiguration")},
		"encryption_of_topics":          {Foundation, set("Alarms", nil, "Properties", "KmsMasterKeyId")},
		"encryption_of_logs":            {Foundation, set("ImageBuildLogs", nil, "Properties", "KmsKeyId")},
		"encryption_of_builds":          {Foundation, set("ImageBuild", nil, "Properties", "EncryptionKey")},
		"encryption_key_rotates":        {Foundation, set("Key", false, "Properties", "EnableKeyRotation")},
		"public_access_blocked":         {Foundation, set("Weights", false, "Properties", "PublicAccessBlockConfiguration", "BlockPublicPolicy")},
		"public_access_by_no_policy":    {Foundation, set("WeightsPolicy", "Allow", "Properties", "PolicyDocument", "Statement", "Effect")},
		"tls_only":                      {Foundation, set("WeightsPolicy", nil, "Properties", "PolicyDocument", "Statement", "Condition")},
		"wildcard_actions_of_roles":     {Foundation, set("ExecutionRole", []any{"s3:*"}, "Properties", "Policies", "PolicyDocument", "Statement", "Action")},
		"wildcard_actions_of_policies":  {Foundation, set("Invoke", []any{"sagemaker:Invoke*"}, "Properties", "PolicyDocument", "Statement", "Action")},
		"wildcard_resources":            {Foundation, set("ExecutionRole", []any{"*"}, "Properties", "Policies", "PolicyDocument", "Statement", "Resource")},
		"root_user_not_trusted":         {Foundation, set("ExecutionRole", map[string]any{"AWS": "arn:aws:iam::000000000000:root"}, "Properties", "AssumeRolePolicyDocument", "Statement", "Principal")},
		"services_act_for_this_account": {Foundation, set("ExecutionRole", nil, "Properties", "AssumeRolePolicyDocument", "Statement", "Condition")},
		"roles_have_no_fixed_name":      {Foundation, set("ExecutionRole", "speech", "Properties", "RoleName")},
		"data_is_retained":              {Foundation, set("Weights", "Delete", "DeletionPolicy")},
		"containers_are_isolated":       {kokoroStack, set("Model", false, "Properties", "EnableNetworkIsolation")},
		"images_by_digest":              {kokoroStack, set("Model", "speech:latest", "Properties", "PrimaryContainer", "Image")},
		"routing_is_least_outstanding":  {kokoroStack, set("EndpointConfig", nil, "Properties", "ProductionVariants", "RoutingConfig")},
		"live_counts_are_kept":          {kokoroStack, set("Endpoint", nil, "Properties", "RetainAllVariantProperties")},
		"service_linked_role_scales":    {kokoroStack, set("AutoscalingTarget", "arn:aws:iam::000000000000:role/x", "Properties", "RoleARN")},
		"alarms_tell_somebody":          {kokoroStack, set("AutoscalingAtMax", []any{}, "Properties", "AlarmActions")},
	} {
		var template map[string]any
		if err := json.Unmarshal(made["flow"][c.stack], &template); err != nil {
			t.Fatal(err)
		}
		resources, _ := template["Resources"].(map[string]any)
		c.edit(resources)
		data, err := json.Marshal(template)
		if err != nil {
			t.Fatal(err)
		}
		f := filepath.Join(t.TempDir(), "broken.json")
		if err := os.WriteFile(f, data, 0o666); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(guard, "validate", "--show-summary", "fail", "--data", f, "--rules", "../rules/loadline.guard").CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("loadline.guard/"+rule)) {
			t.Errorf("%s does not see what it is for: %v\n%s", rule, err, cut(out))
		}
	}
}

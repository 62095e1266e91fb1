package witness_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBoto3Streams is 200 response streams.
func TestBoto3Streams(t *testing.T) {
	py := python(t)
	t.Log(serve(t).run(t, ".", py, "boto3_streams.py"))
}

// sdk is the packages of the JavaScript SDK that are asked.
var sdk = []string{"@aws-sdk/client-sagemaker@3.1142.0", "@aws-sdk/client-sagemaker-runtime@3.1164.0", "@aws-sdk/client-cloudwatch@3.1164.0"}

// TestJavaScript installs the SDK into a folder of the test's and runs stream.mjs there.
func TestJavaScript(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the JavaScript SDK is installed first")
	}
	node, npm := need(t, "node"), need(t, "npm")
	dir := t.TempDir()
	source, err := os.ReadFile("stream.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stream.mjs"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	a := serve(t, "--verify-signatures")
	if out, err := a.try(t, dir, append([]string{npm, "install", "--no-audit", "--no-fund", "--loglevel=error"}, sdk...)...); err != nil {
		miss(t, "npm cannot install the JavaScript SDK: "+out)
	}
	t.Log(a.run(t, dir, node, "stream.mjs"))
}

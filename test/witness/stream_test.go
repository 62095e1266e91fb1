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
	javaScript(t, "stream.mjs", sdk, func(account) []string { return nil }, "--verify-signatures")
}

// streamed is the package whose runtime speaks bidirectional streams; SageMaker's own client for them
// (@aws-sdk/client-sagemaker-runtime-http2) is not published on npm.
var streamed = []string{"@aws-sdk/client-bedrock-runtime@3.1164.0"}

// TestJavaScriptBidi is the SDK over bidirectional streams, whose events it signs one by one.
func TestJavaScriptBidi(t *testing.T) {
	cert := filepath.Join(t.TempDir(), "bidi.pem")
	javaScript(t, "bidi.mjs", streamed, func(a account) []string {
		return []string{"BIDI_URL=" + a.bidi, "NODE_EXTRA_CA_CERTS=" + cert, "NODE_NO_WARNINGS=1"}
	},
		"--verify-signatures", "--bidi-addr", "127.0.0.1:0", "--bidi-cert", cert)
}

// javaScript installs packages into a folder of the test's and runs a script there.
func javaScript(t *testing.T, script string, packages []string, env func(account) []string, flags ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: the JavaScript SDK is installed first")
	}
	node, npm := need(t, "node"), need(t, "npm")
	dir := t.TempDir()
	source, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, script), source, 0o600); err != nil {
		t.Fatal(err)
	}
	a := serve(t, flags...)
	if out, err := a.try(t, dir, append([]string{npm, "install", "--no-audit", "--no-fund", "--loglevel=error"}, packages...)...); err != nil {
		miss(t, "npm cannot install the JavaScript SDK: "+out)
	}
	a.env = append(a.env, env(a)...)
	t.Log(a.run(t, dir, node, script))
}

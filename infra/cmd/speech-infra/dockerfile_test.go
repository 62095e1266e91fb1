package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecipe: what a Dockerfile needs is what its last stage is made of, no more.
func TestRecipe(t *testing.T) {
	own, err := os.ReadFile(filepath.Join(home, root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, given, contexts, want string }{
		{"ours", string(own), "", "", "DEBIAN_DIGEST GO_DIGEST"},
		{"ours, complete", string(own), "DEBIAN_DIGEST=x GO_DIGEST=x", "", ""},
		{"ours for CUDA", string(own), "VARIANT=cuda DEBIAN_DIGEST=x", "onnxruntime=.", "CUDA_DIGEST GO_DIGEST"},
		{"none", "FROM scratch", "", "", ""},
		{"in a stage", "FROM a AS x\nARG N\nARG M=1\nFROM x", "", "", "N"},
		{"a default from above", "ARG N=1\nFROM a\nARG N", "", "", ""},
		{"none from above", "ARG N\nFROM a\nARG N", "", "", "N"},
		{"of nobody", "ARG N\nFROM a", "", "", ""},
		{"a default in place", "ARG N\nFROM a:${N:-1}", "", "", ""},
		{"given as nothing", "ARG N\nFROM a:1$N", "N=", "", ""},
		{"what Docker brings", "FROM --platform=$BUILDPLATFORM a\nARG TARGETARCH HTTP_PROXY\narg\tX \\\n # and\n Y=2", "", "", "X"},
		{"copies", "ARG N\nFROM a:$N AS x\nFROM a AS y\nRUN --mount=type=bind,from=x,target=/x true\nFROM b\nCOPY --chown=1 --from=1 / /", "", "", "N"},
		{"a context", "ARG N\nFROM a:$N AS x\nFROM b\nCOPY --from=x / /", "", "x=.", ""},
		{"text of its own", "FROM a\nRUN <<EOF\nARG N\nFROM b\nARG M\nEOF\nARG L", "", "", "L"},
		{"a loop of names", "FROM x AS x", "", "", ""},
	} {
		given, _ := pairs("", strings.Fields(c.given))
		contexts, _ := pairs("", strings.Fields(c.contexts))
		if got := strings.Join(readRecipe(c.text).missing(given, contexts), " "); got != c.want {
			t.Errorf("%s: missing %q, want %q", c.name, got, c.want)
		}
	}
}

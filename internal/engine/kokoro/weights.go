package kokoro

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// manifestName is the file in which a model folder says what it is.
const manifestName = "weights.json"

// manifest is its content.
type manifest struct {
	Repo     string `json:"repo"`
	Revision string `json:"revision"`
	SHA256   string `json:"sha256"` // of the model's file
	Model    string `json:"model"`  // the model's file, slashes between folders
}

// weights is a model that was found and checked.
type weights struct {
	manifest
	path    string // on the file system
	checked bool   // its content is what somebody said it is
}

func (w weights) String() string {
	name := w.Repo
	if name == "" {
		name = "a model of no name"
	}
	if w.Revision != "" {
		name += "@" + w.Revision
	}
	check := "not checked: neither weights.json nor a setting names its sha256"
	if w.checked {
		check = "checked"
	}
	return fmt.Sprintf("%s, sha256 %s (%s)", name, w.SHA256, check)
}

// find finds the model in its folder and checks its revision and content.
func find(ctx context.Context, c Config) (weights, error) {
	var w weights
	fail := func(format string, args ...any) (weights, error) {
		return w, fmt.Errorf("the model folder %s: %w", c.Dir, fmt.Errorf(format, args...))
	}
	raw, err := fs.ReadFile(c.Files, manifestName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fail("%w", err)
	default:
		if err := json.Unmarshal(raw, &w.manifest); err != nil {
			return fail("%s is not the JSON that is wanted, {\"repo\", \"revision\", \"sha256\", \"model\"}: %w", manifestName, err)
		}
	}
	if c.Revision != "" && c.Revision != w.Revision {
		return fail("its weights are of revision %q, not of %q: deploy those, or correct the setting", w.Revision, c.Revision)
	}
	names := []string{"model.onnx", "onnx/model.onnx"}
	if w.Model != "" {
		names = []string{w.Model}
	}
	if c.Model != "" {
		names = []string{c.Model}
	}
	var name string
	for _, n := range names {
		if !fs.ValidPath(n) {
			return fail("the model's file is named %q: a path inside the folder is wanted", n)
		}
		if info, err := fs.Stat(c.Files, n); err == nil && info.Mode().IsRegular() {
			name = n
			break
		}
	}
	if name == "" {
		return fail("no %s in it: an export of Kokoro-82M in ONNX format is wanted, with its voices in voices/", strings.Join(names, " nor "))
	}
	if path.Ext(name) != ".onnx" {
		return fail("the model's file %s is not in ONNX format", name)
	}
	sum, err := sumOf(ctx, c.Files, name)
	if err != nil {
		return fail("read %s: %w", name, err)
	}
	for _, want := range []struct{ sum, by string }{{c.SHA256, "the setting"}, {w.SHA256, manifestName}} {
		if want.sum == "" {
			continue
		}
		if !strings.EqualFold(want.sum, sum) {
			return fail("%s has sha256 %s, but %s says %s: it is another model, or damaged; copy it again", name, sum, want.by, want.sum)
		}
		w.checked = true
	}
	w.SHA256, w.path = sum, filepath.Join(c.Dir, filepath.FromSlash(name))
	return w, nil
}

// sumOf is the sha256 of a file.
func sumOf(ctx context.Context, files fs.FS, name string) (string, error) {
	f, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	for {
		n, err := io.CopyN(sum, f, 16<<20)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case n < 16<<20 && errors.Is(err, io.EOF):
			return hex.EncodeToString(sum.Sum(nil)), nil
		case err != nil:
			return "", err
		}
	}
}

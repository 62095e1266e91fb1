package release

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// config is the part of goreleaser's schema, version 2, that .goreleaser.yaml uses; any other key is refused.
type config struct {
	Version     int                      `yaml:"version"`
	ProjectName string                   `yaml:"project_name"`
	Before      struct{ Hooks []string } `yaml:"before"`
	Builds      []build                  `yaml:"builds"`
	Archives    []archive                `yaml:"archives"`
	SBOMs       []sbom                   `yaml:"sboms"`
	Checksum    map[string]string        `yaml:"checksum"`
	Snapshot    map[string]string        `yaml:"snapshot"`
	Changelog   map[string]string        `yaml:"changelog"`
	Release     struct{ Disable bool }   `yaml:"release"`
}

type build struct {
	ID, Main, Binary         string
	Env, Goos, Goarch, Flags []string
	Ldflags                  []string
	ModTimestamp             string `yaml:"mod_timestamp"`
}

type archive struct {
	ID           string
	IDs          []string `yaml:"ids"`
	Formats      []string
	NameTemplate string `yaml:"name_template"`
	BuildsInfo   info   `yaml:"builds_info"`
	Files        []struct {
		Src  string
		Info info
	}
}

type info struct {
	Mtime, Owner, Group string
	Mode                int
}

type sbom struct {
	ID, Artifacts, Cmd string
	Args, Documents    []string
}

func read(t *testing.T) config {
	t.Helper()
	data, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c config
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConfiguration checks the file by its schema's rules, and by goreleaser itself where that is installed.
func TestConfiguration(t *testing.T) {
	c := read(t)
	if c.Version != 2 || c.ProjectName != "loadline" {
		t.Errorf("version %d of project %q", c.Version, c.ProjectName)
	}
	var ids []string
	for _, b := range c.Builds {
		if slices.Contains(ids, b.ID) {
			t.Errorf("build %s is there twice", b.ID)
		}
		ids = append(ids, b.ID)
		if _, err := os.Stat(filepath.Join("../..", b.Main, "main.go")); err != nil {
			t.Errorf("build %s: %v", b.ID, err)
		}
		if !slices.Contains(b.Flags, "-trimpath") || !slices.Contains(b.Env, "CGO_ENABLED=0") || b.ModTimestamp != "{{ .CommitTimestamp }}" ||
			!strings.Contains(strings.Join(b.Ldflags, " "), "-X main.version={{ .Version }}") {
			t.Errorf("build %s would not be the same everywhere, or not say its version: %+v", b.ID, b)
		}
	}
	commands, err := filepath.Glob("../../cmd/*/main.go")
	if err != nil || len(commands) != len(ids) {
		t.Errorf("%d programs and %d builds (%v)", len(commands), len(ids), err)
	}
	for _, a := range c.Archives {
		for _, id := range a.IDs {
			if !slices.Contains(ids, id) {
				t.Errorf("archive %s: no build %s", a.ID, id)
			}
		}
		for _, f := range a.Files {
			if _, err := os.Stat(filepath.Join("../..", f.Src)); err != nil || f.Info.Mtime == "" {
				t.Errorf("archive %s: %s: %v, with the time %q", a.ID, f.Src, err, f.Info.Mtime)
			}
		}
	}
	if len(c.SBOMs) != 1 || c.SBOMs[0].Artifacts != "binary" {
		t.Errorf("no list of what is in each program: %+v", c.SBOMs)
	}
	if path, err := exec.LookPath("goreleaser"); err == nil {
		check := exec.Command(path, "check")
		check.Dir = "../.."
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("goreleaser check: %v\n%s", err, out)
		}
	} else {
		t.Log("goreleaser is not installed: the file is checked by the rules above alone")
	}
}

// TestReproducible builds a program twice, from the checkout and from a copy of it elsewhere, as a release does, and wants
// the same bytes, and the same list of what is in them.
func TestReproducible(t *testing.T) {
	b := read(t).Builds
	at := slices.IndexFunc(b, func(b build) bool { return b.ID == "sagemaker-local" })
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for _, dir := range []string{"cmd", "internal", "speech"} {
		if err := os.CopyFS(filepath.Join(elsewhere, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(elsewhere, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var programs, lists [][]byte
	for _, dir := range []string{root, elsewhere} {
		out := filepath.Join(t.TempDir(), "program")
		args := append([]string{"build", "-o", out}, b[at].Flags...)
		args = append(args, "-ldflags", strings.ReplaceAll(strings.Join(b[at].Ldflags, " "), "{{ .Version }}", "1.2.3"), b[at].Main)
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), b[at].Env...)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build in %s: %v\n%s", dir, err, said)
		}
		if said, err := exec.Command("go", "run", "../sbom", out, out+".json").CombinedOutput(); err != nil {
			t.Fatalf("sbom: %v\n%s", err, said)
		}
		for file, into := range map[string]*[][]byte{out: &programs, out + ".json": &lists} {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			*into = append(*into, data)
		}
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("the same source in two places gives two programs")
	}
	if !bytes.Equal(lists[0], lists[1]) {
		t.Error("the same source in two places gives two lists of what is in it")
	}
	var list struct {
		BOMFormat  string
		Components []struct {
			Name, Version string
			Hashes        []struct{ Alg, Content string }
		}
	}
	if err := json.Unmarshal(lists[0], &list); err != nil || list.BOMFormat != "CycloneDX" || len(list.Components) < 3 {
		t.Fatalf("%v: %d components of %q", err, len(list.Components), list.BOMFormat)
	}
	for _, c := range list.Components {
		if c.Version == "" || c.Name != "std" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("%s: version %q, checksums %v", c.Name, c.Version, c.Hashes)
		}
	}
}

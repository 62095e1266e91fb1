// Command sbom writes what a program is made of: every module in it, with its version and checksum, read from the program
// itself, as CycloneDX 1.5 in JSON. The same program gives the same bytes.
//
//	go run ./test/sbom bin/tts-bench tts-bench.cdx.json
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
)

type document struct {
	BOMFormat   string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(program, file string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read what %s is made of: %w", program, err)
	}
	sum := sha256.Sum256(data)
	doc := document{BOMFormat: "CycloneDX", SpecVersion: "1.5", Version: 1, Metadata: metadata{component{
		Type: "application", Ref: info.Path, Name: path.Base(info.Path), Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
	}}, Components: []component{{
		Type: "library", Ref: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), Name: "std",
		Version: strings.TrimPrefix(info.GoVersion, "go"), PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c, err := library(m)
		if err != nil {
			return err
		}
		doc.Components = append(doc.Components, c)
	}
	slices.SortFunc(doc.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(out, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	return nil
}

// library is a module; its checksum is the one of go.sum, SHA-256 over the module's files.
func library(m *debug.Module) (component, error) {
	purl := "pkg:golang/" + m.Path + "@" + url.PathEscape(m.Version)
	c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
		raw, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return component{}, fmt.Errorf("checksum of %s: %w", m.Path, err)
		}
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}}
	}
	return c, nil
}

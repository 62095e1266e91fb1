package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loadline/internal/exit"
)

// recipe is what of a Dockerfile decides which build arguments it needs.
type recipe struct {
	args   map[string]*string // before the first stage, with their defaults
	known  []string           // every ARG, wherever it is
	stages []buildStage
}

type buildStage struct {
	base, name string
	args       map[string]*string
	from       []string // stages and images that it copies from
}

var (
	fromStage = regexp.MustCompile(`--from=(\S+)|[,=]from=([^,\s]+)`)
	heredoc   = regexp.MustCompile(`<<-?["']?([A-Za-z_][A-Za-z0-9_]*)`)
	// brought are the arguments that Docker knows by itself.
	brought = regexp.MustCompile(`(?i)^((TARGET|BUILD)(PLATFORM|OS|ARCH|VARIANT)|(HTTP|HTTPS|FTP|NO|ALL)_PROXY|BUILDKIT_\w+|SOURCE_DATE_EPOCH)$`)
)

// readRecipe reads a Dockerfile's stages and arguments.
func readRecipe(text string) recipe {
	r := recipe{args: map[string]*string{}}
	joined, end := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case end != "":
			if line == end {
				end = ""
			}
			continue
		case line == "" || line[0] == '#':
			continue
		}
		more, continued := strings.CutSuffix(line, `\`)
		if joined += more; continued {
			joined += " "
			continue
		}
		words := strings.Fields(joined)
		joined = ""
		if len(words) < 2 {
			continue
		}
		rest := words[1:]
		switch kind := strings.ToUpper(words[0]); kind {
		case "FROM":
			rest = slices.DeleteFunc(rest, func(w string) bool { return strings.HasPrefix(w, "--") })
			s := buildStage{args: map[string]*string{}}
			if len(rest) > 0 {
				s.base = rest[0]
			}
			if len(rest) == 3 && strings.EqualFold(rest[1], "AS") {
				s.name = rest[2]
			}
			r.stages = append(r.stages, s)
		case "ARG":
			into := r.args
			if n := len(r.stages); n > 0 {
				into = r.stages[n-1].args
			}
			for _, w := range rest {
				name, value, has := strings.Cut(w, "=")
				r.known = append(r.known, name)
				if into[name] = nil; has {
					value = strings.Trim(value, `"'`)
					into[name] = &value
				}
			}
		case "COPY", "ADD", "RUN":
			if m := heredoc.FindStringSubmatch(line); m != nil {
				end = m[1]
			}
			if n := len(r.stages); n > 0 {
				for _, w := range rest {
					if !strings.HasPrefix(w, "--") {
						break
					}
					if m := fromStage.FindStringSubmatch(w); m != nil {
						r.stages[n-1].from = append(r.stages[n-1].from, m[1]+m[2])
					}
				}
			}
		}
	}
	return r
}

// missing is the arguments without a default that the last stage, and what it is made of, needs beside those that are given. A
// stage in whose place a context is given is not made.
func (r recipe) missing(given, contexts map[string]string) []string {
	out, seen := map[string]bool{}, map[int]bool{}
	value := func(name string) (string, bool) {
		if v, ok := given[name]; ok {
			return v, true
		}
		if v := r.args[name]; v != nil {
			return *v, true
		}
		return "", false
	}
	var need func(i int)
	stage := func(name string, before int) {
		if _, ok := contexts[name]; ok {
			return
		}
		for i := before - 1; i >= 0; i-- {
			if strings.EqualFold(r.stages[i].name, name) || strconv.Itoa(i) == name {
				need(i)
				return
			}
		}
	}
	need = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		s := r.stages[i]
		stage(os.Expand(s.base, func(ref string) string {
			name, or, has := strings.Cut(ref, ":-")
			v, ok := value(name)
			if _, declared := r.args[name]; declared && !ok && !has && !brought.MatchString(name) {
				out[name] = true
			}
			if v == "" {
				return or
			}
			return v
		}), i)
		for name, v := range s.args {
			if _, ok := value(name); !ok && v == nil && !brought.MatchString(name) {
				out[name] = true
			}
		}
		for _, name := range s.from {
			stage(name, i)
		}
	}
	if n := len(r.stages); n > 0 {
		need(n - 1)
	}
	return slices.Sorted(maps.Keys(out))
}

// buildArgs is what docker build is told for --build-arg and --build-context, once the Dockerfile is known to need no more.
func (f *deployFlags) buildArgs() ([]string, error) {
	given, err := pairs("--build-arg", f.args)
	if err != nil {
		return nil, err
	}
	contexts, err := pairs("--build-context", f.contexts)
	if err != nil {
		return nil, err
	}
	path := f.dockerfile
	if path == "" {
		path = filepath.Join(f.build, "Dockerfile")
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Misuse(fmt.Errorf("there is no %s to build by: name another with --dockerfile", path))
	} else if err != nil {
		return nil, exit.Misuse(fmt.Errorf("read what to build by: %w", err))
	}
	r := readRecipe(string(text))
	if len(r.stages) == 0 {
		return nil, exit.Misuse(fmt.Errorf("%s has no FROM: it is no Dockerfile", path))
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(r.known, name) && !brought.MatchString(name) {
			return nil, exit.Misuse(fmt.Errorf("--build-arg %s: %s has no such ARG, only %s", name, path, strings.Join(slices.Compact(slices.Sorted(slices.Values(r.known))), ", ")))
		}
	}
	if missing := r.missing(given, contexts); len(missing) > 0 {
		return nil, exit.Misuse(fmt.Errorf("%s has no default for %s: give --build-arg %s (NAME= leaves one empty); nothing was built", path, strings.Join(missing, ", "), strings.Join(missing, "=… --build-arg ")+"=…"))
	}
	var out []string
	for _, a := range f.args {
		out = append(out, "--build-arg", a)
	}
	for _, c := range f.contexts {
		out = append(out, "--build-context", c)
	}
	return out, nil
}

// pairs reads NAME=VALUE, of which the last counts.
func pairs(flag string, all []string) (map[string]string, error) {
	out := map[string]string{}
	for _, one := range all {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return nil, exit.Misuse(fmt.Errorf("%s %q is not NAME=VALUE", flag, one))
		}
		out[name] = value
	}
	return out, nil
}

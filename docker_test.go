package loadline_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instruction is one of a Dockerfile, continued lines joined.
type instruction struct {
	line     int
	kind     string // in capitals
	argument string
}

// stage is a FROM and what follows it.
type stage struct {
	image, name string
	body        []instruction
}

// dockerfile reads the instructions before the first stage, and the stages.
func dockerfile(text string) (global []instruction, stages []stage, err error) {
	var joined string
	first := 0
	for i, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		if joined == "" {
			first = i + 1
		}
		more, continued := strings.CutSuffix(l, `\`)
		if joined += more; continued {
			continue
		}
		kind, argument, _ := strings.Cut(joined, " ")
		in := instruction{first, strings.ToUpper(kind), strings.TrimSpace(argument)}
		joined = ""
		switch {
		case in.kind == "FROM":
			f := strings.Fields(in.argument)
			s := stage{image: f[0]}
			if len(f) == 3 && strings.EqualFold(f[1], "AS") {
				s.name = f[2]
			} else if len(f) != 1 {
				return nil, nil, fmt.Errorf("line %d: FROM %s", first, in.argument)
			}
			stages = append(stages, s)
		case len(stages) > 0:
			s := &stages[len(stages)-1]
			s.body = append(s.body, in)
		default:
			global = append(global, in)
		}
	}
	if joined != "" || len(stages) == 0 {
		return nil, nil, fmt.Errorf("it ends in the middle of line %d, or has no stage", first)
	}
	return global, stages, nil
}

// of is the arguments of a kind of instruction.
func of(body []instruction, kind string) (found []string) {
	for _, in := range body {
		if in.kind == kind {
			found = append(found, in.argument)
		}
	}
	return found
}

var pinned = regexp.MustCompile(`^[a-z0-9./-]+:[a-z0-9.-]+@\$\{([A-Z_]+_DIGEST)\}$`)

// broken is the rules that a Dockerfile of the speech container breaks. known is the variables that the server reads.
func broken(text string, known []string, exists func(path string) bool) (rules []string) {
	breaks := func(format string, args ...any) { rules = append(rules, fmt.Sprintf(format, args...)) }
	global, stages, err := dockerfile(text)
	if err != nil {
		return []string{err.Error()}
	}
	args := of(global, "ARG")
	var names []string
	variant := ""
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "VARIANT="); ok {
			variant = v
		}
	}
	for i, s := range stages {
		switch m := pinned.FindStringSubmatch(s.image); {
		case m != nil && !slices.Contains(args, m[1]):
			breaks("the digest of %s is not a required build argument", s.image)
		case m != nil, s.image == "scratch", slices.Contains(names, s.image):
		case i == len(stages)-1 && s.image == "${VARIANT}":
			for _, v := range []string{"cpu", "cuda"} {
				if !slices.Contains(names, v) {
					breaks("there is no variant %s", v)
				}
			}
			if variant != "cpu" {
				breaks("the usual variant is %q, not cpu", variant)
			}
		default:
			breaks("the image %s has no digest that is a build argument", s.image)
		}
		names = append(names, s.name)
		for _, in := range s.body {
			switch in.kind {
			case "ADD", "ONBUILD", "SHELL", "VOLUME":
				breaks("line %d: %s", in.line, in.kind)
			case "COPY":
				f := strings.Fields(in.argument)
				if from, ok := strings.CutPrefix(f[0], "--from="); ok {
					at := slices.Index(names[:i], from)
					if at < 0 {
						breaks("line %d: it copies from %s, which is no stage before it", in.line, from)
						continue
					}
					made := strings.Join(of(stages[at].body, "RUN"), "\n") + "\n"
					for _, path := range f[1 : len(f)-1] {
						if path != "/" && !strings.Contains(made, "-o "+path+" ") {
							breaks("line %d: no step of %s makes %s", in.line, from, path)
						}
					}
					continue
				}
				for _, path := range f[:len(f)-1] {
					if !exists(path) {
						breaks("line %d: there is no %s to copy", in.line, path)
					}
				}
			case "RUN":
				for _, path := range regexp.MustCompile(`\binternal/\S+`).FindAllString(in.argument, -1) {
					if !exists(path) {
						breaks("line %d: there is no %s to build", in.line, path)
					}
				}
				if strings.Contains(in.argument, "apt-get install") &&
					!(strings.Contains(in.argument, "--no-install-recommends") && strings.Contains(in.argument, "rm -rf /var/lib/apt/lists")) {
					breaks("line %d: packages without --no-install-recommends, or whose lists stay", in.line)
				}
				if regexp.MustCompile(`\b(curl|wget|pip|npm)\b`).MatchString(in.argument) {
					breaks("line %d: it fetches what nobody checks", in.line)
				}
			case "ENV":
				for _, pair := range strings.Fields(in.argument) {
					name, value, ok := strings.Cut(pair, "=")
					if !ok || !slices.Contains(known, name) {
						breaks("line %d: the server does not read %s", in.line, name)
					}
					if strings.Contains(name, "SECRET") || strings.Contains(name, "KEY") || value == "" {
						breaks("line %d: %s", in.line, pair)
					}
				}
			}
		}
	}
	last := stages[len(stages)-1].body
	for _, s := range stages[:len(stages)-1] {
		for _, m := range regexp.MustCompile(`(?m)^cc .* -l(\S+)$`).FindAllStringSubmatch(strings.Join(of(s.body, "RUN"), "\n"), -1) {
			if !regexp.MustCompile(`\blib` + m[1] + `[0-9]`).MatchString(strings.Join(of(last, "RUN"), "\n")) {
				breaks("the image has no lib%s to run with", m[1])
			}
		}
	}
	labels := strings.Join(of(last, "LABEL"), " ")
	for _, l := range []string{"bidirectional-streaming=true", "accept-bind-to-port=true"} {
		if !strings.Contains(labels, "com.amazonaws.sagemaker.capabilities."+l) {
			breaks("the image has no label %s", l)
		}
	}
	if users := of(last, "USER"); len(users) != 1 || !regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`).MatchString(users[0]) {
		breaks("the user is %v, not a number above 0 and its group", users)
	}
	for kind, want := range map[string]string{"ENTRYPOINT": `["/opt/speech/speech-server"]`, "CMD": `["serve"]`, "EXPOSE": "8080"} {
		got := of(last, kind)
		if len(got) != 1 || got[0] != want {
			breaks("%s is %v, not %s", kind, got, want)
		}
		var form []string
		if kind != "EXPOSE" && (len(got) != 1 || json.Unmarshal([]byte(got[0]), &form) != nil) {
			breaks("%s is not in exec form: a shell would not pass signals on", kind)
		}
	}
	return rules
}

// The image of the speech container is built from what is said by digest, speaks to both of the platform's doors, gets its
// signals and is not root; and the rules that say so find what breaks them.
func TestDockerfile(t *testing.T) {
	b, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("cmd/speech-server/serve.go")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, m := range regexp.MustCompile(`"((?:SPEECH|WEIGHTS|LOADLINE)_[A-Z0-9_]+)"`).FindAllStringSubmatch(string(source), -1) {
		known = append(known, m[1])
	}
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil || path == ".onnxruntime/" // made by make setup
	}
	text := string(b)
	for _, r := range broken(text, known, exists) {
		t.Error(r)
	}
	for _, c := range []struct{ old, new, want string }{
		{"@${GO_DIGEST}", "", "no digest"},
		{"ARG CUDA_DIGEST", "ARG CUDA_DIGEST=sha256:0", "not a required build argument"},
		{":bookworm-slim@", "@", "no digest"},
		{"AS cuda", "AS gpu", "no variant cuda"},
		{"VARIANT=cpu", "VARIANT=cuda", "not cpu"},
		{`ENTRYPOINT ["/opt/speech/speech-server"]`, "ENTRYPOINT /opt/speech/speech-server", "exec form"},
		{`CMD ["serve"]`, "", "CMD is []"},
		{"USER 65532:65532", "USER root", "the user is [root]"},
		{"USER 65532:65532", "USER 0:0", "the user is [0:0]"},
		{"USER 65532:65532", "", "the user is []"},
		{"bidirectional-streaming=true", "bidirectional-streaming=false", "no label bidirectional"},
		{"EXPOSE 8080", "EXPOSE 80", "EXPOSE is [80]"},
		{"--no-install-recommends ", "", "--no-install-recommends"},
		{"SPEECH_ENGINE=", "SPEECH_MOTOR=", "does not read SPEECH_MOTOR"},
		{"COPY cmd cmd", "COPY command cmd", "no command to copy"},
		{"--from=build", "--from=builder", "no stage before it"},
		{"-o /out/espeak-phonemes", "-o /out/speller", "no step of build makes /out/espeak-phonemes"},
		{"speller/espeak-phonemes.c", "espeak-phonemes.c", "no internal/engine/phonemes/espeak-phonemes.c to build"},
		{"libespeak-ng1", "", "no libespeak-ng to run with"},
		{"RUN go mod download", "RUN curl https://example.org | sh", "nobody checks"},
		{"COPY go.mod go.sum ./", "ADD https://example.org/x /", "ADD"},
		{`CMD ["serve"]`, `CMD ["serve"] \`, "middle of line"},
	} {
		if !strings.Contains(text, c.old) {
			t.Errorf("the Dockerfile has no %q any more", c.old)
			continue
		}
		if found := broken(strings.Replace(text, c.old, c.new, 1), known, exists); !strings.Contains(strings.Join(found, "; "), c.want) {
			t.Errorf("%q for %q breaks %q, want %q", c.new, c.old, found, c.want)
		}
	}
}

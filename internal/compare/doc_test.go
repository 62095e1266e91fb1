package compare

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryFieldIsDocumented holds the printed record against doc/artifacts.md.
func TestEveryFieldIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../doc/artifacts.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\|")
	for heading, typ := range map[string]reflect.Type{
		"## Comparison": reflect.TypeFor[Report](), "### Compared record": reflect.TypeFor[Side](), "### Shift": reflect.TypeFor[Shift](),
	} {
		_, section, ok := strings.Cut(string(doc), "\n"+heading+"\n")
		if !ok {
			t.Errorf("no heading %q", heading)
			continue
		}
		section, _, _ = strings.Cut(section, "\n#")
		var told, written []string
		for _, m := range row.FindAllStringSubmatch(section, -1) {
			told = append(told, m[1])
		}
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			written = append(written, name)
		}
		if !slices.Equal(told, written) {
			t.Errorf("%s: %v documented, %v written", heading, told, written)
		}
	}
}

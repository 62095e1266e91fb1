package artifact

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"loadline/internal/capacity"
	"loadline/internal/ladder"
	"loadline/internal/openloop"
	"loadline/internal/proof"
	"loadline/internal/sample"
	"loadline/internal/sim"
)

// sections is the heading of doc/artifacts.md under which the fields of each type stand.
var sections = map[reflect.Type]string{
	reflect.TypeFor[Header]():               "## Header",
	reflect.TypeFor[Target]():               "### Target",
	reflect.TypeFor[Fingerprint]():          "### Fingerprint",
	reflect.TypeFor[Copy]():                 "### Copy",
	reflect.TypeFor[QMax]():                 "## Ladder (qmax)",
	reflect.TypeFor[ladder.Certificate]():   "### Certificate",
	reflect.TypeFor[ladder.Bracket]():       "### Bracket",
	reflect.TypeFor[ladder.Rung]():          "### Rung",
	reflect.TypeFor[sample.Client]():        "### Client",
	reflect.TypeFor[ladder.Server]():        "### Server",
	reflect.TypeFor[ladder.Interval]():      "### Interval",
	reflect.TypeFor[Corpus]():               "### Corpus",
	reflect.TypeFor[Price]():                "### Price",
	reflect.TypeFor[Rates]():                "## Open-loop ladder (rates)",
	reflect.TypeFor[openloop.Rung]():        "### Open-loop rung",
	reflect.TypeFor[openloop.Law]():         "### Law",
	reflect.TypeFor[capacity.Open]():        "### Open loop",
	reflect.TypeFor[capacity.Length]():      "### Length",
	reflect.TypeFor[capacity.Line]():        "### Line",
	reflect.TypeFor[capacity.Streams]():     "### Streams",
	reflect.TypeFor[capacity.Bound]():       "### Bound",
	reflect.TypeFor[capacity.Invocations](): "### Invocations",
	reflect.TypeFor[capacity.Sensitivity](): "### Sensitivity",
	reflect.TypeFor[sample.Request]():       "## Request log",
	reflect.TypeFor[sample.TextID]():        "### Text",
	reflect.TypeFor[TTotal]():               "## Scale-out (ttotal)",
	reflect.TypeFor[Stage]():                "### Stage",
	reflect.TypeFor[Duration]():             "### Duration",
	reflect.TypeFor[Recovery]():             "### Recovery",
	reflect.TypeFor[Dominant]():             "### Dominant",
	reflect.TypeFor[Attempt]():              "### Attempt",
	reflect.TypeFor[Plan]():                 "## Plan",
	reflect.TypeFor[capacity.Scenario]():    "### Scenario",
	reflect.TypeFor[PlanMeasured]():         "### Plan: measured",
	reflect.TypeFor[capacity.Measured]():    "### Measured",
	reflect.TypeFor[capacity.Point]():       "### Point",
	reflect.TypeFor[capacity.Lag]():         "### Lag",
	reflect.TypeFor[capacity.Rule]():        "### Rule",
	reflect.TypeFor[capacity.Money]():       "### Money",
	reflect.TypeFor[capacity.Finding]():     "### Finding",
	reflect.TypeFor[PlanSurge]():            "### Surge",
	reflect.TypeFor[SurgeOutcome]():         "### Surge outcome",
	reflect.TypeFor[SurgeFigures]():         "### Surge figures",
	reflect.TypeFor[capacity.Policy]():      "### Policy",
	reflect.TypeFor[capacity.Step]():        "### Step",
	reflect.TypeFor[capacity.Metric]():      "### Metric",
	reflect.TypeFor[capacity.Alarm]():       "### Alarm",
	reflect.TypeFor[PlanConfig]():           "### Configuration",
	reflect.TypeFor[Proof]():                "## Proof (prove)",
	reflect.TypeFor[proof.Check]():          "### Check",
	reflect.TypeFor[Freeze]():               "## Freeze record",
	reflect.TypeFor[Simulation]():           "## Simulation",
	reflect.TypeFor[SimulationRun]():        "### Simulated run",
	reflect.TypeFor[sim.Result]():           "### Result",
	reflect.TypeFor[sim.Workload]():         "### Workload",
	reflect.TypeFor[sim.Change]():           "### Change",
	reflect.TypeFor[sim.Point]():            "### Time line",
}

// plain is the types that are written as one JSON value.
var plain = []reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[sample.Chunk]()}

var row = regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\|")

// TestEveryFieldIsDocumented walks the records and holds each type against its table.
func TestEveryFieldIsDocumented(t *testing.T) {
	doc := string(read(t, "../../doc/artifacts.md"))
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	var fields func(reflect.Type, string) []string
	fields = func(typ reflect.Type, prefix string) (names []string) {
		for f := range typ.Fields() {
			name, _ := jsonName(f)
			switch {
			case f.Anonymous && f.Tag.Get("json") == "":
				walk(f.Type)
			case name == "-":
			case f.Type.Kind() == reflect.Struct && f.Type.Name() == "": // no type of its own: its fields stand here
				names = append(names, fields(f.Type, prefix+name+".")...)
			default:
				names = append(names, prefix+name)
				walk(f.Type)
			}
		}
		return names
	}
	walk = func(typ reflect.Type) {
		for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, typ.Kind()) {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || slices.Contains(plain, typ) || seen[typ] {
			return
		}
		seen[typ] = true
		heading, ok := sections[typ]
		if !ok {
			t.Errorf("%s has no section: write one in doc/artifacts.md and name it in this test", typ)
			return
		}
		_, section, ok := strings.Cut(doc, "\n"+heading+"\n")
		if !ok {
			t.Errorf("doc/artifacts.md has no heading %q for %s", heading, typ)
			return
		}
		section, _, _ = strings.Cut(section, "\n#")
		var documented []string
		for _, m := range row.FindAllStringSubmatch(section, -1) {
			documented = append(documented, m[1])
		}
		written := fields(typ, "")
		for _, name := range written {
			if !slices.Contains(documented, name) {
				t.Errorf("doc/artifacts.md, %s: field `%s` of %s is not documented", heading, name, typ)
			}
		}
		for _, name := range documented {
			if !slices.Contains(written, name) {
				t.Errorf("doc/artifacts.md, %s: `%s` is no field of %s", heading, name, typ)
			}
		}
	}
	for _, root := range []reflect.Type{reflect.TypeFor[QMax](), reflect.TypeFor[Rates](), reflect.TypeFor[TTotal](), reflect.TypeFor[Plan](), reflect.TypeFor[Proof](), reflect.TypeFor[Freeze](), reflect.TypeFor[Simulation](), reflect.TypeFor[sample.Request]()} {
		walk(root)
	}
	for typ := range sections {
		if !seen[typ] {
			t.Errorf("no record holds a %s", typ)
		}
	}
}

package autoscale

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// TestRows plays each section of testdata in a world of its own. A section begins with ## and the rows of
// doc/autoscaling.md that it is about; indented lines are what has to come of the line above them.
func TestRows(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	sections := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var whole strings.Builder
		for i, section := range strings.Split("\n"+string(b), "\n## ")[1:] {
			section = strings.TrimRight(section, "\n") + "\n"
			title, script, _ := strings.Cut(section, "\n")
			sections++
			if i > 0 {
				whole.WriteByte('\n')
			}
			whole.WriteString("## " + title + "\n")
			t.Run(title, func(t *testing.T) {
				got := newWorld(t).run(script)
				whole.WriteString(got)
				if got != script && !*update {
					t.Errorf("got:\n%s", got)
				}
				if again := newWorld(t).run(script); again != got {
					t.Errorf("a second run differs:\n%s", again)
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, []byte(whole.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if sections < 40 {
		t.Errorf("%d sections", sections)
	}
}

// TestEveryRowIsTested holds the page and the tests together.
func TestEveryRowIsTested(t *testing.T) {
	page, err := os.ReadFile("../../doc/autoscaling.md")
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`\b(AL|TT|ST|SC|TG|AC)\d+\b`)
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]{2}\d+) \|`).FindAllStringSubmatch(string(page), -1) {
		rows[m[1]] = true
	}
	var files []string
	for _, glob := range []string{"testdata/*.txt", "*_test.go", "../alarm/*_test.go", "../schedule/*_test.go"} {
		found, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	cited := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range id.FindAllString(string(b), -1) {
			cited[c] = true
		}
	}
	for row := range rows {
		if !cited[row] {
			t.Errorf("row %s has no test", row)
		}
	}
	for c := range cited {
		if !rows[c] {
			t.Errorf("a test cites row %s, which the page does not have", c)
		}
	}
	if len(rows) < 60 || !slices.Contains([]bool{rows["AL1"], rows["AC14"]}, true) {
		t.Errorf("%d rows were found on the page", len(rows))
	}
}

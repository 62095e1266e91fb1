package loadline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	unlinked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks: every link of a page to a file of this repository, or to a heading in one, leads there.
func TestLinks(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "*.md").Output()
	if err != nil {
		t.Skipf("not a checkout by git: %v", err)
	}
	text, anchors := map[string]string{}, map[string]bool{}
	for _, page := range strings.Fields(string(out)) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text[page] = fenced.ReplaceAllString(string(data), "")
		for _, h := range heading.FindAllStringSubmatch(text[page], -1) {
			name := dropped.ReplaceAllString(strings.ToLower(unlinked.ReplaceAllString(h[1], "$1")), "")
			anchors[page+"#"+strings.ReplaceAll(strings.TrimSpace(name), " ", "-")] = true
		}
	}
	links := 0
	for page, s := range text {
		for _, l := range link.FindAllStringSubmatch(s, -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			links++
			path, anchor, named := strings.Cut(l[1], "#")
			if path = filepath.Join(filepath.Dir(page), path); l[1][0] == '#' {
				path = page
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which is not there", page, l[1])
			} else if named && !anchors[path+"#"+anchor] {
				t.Errorf("%s links to %s: that page has no such heading", page, l[1])
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links were found", links)
	}
}

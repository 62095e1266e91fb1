package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAgain holds the gate to what it lets pass a second time: a test that fails once, and nothing that panics, races or
// fails twice.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		name, body     string
		failed, passed int
	}{
		{"once", `if _, err := os.Stat("ran"); err != nil { os.WriteFile("ran", nil, 0o644); t.Fatal("the machine is busy") }`, 0, 1},
		{"below", `t.Run("sub", func(t *testing.T) { if _, err := os.Stat("ran"); err != nil { os.WriteFile("ran", nil, 0o644); t.Fatal("the machine is busy") } })`, 0, 2},
		{"always", `t.Fatal("wrong")`, 1, 0},
		{"panic", `if _, err := os.Stat("ran"); err != nil { os.WriteFile("ran", nil, 0o644); panic("wrong") }`, 1, 0},
		{"race", `if _, err := os.Stat("ran"); err != nil { os.WriteFile("ran", nil, 0o644); println("WARNING: DATA RACE"); t.Fatal("raced") }`, 1, 0},
		{"build", `undeclared()`, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"go.mod":    "module m\n\ngo 1.26\n",
				"m_test.go": "package m\n\nimport (\"os\"; \"testing\")\n\nvar _ = os.Stat\n\nfunc TestIt(t *testing.T) { " + c.body + " }\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var got tally
			got.run(step{name: c.name, argv: []string{"go", "test", "-C", dir, "-json", "-vet=off"}, packages: []string{"."}})
			if got.failed == 0 != (c.failed == 0) || got.passed != c.passed {
				t.Errorf("%d failed, %d passed; want %d and %d", got.failed, got.passed, c.failed, c.passed)
			}
		})
	}
}

package speech

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write what is said into the golden files")

// Every line of the golden file is a text, and after " => " how it is read.
func TestNormalise(t *testing.T) {
	const file = "testdata/normalise.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	language, cases := "", 0
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		text, want, _ := strings.Cut(line, " => ")
		switch name, ok := strings.CutPrefix(line, "# language "); {
		case ok:
			language = name
		case !strings.HasPrefix(line, "## "):
			cases++
			got := Read(text, language, nil)
			said := got.Text()
			if len(got.Omitted) > 0 {
				said += " | not said: " + strings.Join(got.Omitted, ", ")
			}
			if said != want && !*update {
				t.Errorf("%s: %q is read as\n     %q\nwant %q", language, text, said, want)
			}
			line = text + " => " + said
		}
		out.WriteString(line + "\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if cases < 300 {
		t.Errorf("%d cases: the policy wants 300", cases)
	}
}

// A megabyte of anything is read in proportion to its length: what is not, takes minutes, and even an eighth of it takes long.
func TestNormaliseIsLinear(t *testing.T) {
	for name, unit := range map[string]string{
		"words": "alpha bravo ", "digits": "7", "numbers": "1,234.5 ", "dots": ".", "letters": "x", "points": "1.", "commas": "1,", "dashes": "1-", "colons": "1:",
		"strokes": "1/", "money": "$5-$", "mail": "a@b.", "links": "http://a.b/ ", "initials": "A. ", "dotted": "a.", "roman": "MMXVI ", "phone": "+1 22 ", "marks": "!?", "dashed": "— ",
		"quotes": "\"'", "brackets": "([", "powers": "2^", "code": "a1", "greek": "αβ", "cyrillic": "Привет ", "symbols": "☃ ", "months": "May 5, ", "signs": "~", "underscores": "_",
	} {
		size := 1 << 17
		if slices.Contains([]string{"words", "digits", "dots", "letters", "mail", "greek"}, name) {
			size = 1 << 20
		}
		text := strings.Repeat(unit, size/len(unit))
		began := time.Now()
		r := Read(text, "en-us", nil)
		if d := time.Since(began); d > time.Duration(1+9*size>>20)*time.Second+2*time.Second {
			t.Fatalf("%s took %v", name, d)
		}
		if n := len(r.Text()); n > 64<<20 {
			t.Errorf("%s: %d bytes are said", name, n)
		}
	}
}

// FuzzRead holds that reading never fails, that its words can be said and have none of the marks, that a mark is one that a
// voice heeds, and that English words keep no digit.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"Dr. Lee paid $5.50 on 6/13/2026 at 9:30 a.m.", "(555) 123-4567 — \"XIV\" 5'10\" A. B", "αβ привет 5 x 3 ½ +44 20 7946 0958", "v1.2-b a@b.co https://a.b/c 3:1 [x] 1,2,3 £5–6k"} {
		f.Add(s, "Lee", "/liː/")
	}
	f.Fuzz(func(t *testing.T, text, key, said string) {
		if !utf8.ValidString(text) {
			return
		}
		l, err := NewLexicon(map[string]string{key: said})
		if err != nil {
			l = nil
		}
		for _, language := range []string{"en-us", "en-gb", "fr-fr"} {
			for _, s := range Read(Clean(text), language, l).Spans {
				switch {
				case s.Mark != "":
					if strings.Trim(s.Mark, heeded) != "" || s.Words+s.Sounds != "" {
						t.Fatalf("%q has the mark %+v", text, s)
					}
				case s.Words != "":
					if !Speakable(s.Words) || strings.TrimSpace(s.Words) != s.Words || !utf8.ValidString(s.Words) || strings.ContainsAny(s.Words, "\"()!?;\n") {
						t.Fatalf("%q has the words %q", text, s.Words)
					}
					if language != "fr-fr" && strings.ContainsAny(s.Words, "0123456789") {
						t.Fatalf("%q keeps digits: %q", text, s.Words)
					}
				case s.Sounds == "":
					t.Fatalf("%q has an empty span", text)
				}
			}
		}
	})
}

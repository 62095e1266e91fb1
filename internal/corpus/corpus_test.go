package corpus

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestShipped(t *testing.T) {
	clips, ok := Named(Clips)
	if !ok {
		t.Fatal("no clips")
	}
	s := clips.Stats()
	if s.Texts != 50 || s.CharsMin != 6 || s.CharsMax != 61 || math.Abs(s.CharsMean-25.2) > 0.05 {
		t.Errorf("clips: %+v, want 50 texts of 6 to 61 characters, mean 25.2 ± 0.05", s)
	}
	def, ok := Named(Default)
	if !ok {
		t.Fatal("no default corpus")
	}
	s = def.Stats()
	if s.Texts != 120 || s.CharsMin != 6 || s.CharsMax < 550 || s.CharsMax > 620 || s.CharsP95 < 250 || s.CharsP95 > 450 {
		t.Errorf("default: %+v, want 120 texts, short replies to paragraphs", s)
	}
	for _, c := range []*Corpus{clips, def} {
		seen := map[string]bool{}
		for i := range c.Len() {
			text := c.At(i)
			if seen[text.Body] {
				t.Errorf("%s: %q twice", c.ID(), text.Body)
			}
			seen[text.Body] = true
			if text.ID.Corpus != c.ID() || text.ID.Index != i {
				t.Errorf("%s: text %d is called %+v", c.ID(), i, text.ID)
			}
		}
	}
	if _, ok := Named("other"); ok {
		t.Error("a corpus named other")
	}
}

// order is the texts of a whole turn, by index.
func order(c *Corpus) []int {
	var out []int
	for i := range c.Len() {
		out = append(out, c.At(i).ID.Index)
	}
	return out
}

func TestShuffle(t *testing.T) {
	a, _ := Named(Clips)
	b, _ := Named(Clips)
	a.Shuffle(7)
	b.Shuffle(99)
	if slices.Equal(order(a), order(b)) {
		t.Error("two seeds gave one order")
	}
	b.Shuffle(7)
	if !slices.Equal(order(a), order(b)) {
		t.Error("a seed's order depends on what was drawn before")
	}
	if a.At(3) != a.At(3+a.Len()) {
		t.Error("the order changed on the second turn")
	}
	sorted := order(a)
	slices.Sort(sorted)
	for i, v := range sorted {
		if v != i {
			t.Fatalf("shuffled texts are %v", sorted)
		}
	}
}

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       []string
		err        string // a part of it
	}{
		{"lines", "One.\nTwo, three.\n", []string{"One.", "Two, three."}, ""},
		{"no last newline", "One.\nTwo.", []string{"One.", "Two."}, ""},
		{"CRLF, byte order mark and blank end", "\ufeffOne.\r\nTwo.\r\n\r\n \n", []string{"One.", "Two."}, ""},
		{"other scripts", "こんにちは。\nÇa va ?\n", []string{"こんにちは。", "Ça va ?"}, ""},
		{"a line with a bracket", "[pause] Hello.\n", []string{"[pause] Hello."}, ""},
		{"JSON strings", `["One.", "Two \"2\"."]`, []string{"One.", `Two "2".`}, ""},
		{"JSON objects", `[{"text": "One.", "id": 4}, {"text": "Two."}]`, []string{"One.", "Two."}, ""},
		{"empty", "", nil, "no texts"},
		{"blank", " \n\n", nil, "no texts"},
		{"empty array", "[]", nil, "no texts"},
		{"blank line", "One.\n\nTwo.\n", nil, "line 2: nothing to speak"},
		{"unspeakable lines", "One.\n...\n—\n", nil, `line 2: nothing to speak in "..."; line 3`},
		{"unspeakable element", `["One.", "?!"]`, nil, "element 2: nothing to speak"},
		{"zero-width space", "\u200b\nOne.", nil, "line 1: nothing to speak"},
		{"element of another type", `["One.", 2]`, nil, `element 2: want a string`},
		{"null", `["One.", null]`, nil, `element 2: want a string`},
		{"object without text", `[{"body": "x"}]`, nil, `element 1: want a string, or an object with "text"`},
		{"broken JSON", `["One.", `, nil, "read the JSON array"},
		{"JSON lines", "{\"text\": \"One.\"}\n{\"text\": \"Two.\"}\n", nil, "want an array"},
		{"not UTF-8", "One.\nTw\xff.\n", nil, "line 2 is not UTF-8"},
		{"many bad lines", "x" + strings.Repeat("\n-", 30), nil, "and 20 more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Read("dir/mine.txt", []byte(tc.body))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), "mine.txt") {
					t.Fatalf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tc.want {
				if got := c.At(i); got.Body != want || got.Chars != len([]rune(want)) {
					t.Errorf("text %d is %+v, want %q", i, got, want)
				}
			}
			if c.Len() != len(tc.want) {
				t.Errorf("%d texts, want %d", c.Len(), len(tc.want))
			}
		})
	}
}

func TestReadID(t *testing.T) {
	a, err := Read("/some/where/mine.json", []byte(`["One."]`))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Read("mine.json", []byte(`["One. "]`))
	if !strings.HasPrefix(a.ID(), "mine-") || len(a.ID()) != len("mine-")+8 || a.ID() == b.ID() {
		t.Errorf("ids %q and %q: want mine- and 8 hex digits of the content", a.ID(), b.ID())
	}
}

func ExampleCorpus_Shuffle() {
	c, _ := Read("two.txt", []byte("One.\nTwo.\n"))
	c.Shuffle(1)
	fmt.Println(c.Len(), c.Stats().CharsMean)
	// Output: 2 4
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"One.\nTwo.", `["a", {"text":"b"}]`, "[", "{\"", "\ufeff\n\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := Read("f.txt", body)
		if err != nil {
			return
		}
		var lines []string
		for i := range c.Len() {
			if text := c.At(i).Body; strings.ContainsAny(text, "\n") || strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") || strings.HasPrefix(text, "\ufeff") {
				return // such texts need the JSON form
			} else {
				lines = append(lines, text)
			}
		}
		again, err := Read("f.txt", []byte(strings.Join(lines, "\n")))
		if err != nil || again.Stats() != c.Stats() {
			t.Fatalf("%q read back as %v, %v", lines, again, err)
		}
	})
}

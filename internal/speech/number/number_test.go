package number

import "testing"

func TestRoman(t *testing.T) {
	for n := 1; n <= 3999; n++ {
		if got := Roman(written(n)); got != n {
			t.Errorf("%s is %d, want %d", written(n), got, n)
		}
	}
	for _, s := range []string{"", "A", "i", "IIII", "VV", "IC", "IXI", "XM", "VX", "MMMM", "IIX", "MMMDCCCLXXXVIIII"} {
		if got := Roman(s); got != 0 {
			t.Errorf("%q is %d: it is no numeral", s, got)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Cardinal("0", false), "zero"},
		{Cardinal("3497", false), "three thousand four hundred ninety seven"},
		{Cardinal("3497", true), "three thousand four hundred and ninety seven"},
		{Cardinal("1000005", true), "one million and five"},
		{Cardinal("007", false), "zero zero seven"},
		{Cardinal("1000000000000000000000", false), "one zero zero zero zero zero zero zero zero zero zero zero zero zero zero zero zero zero zero zero zero zero"},
		{Small(0), "zero"}, {Small(40), "forty"}, {Small(99), "ninety nine"},
		{Ordinal("twenty four"), "twenty fourth"}, {Ordinal("twelve"), "twelfth"}, {Ordinal("thirty"), "thirtieth"},
		{Plural("ninety"), "nineties"}, {Plural("six"), "sixes"}, {Plural("seven"), "sevens"},
		{Spelled("90-2"), "nine zero two"},
		{Year("1999", false), "nineteen ninety nine"}, {Year("1905", false), "nineteen oh five"}, {Year("1900", false), "nineteen hundred"},
		{Year("2004", true), "two thousand and four"}, {Year("2024", false), "twenty twenty four"}, {Year("066", false), "sixty six"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in, words, rest string
		ok              bool
	}{
		{"-1,234.5 km", "minus one thousand two hundred thirty four point five", " km", true},
		{"+7", "plus seven", "", true}, {".25x", "point two five", "x", true}, {"12,34", "twelve", ",34", true}, {"5.", "five", ".", true},
		{"", "", "", false}, {"x1", "", "x1", false},
	} {
		if a, rest, ok := Parse(c.in); a.Words(false) != c.words || rest != c.rest || ok != c.ok {
			t.Errorf("%q is %q before %q (%v), want %q before %q (%v)", c.in, a.Words(false), rest, ok, c.words, c.rest, c.ok)
		}
	}
}

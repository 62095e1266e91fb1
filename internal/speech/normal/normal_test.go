package normal

import (
	"os"
	"strings"
	"testing"
)

// No digit, and no sign that has a name, is left of any text that the policy's table holds, in either English.
func TestNothingIsLeftInDigits(t *testing.T) {
	b, err := os.ReadFile("../testdata/normalise.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		text, _, ok := strings.Cut(line, " => ")
		if !ok {
			continue
		}
		for _, language := range []string{"en-us", "en-gb"} {
			if said := Words(text, language); strings.ContainsAny(said, "0123456789$%&") {
				t.Errorf("%s: %q becomes %q", language, text, said)
			}
		}
	}
}

// Where a front end reads the numbers of its language, only marks change.
func TestOtherLanguagesKeepTheirNumbers(t *testing.T) {
	if got, want := Words("Il  coûte «5,50 €»…\tle 3/4 — oui。", "fr-fr"), "Il coûte “5,50 €”… le 3/4 — oui."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTrim(t *testing.T) {
	for word, want := range map[string][3]string{
		"(\"Hello,\")": {"(\"", "Hello", ",\")"}, "plain": {"", "plain", ""}, "...": {"", "", "..."}, "": {}, "[5]": {"[", "5", "]"}, "'tis": {"'", "tis", ""},
	} {
		if pre, core, post := Trim(word); [3]string{pre, core, post} != want {
			t.Errorf("%q is %q, %q, %q; want %q", word, pre, core, post, want)
		}
	}
}

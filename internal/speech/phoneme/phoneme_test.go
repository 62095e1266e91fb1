package phoneme

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"loadline/internal/speech"
)

func TestVocabulary(t *testing.T) {
	if len(vocabulary) != 114 {
		t.Errorf("%d symbols, not 114", len(vocabulary))
	}
	seen := map[int64]rune{}
	for r, id := range vocabulary {
		if other, ok := seen[id]; ok || id < 1 || id > 177 {
			t.Errorf("%q is %d, and so is %q", r, id, other)
		}
		seen[id] = r
	}
	for _, r := range "g-^\u0329'" {
		if Known(r) {
			t.Errorf("%q is known", r)
		}
	}
}

func TestFromEspeak(t *testing.T) {
	for _, c := range []struct{ language, ipa, want string }{
		{"en-us", "həlˈo^ʊ wˈɜːld", "həlˈO wˈɜɹld"},
		{"en-us", "ðə d^ʒˈʌd^ʒᵻz t^ʃˈɜːt^ʃ kwˈa^ɪ^ɚ d^ʒˈɔ^ɪnd ˌʌs", "ðə ʤˈʌʤᵻz ʧˈɜɹʧ kwˈIəɹ ʤˈYnd ˌʌs"},
		{"en-us", "hˌa^ʊ bˈoːɹɪŋ", "hˌW bˈɔɹɪŋ"},
		{"en-us", "lˈɪɾə^l bˈɑːɾə^l bˈʌʔn̩", "lˈɪTᵊl bˈɑTᵊl bˈʌtᵊn"},
		{"en-us", "fˈoː^ɹ hˈɪ^ɹ ðɛ^ɹ wˈɔːɾɚ", "fˈɔɹ hˈɪɹ ðɛɹ wˈɔTəɹ"},
		{"en-us", "kəkˈoːɹo^ʊ", "kəkˈɔɹO"},
		{"en-us", "lˈɑːx bˈɑːx", "lˈɑk bˈɑk"},
		{"en-us", "nˈa^ɪn θˈɜːɾi ˈe^ɪˈɛm", "nˈIn θˈɜɹTi ˈAˈɛm"},
		{"en-us", "ɐmˈɛɹɪkə", "əmˈɛɹɪkə"},
		{"en-us", "bɔːnʒˈʊ^ɹ kæfˈe^ɪ", "bɔnʒˈʊɹ kæfˈA"},
		{"en-us", "ɡɡ gˈo^ʊ", "ɡɡ ɡˈO"},
		{"en-us", "bɔ̃ʒˈuʁ", "bɔʒˈuʁ"},
		{"en-us", "(^f^r)bˈɔː(^e^n) nˈe^ɪ", "bˈɔ nˈA"},
		{"en-us", "ɹˈɪðə m̩ ", "ɹˈɪðə ᵊm"},
		{"en-us", "", ""},
		{"en-us", "(never closed", ""},
		{"en-us", "\u0329", ""},
		{"en-gb", "həlˈə^ʊ wˈɜːld", "həlˈQ wˈɜːld"},
		{"en-gb", "lˈɪtə^l bˈɒtə^l bˈʌtən", "lˈɪtᵊl bˈɒtᵊl bˈʌtən"},
		{"en-gb", "fˈɔː hˈi^ə ðe^ə wˈɔːtə", "fˈɔː hˈɪə ðɛː wˈɔːtə"},
		{"en-gb", "bˈɜːd fˈa^ɪ^ə", "bˈɜːd fˈIə"},
		{"es", "ˈola mˈundo el pˈero", "ˈola mˈundo el pˈero"},
		{"es", "kˈaʎe ðe xˈɛnte", "kˈaʎe ðe xˈɛnte"},
		{"fr-fr", "bɔ̃ʒˈuʁ lə- mˈɔ̃d (^e^n)wiːkˈɛnd(^f^r)", "bɔ̃ʒˈuʁ lə mˈɔ̃d wiːkˈɛnd"},
		{"hi", "nəmˈʌsteː dˈʊnɪjˌaː ˈʌcʰcʰaː", "nəmˈʌsteː dˈʊnɪjˌaː ˈʌcʰcʰaː"},
		{"it", "t^ʃˈao mˈondo ʎɪ ɲˈokːɪ", "ʧˈao mˈondo ʎɪ ɲˈokːɪ"},
		{"pt-br", "mˈũŋdw d^ʒy brˌazilˈe^ɪɾʊ", "mˈũŋdw ʤy brˌazilˈAɾʊ"},
	} {
		got := FromEspeak(c.ipa, c.language)
		if got != c.want {
			t.Errorf("%s: %q becomes %q, want %q", c.language, c.ipa, got, c.want)
		}
		for _, r := range got {
			if !Known(r) && r != 'ũ' && r != '\u0169' {
				t.Errorf("%s: %q has %q, which is not in the vocabulary", c.language, got, r)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	ids, dropped := Tokens("həlˈO, wˈɜɹld.")
	if want := []int64{0, 50, 83, 54, 156, 31, 3, 16, 65, 156, 87, 123, 54, 46, 4, 0}; !slices.Equal(ids, want) || dropped != 0 {
		t.Errorf("%v, %d dropped; want %v", ids, dropped, want)
	}
	if ids, dropped := Tokens("g-漢"); !slices.Equal(ids, []int64{0, 0}) || dropped != 3 {
		t.Errorf("%v, %d dropped", ids, dropped)
	}
	if ids, dropped := Tokens(""); !slices.Equal(ids, []int64{0, 0}) || dropped != 0 {
		t.Errorf("nothing: %v, %d dropped", ids, dropped)
	}
}

// The row is one less than the tokens, and never outside of a pack.
func TestStyleRow(t *testing.T) {
	for tokens, want := range map[int]int{-1: 0, 0: 0, 1: 0, 2: 1, 100: 99, 509: 508, 510: 509, 511: 509, 10000: 509} {
		if got := StyleRow(tokens); got != want {
			t.Errorf("%d tokens have row %d, want %d", tokens, got, want)
		}
	}
}

// Marks are put back where they were; what has no sound is reported, and no marks are left of it alone.
func TestJoin(t *testing.T) {
	for _, c := range []struct {
		text, want, omitted string
		dropped             int
		ipa                 []string
	}{
		{"Hello, world.", "həlˈO, wˈɜɹld.", "", 0, []string{"həlˈo^ʊ", "wˈɜːld"}},
		{"He said (\"no\") — twice…", "hi sˈɛd (“nˈO”) — twˈIs…", "", 0, []string{"hiː sˈɛd", "nˈo^ʊ", "twˈa^ɪs"}},
		{"Well; so: yes!", "wˈɛl; sˌO: jˈɛs!", "", 0, []string{"wˈɛl", "sˌo^ʊ", "jˈɛs"}},
		{"One, hush, two.", "wˈʌn, tˈu.", "hush", 0, []string{"wˈʌn", "", "tˈuː"}},
		{"Hush.", "", "Hush", 0, []string{""}},
		{"Strange", "strˈAnʤ", "", 2, []string{"strˈe^ɪn漢字d^ʒ"}},
		{"Short", "", "Short", 0, nil},
	} {
		got := Join(speech.Read(c.text, "en-us", nil), c.ipa)
		if c.text == "Strange" {
			c.want = "stɹˈAnʤ"
		}
		if strings.ReplaceAll(got.Phonemes, ",,", ",") != strings.ReplaceAll(c.want, ",,", ",") || strings.Join(got.Omitted, "|") != c.omitted || got.Dropped != c.dropped {
			t.Errorf("%q: %+v, want %q, %q, %d", c.text, got, c.want, c.omitted, c.dropped)
		}
	}
	l, err := speech.NewLexicon(map[string]string{"Kokoro": "/kəkˈoːɹoʊ/"})
	if err != nil {
		t.Fatal(err)
	}
	if got := Join(speech.Read("Hello, Kokoro!", "en-us", l), []string{"həlˈo^ʊ"}); got.Phonemes != "həlˈO, kəkˈɔɹO!" {
		t.Errorf("a pronunciation is %q", got.Phonemes)
	}
}

// FuzzFromEspeak holds that nothing breaks the tables, that ties are gone and that spaces are single.
func FuzzFromEspeak(f *testing.F) {
	for _, s := range []string{"həlˈo^ʊ", "bˈʌʔn̩", "(^f^r)bˈɔː(", "\u0329\u0329^", "lə- d^ʒ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ipa string) {
		if !utf8.ValidString(ipa) {
			return
		}
		for _, language := range []string{"en-us", "en-gb", "fr-fr"} {
			got := FromEspeak(ipa, language)
			if strings.ContainsAny(got, "^(") || strings.Contains(got, "  ") || strings.TrimSpace(got) != got {
				t.Fatalf("%q becomes %q", ipa, got)
			}
			ids, dropped := Tokens(got)
			if len(ids)-2+dropped != utf8.RuneCountInString(got) {
				t.Fatalf("%q: %d tokens and %d dropped", got, len(ids)-2, dropped)
			}
		}
	})
}

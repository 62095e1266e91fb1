// Package phoneme turns what a front end says of words into what a Kokoro model reads: eSpeak NG's phonetic alphabet into
// the model's, phonemes into the numbers of its vocabulary, and a number of tokens into the row of a voice's style.
//
// What is not in the vocabulary cannot be said. It is counted, never lost without a word.
//
//	p := phoneme.FromEspeak("həlˈo^ʊ wˈɜːld", "en-us") // "həlˈO wˈɜɹld"
//	ids, dropped := phoneme.Tokens(p)                  // 0, 50, 83, …, 0; nothing dropped
//	row := phoneme.StyleRow(len(ids) - 2)
package phoneme

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxTokens is the most tokens that the model takes at a time, without the two that enclose them.
const MaxTokens = 510

// Rows is the rows of a style pack, one for each number of tokens.
const Rows = 510

// vocabulary is the model's symbols and their numbers, from the config.json of hexgrad/Kokoro-82M.
var vocabulary = map[rune]int64{
	';': 1, ':': 2, ',': 3, '.': 4, '!': 5, '?': 6, '—': 9, '…': 10, '"': 11, '(': 12, ')': 13, '“': 14, '”': 15, ' ': 16,
	'\u0303': 17, 'ʣ': 18, 'ʥ': 19, 'ʦ': 20, 'ʨ': 21, 'ᵝ': 22, 'ꭧ': 23, 'A': 24, 'I': 25, 'O': 31, 'Q': 33, 'S': 35, 'T': 36,
	'W': 39, 'Y': 41, 'ᵊ': 42, 'a': 43, 'b': 44, 'c': 45, 'd': 46, 'e': 47, 'f': 48, 'h': 50, 'i': 51, 'j': 52, 'k': 53,
	'l': 54, 'm': 55, 'n': 56, 'o': 57, 'p': 58, 'q': 59, 'r': 60, 's': 61, 't': 62, 'u': 63, 'v': 64, 'w': 65, 'x': 66,
	'y': 67, 'z': 68, 'ɑ': 69, 'ɐ': 70, 'ɒ': 71, 'æ': 72, 'β': 75, 'ɔ': 76, 'ɕ': 77, 'ç': 78, 'ɖ': 80, 'ð': 81, 'ʤ': 82,
	'ə': 83, 'ɚ': 85, 'ɛ': 86, 'ɜ': 87, 'ɟ': 90, 'ɡ': 92, 'ɥ': 99, 'ɨ': 101, 'ɪ': 102, 'ʝ': 103, 'ɯ': 110, 'ɰ': 111,
	'ŋ': 112, 'ɳ': 113, 'ɲ': 114, 'ɴ': 115, 'ø': 116, 'ɸ': 118, 'θ': 119, 'œ': 120, 'ɹ': 123, 'ɾ': 125, 'ɻ': 126, 'ʁ': 128,
	'ɽ': 129, 'ʂ': 130, 'ʃ': 131, 'ʈ': 132, 'ʧ': 133, 'ʊ': 135, 'ʋ': 136, 'ʌ': 138, 'ɣ': 139, 'ɤ': 140, 'χ': 142, 'ʎ': 143,
	'ʒ': 147, 'ʔ': 148, 'ˈ': 156, 'ˌ': 157, 'ː': 158, 'ʰ': 162, 'ʲ': 164, '↓': 169, '→': 171, '↗': 172, '↘': 173, 'ᵻ': 177,
}

// Spelling is how a text is said.
type Spelling struct {
	Phonemes string   // in the model's alphabet, punctuation kept
	Dropped  int      // symbols that the alphabet lacks, left out
	Omitted  []string // words and spans of the text that are not said, in order
}

// Unsaid is what of the text is not said, in words: what was omitted, and how many symbols were dropped.
func (s Spelling) Unsaid() []string {
	if s.Dropped == 0 {
		return s.Omitted
	}
	return append(slices.Clip(s.Omitted), fmt.Sprintf("%d phonetic symbols", s.Dropped))
}

// Known says whether the model's vocabulary has a symbol.
func Known(r rune) bool { return vocabulary[r] != 0 }

// Tokens is the model's input for phonemes: their numbers between two zeros. Symbols that the vocabulary lacks are left out
// and counted. It does not cut: at most MaxTokens symbols fit the model.
func Tokens(phonemes string) (ids []int64, dropped int) {
	ids = make([]int64, 1, utf8.RuneCountInString(phonemes)+2)
	for _, r := range phonemes {
		if id := vocabulary[r]; id != 0 {
			ids = append(ids, id)
		} else {
			dropped++
		}
	}
	return append(ids, 0), dropped
}

// StyleRow is the row of a voice's style for a number of tokens, the enclosing zeros not counted: one less, within the pack.
// Other servers differ by one row, which is not audible.
func StyleRow(tokens int) int { return min(max(tokens-1, 0), Rows-1) }

// Mapping tables, each applied in one pass, the first match of a list wins. The tie ^ joins what eSpeak NG says as one
// sound. They follow the alphabet that the model was trained on, misaki's.
var (
	english = []string{
		"ʔˌn\u0329", "tᵊn", "ʔn\u0329", "tᵊn", "ʔn", "tᵊn", "ʔ", "t",
		"a^ɪ", "I", "a^ʊ", "W", "d^ʒ", "ʤ", "e^ɪ", "A", "t^ʃ", "ʧ", "ɔ^ɪ", "Y", "ə^l", "ᵊl",
		"ʲo", "jo", "ʲə", "jə", "ʲ", "", "ɚ", "əɹ", "r", "ɹ", "x", "k", "ç", "k", "ɐ", "ə", "ɬ", "l", "\u0303", "",
	}
	american = table([]string{"o^ʊ", "O", "ɜː^ɹ", "ɜɹ", "ɜːɹ", "ɜɹ", "ɜː", "ɜɹ", "ɪ^ə", "iə", "ɪə", "iə"}, english, []string{"ɾ", "T", "e", "A", "o", "ɔ", "ː", "", "g", "ɡ"})
	british  = table([]string{"e^ə", "ɛː", "i^ə", "ɪə", "iə", "ɪə", "ə^ʊ", "Q"}, english, []string{"e", "A", "o", "ɔ", "g", "ɡ"})
	other    = strings.NewReplacer(
		"a^ɪ", "I", "a^ʊ", "W", "d^z", "ʣ", "d^ʒ", "ʤ", "e^ɪ", "A", "o^ʊ", "O", "ə^ʊ", "Q", "s^s", "S", "t^s", "ʦ", "t^ʃ", "ʧ",
		"ɔ^ɪ", "Y", "g", "ɡ", "-", "")
)

func table(parts ...[]string) *strings.Replacer {
	return strings.NewReplacer(slices.Concat(parts...)...)
}

// FromEspeak is eSpeak NG's phonemes, with ^ as the tie, in the model's alphabet. Flags of a change of language, as in
// (fr)bɔ̃ʒuʁ(en), are no sounds. Symbols that the vocabulary lacks remain: Tokens counts them.
func FromEspeak(ipa, language string) string {
	ipa = syllabic(unflagged(ipa))
	switch language {
	case "en-us":
		ipa = american.Replace(ipa)
	case "en-gb":
		ipa = british.Replace(ipa)
	default:
		ipa = other.Replace(ipa)
	}
	return strings.Join(strings.Fields(refined.Replace(ipa)), " ")
}

// refined leaves out what only refines the symbol before it, and the ties that are left: the symbol itself is said.
var refined = strings.NewReplacer("^", "", "\u031e", "", "\u031d", "", "\u0308", "", "\u032a", "", "\u0329", "", "\u032f", "", "\u0361", "",
	"\u0303\u0303", "\u0303", "\u0325", "", "\u0330", "", "\u0348", "", "\u0306", "", "-", "", "_", "", "'", "")

// syllabic writes a consonant that is a syllable, which a mark after it says, with a weak vowel before it.
func syllabic(ipa string) string {
	if !strings.ContainsRune(ipa, '\u0329') {
		return ipa
	}
	var out []rune
	for _, r := range ipa {
		if n := len(out); r == '\u0329' && n > 0 {
			out = append(out[:n-1], 'ᵊ', out[n-1])
			continue
		}
		out = append(out, r)
	}
	return string(out)
}

// unflagged leaves out what stands in brackets.
func unflagged(ipa string) string {
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(ipa, "(")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		_, ipa, _ = strings.Cut(after, ")")
	}
}

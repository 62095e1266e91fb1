package speech

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reading is a sentence made ready for a front end of its language.
type Reading struct {
	Language string
	Spans    []Span
	Omitted  []string // what is in a script that the language does not read, in order
}

// Span is a part of a reading; one of its fields is set.
type Span struct {
	Words  string // to be pronounced
	Sounds string // phonetic symbols, as a caller wants a word said
	Mark   string // punctuation, a mark that a voice heeds
}

// Text is a reading in words, for a voice that reads text itself, and for people.
func (r Reading) Text() string {
	var b strings.Builder
	for _, s := range r.Spans {
		if m := s.Mark; b.Len() > 0 && (m == "" || strings.ContainsAny(m, "(“—")) && !strings.HasSuffix(b.String(), "(") && !strings.HasSuffix(b.String(), "“") {
			b.WriteByte(' ')
		}
		b.WriteString(s.Words + s.Sounds + s.Mark)
	}
	return b.String()
}

// Lexicon is how a caller wants words said. The zero Lexicon and nil have no words.
type Lexicon struct {
	entries map[string]Span // by word in lower case
	longest int             // words of an entry
}

// Limits of a lexicon.
const (
	maxEntries = 200
	maxEntry   = 128 // bytes of a word, or of how it is said
)

// NewLexicon takes pronunciations by word: other words to be said instead, or phonetic symbols between slashes, as in
// /kəkˈɔːɹoʊ/. Its error names the word that is wrong.
func NewLexicon(said map[string]string) (*Lexicon, error) {
	if len(said) > maxEntries {
		return nil, fmt.Errorf("%d pronunciations: at most %d", len(said), maxEntries)
	}
	l := &Lexicon{entries: make(map[string]Span)}
	for _, word := range slices.Sorted(maps.Keys(said)) {
		how := strings.TrimSpace(said[word])
		key := strings.Join(strings.Fields(strings.ToLower(word)), " ")
		sounds, slash := strings.CutPrefix(how, "/")
		sounds, close := strings.CutSuffix(sounds, "/")
		switch {
		case len(word) > maxEntry || len(how) > maxEntry:
			return nil, fmt.Errorf("the pronunciation of %.20q is too long: a word and how it is said have at most %d bytes each", word, maxEntry)
		case !utf8.ValidString(word + how):
			return nil, fmt.Errorf("the pronunciation of %.20q is not UTF-8", word)
		case !Speakable(key):
			return nil, fmt.Errorf("the pronunciation of %.20q: the word has no letter or digit", word)
		case slash != close:
			return nil, fmt.Errorf("the pronunciation of %.20q is %q: phonetic symbols stand between two slashes", word, how)
		case !Speakable(how):
			return nil, fmt.Errorf("the pronunciation of %.20q is %q, which has no sound", word, how)
		case slash && strings.IndexFunc(sounds, foreignSound) >= 0:
			return nil, fmt.Errorf("the pronunciation of %.20q is %q: between slashes stand phonetic symbols, stress marks and spaces", word, how)
		case slash:
			l.entries[key] = Span{Sounds: strings.Join(strings.Fields(sounds), " ")}
		default:
			l.entries[key] = Span{Words: Clean(how)}
		}
		l.longest = max(l.longest, 1+strings.Count(key, " "))
	}
	return l, nil
}

// foreignSound says that r is no phonetic symbol.
func foreignSound(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != ' ' && r != '^' && !strings.ContainsRune("ˈˌː", r)
}

// Read makes a sentence, cleaned, ready in a language: what the caller wants said otherwise, then what Normalise puts into
// words, cut at the marks that a voice heeds.
func Read(sentence, language string, l *Lexicon) Reading {
	r := Reading{Language: language}
	r.Spans = append(r.Spans, Span{Words: Normalise(sentence, language)})
	return r
}

// Normalise is a sentence, cleaned, as its words are said in a language.
func Normalise(sentence, language string) string { return sentence }

package speech

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"loadline/internal/speech/normal"
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
	open := true // no space is due
	for _, s := range r.Spans {
		if !open && s.Mark == "" {
			b.WriteByte(' ')
		}
		b.WriteString(s.Words + s.Sounds)
		open = false
		for _, m := range s.Mark {
			if strings.ContainsRune("(“—", m) && !open && b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteRune(m)
			open = m == '(' || m == '“'
		}
	}
	return b.String()
}

// Lexicon is how a caller wants words said. The zero Lexicon and nil have no words.
type Lexicon struct {
	entries map[string]Span // by word in lower case
	longest int             // words of an entry
}

// Phonetic says whether any of the words is to be said by phonetic symbols.
func (l *Lexicon) Phonetic() bool {
	if l != nil {
		for _, s := range l.entries {
			if s.Sounds != "" {
				return true
			}
		}
	}
	return false
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

// Read makes a sentence, cleaned, ready in a language: what the caller wants said otherwise, then what package normal puts into
// words, cut at the marks that a voice heeds.
func Read(sentence, language string, l *Lexicon) Reading {
	b := builder{r: Reading{Language: language}, scripts: reads[language]}
	if l == nil || len(l.entries) == 0 {
		b.text(normal.Words(sentence, language))
		b.flush()
		return b.r
	}
	words := strings.Fields(normal.Usual(sentence))
	from := 0 // words before are read
	for i := 0; i < len(words); {
		span, used := l.find(words[i:])
		if used == 0 {
			i++
			continue
		}
		b.text(normal.Words(strings.Join(words[from:i], " "), language))
		pre, _, _ := normal.Trim(words[i])
		b.text(pre)
		if span.Words != "" {
			b.text(normal.Words(span.Words, language))
		} else {
			b.flush()
			b.r.Spans = append(b.r.Spans, span)
		}
		i += used
		from = i
		_, _, post := normal.Trim(words[i-1])
		b.text(post)
	}
	b.text(normal.Words(strings.Join(words[from:], " "), language))
	b.flush()
	return b.r
}

// find is the entry for the words that a text begins with, the longest, and how many words it has.
func (l *Lexicon) find(words []string) (Span, int) {
	found, used := Span{}, 0
	key := ""
	for n := 0; n < min(len(words), l.longest); n++ {
		pre, core, post := normal.Trim(words[n])
		if n > 0 {
			if pre != "" {
				break
			}
			key += " "
		}
		key += strings.ToLower(core)
		if s, ok := l.entries[key]; ok {
			found, used = s, n+1
		}
		if post != "" || len(key) > maxEntry {
			break
		}
	}
	return found, used
}

// reads is the scripts that the front end of a language reads; it would say others as names of letters, or not at all.
var reads = map[string][]*unicode.RangeTable{
	"en-us": {unicode.Latin}, "en-gb": {unicode.Latin}, "es": {unicode.Latin}, "fr-fr": {unicode.Latin}, "it": {unicode.Latin}, "pt-br": {unicode.Latin},
	"hi": {unicode.Latin, unicode.Devanagari},
}

// builder makes spans of text.
type builder struct {
	r       Reading
	scripts []*unicode.RangeTable // nil: any
	words   []byte
	quoted  bool
	foreign []byte // words in a script that is not read, reported when others follow
}

// heeded are the marks that a voice heeds.
const heeded = ";:,.!?—…\"()“”"

var brackets = strings.NewReplacer("[", "(", "]", ")", "{", "(", "}", ")")

// text adds a text that package normal has made.
func (b *builder) text(s string) {
	s = brackets.Replace(s)
	for i, r := range s {
		after := s[i+utf8.RuneLen(max(r, 0)):]
		next, _ := utf8.DecodeRuneInString(after)
		switch {
		case strings.ContainsRune(heeded, r) && !(strings.ContainsRune(".,:", r) && len(b.words) > 0 && (unicode.IsLetter(next) || unicode.IsDigit(next))):
			b.mark(r)
		case r == ' ':
			b.space()
		case b.scripts == nil || unicode.Is(unicode.Common, r) || unicode.Is(unicode.Inherited, r) || unicode.In(r, b.scripts...):
			switch {
			case unicode.IsSymbol(r) && !(b.r.Language != "en-us" && b.r.Language != "en-gb" && r < 0x250 || strings.ContainsRune("€₹", r)), unicode.Is(unicode.Co, r):
				b.report()
				b.r.Omitted = append(b.r.Omitted, string(r))
				b.space()
			default:
				if len(b.foreign) > 0 && sounds(r) {
					b.report()
				}
				b.words = utf8.AppendRune(b.words, r)
			}
		default:
			b.foreign = utf8.AppendRune(b.foreign, r)
		}
	}
	b.space()
}

// report lists the foreign words that have come together.
func (b *builder) report() {
	if w := strings.TrimSpace(string(b.foreign)); w != "" {
		b.r.Omitted = append(b.r.Omitted, w)
	}
	b.foreign = b.foreign[:0]
}

func (b *builder) space() {
	for _, w := range []*[]byte{&b.words, &b.foreign} {
		if n := len(*w); n > 0 && (*w)[n-1] != ' ' {
			*w = append(*w, ' ')
		}
	}
}

// flush ends a span of words.
func (b *builder) flush() {
	b.report()
	if w := strings.TrimSpace(string(b.words)); Speakable(w) {
		b.r.Spans = append(b.r.Spans, Span{Words: w})
	}
	b.words = b.words[:0]
}

// mark adds a mark: one of a kind where several stand together, and none but an opening one before the first word.
func (b *builder) mark(r rune) {
	b.flush()
	if r == '"' {
		if r = '“'; b.quoted {
			r = '”'
		}
	}
	b.quoted = r == '“' || b.quoted && r != '”'
	n := len(b.r.Spans)
	if open := map[rune]string{')': "(", '”': "“"}[r]; open != "" && n > 0 && strings.HasSuffix(b.r.Spans[n-1].Mark, open) { // nothing is said within
		if b.r.Spans[n-1].Mark = strings.TrimSuffix(b.r.Spans[n-1].Mark, open); b.r.Spans[n-1].Mark == "" {
			b.r.Spans = b.r.Spans[:n-1]
		}
		return
	}
	switch {
	case n == 0 && r != '(' && r != '“':
	case n > 0 && b.r.Spans[n-1].Mark != "":
		if m := b.r.Spans[n-1].Mark; !strings.ContainsRune(m, r) && len(m) < 12 {
			b.r.Spans[n-1].Mark += string(r)
		}
	default:
		b.r.Spans = append(b.r.Spans, Span{Mark: string(r)})
	}
}

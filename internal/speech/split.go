package speech

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"loadline/internal/speech/normal"
)

// longSentence is the most characters of a sentence. Text without an end for so long is cut at a clause, a word, or, within
// a word, there.
const longSentence = 400

// Splitter cuts text that arrives in pieces into sentences, and these at their pauses. The zero Splitter is ready.
type Splitter struct {
	rest   string // not given out yet
	seen   scan   // of rest, what holds no end of a sentence
	tags   []string
	pause  time.Duration // before what comes next
	paused time.Duration // all of them
	silent bool          // pauses do nothing
}

// scan is how far a text was searched for the end of a sentence.
type scan struct {
	at     int  // bytes
	spoken bool // a letter or digit is among them
	space  int  // where the last space is, 0 if there is none
}

// mostTags is how many a Splitter keeps.
const mostTags = 20

// Tags is the first tags and directives that were taken from the text and do nothing, as they are written.
func (s *Splitter) Tags() []string { return s.tags }

// Sentences cuts a whole text. What cannot be spoken is left out, and so are pauses.
func Sentences(text string) []string {
	s := Splitter{silent: true}
	var out []string
	for _, p := range append(s.Write(text), s.Flush()...) {
		out = append(out, p.Text)
	}
	return out
}

// Write takes more text, and returns the sentences that are whole, cleaned. An end is believed once the text after it says
// so.
func (s *Splitter) Write(text string) []Part {
	s.rest += text
	return s.take(false)
}

// Flush returns what is left, as if the text ended here. A pause at its end is kept for what comes next.
func (s *Splitter) Flush() []Part { return s.take(true) }

// Whole says whether what is left ends like a sentence: it may be flushed if nothing more comes for a while.
func (s *Splitter) Whole() bool {
	t := strings.TrimRightFunc(s.rest, func(r rune) bool { return unicode.IsSpace(r) || closes(r) })
	r, _ := utf8.DecodeLastRuneInString(t)
	return ends(r) && Speakable(t) && (r != '.' || !abbreviated(t, ' '))
}

// Len is the bytes of text that are left.
func (s *Splitter) Len() int { return len(s.rest) }

func (s *Splitter) take(all bool) []Part {
	var out []Part
	for s.rest != "" {
		n, seen := end(s.rest, s.seen, all)
		if s.seen = seen; n == 0 {
			break
		}
		out = append(out, s.cut(s.rest[:n], func(clean string) (said []string) {
			for line := range strings.SplitSeq(clean, "\n") {
				said = append(said, capped(line)...)
			}
			return said
		})...)
		s.rest = s.rest[n:]
	}
	if s.rest == "" {
		s.rest = "" // lets go of the text behind it
	}
	return out
}

// end is where the first sentence of text ends, in bytes, of which from holds no end; 0 if none does, and then what need not
// be looked at again. With all, the end of the text is one.
func end(text string, from scan, all bool) (n int, seen scan) {
	spoken, space := from.spoken, from.space
	later := func(i int) (int, scan) { return 0, scan{i, spoken, space} }
	for i := from.at; i < len(text); {
		if i > 8*longSentence { // bytes: whatever comes, it is cut
			if space > 0 {
				return space, scan{}
			}
			return i, scan{}
		}
		if m := markup(text[i:]); m > 0 {
			i += m
			continue
		}
		if !all && partial(text[i:]) {
			return later(i)
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n':
			// A blank line, or an item of a list, ends a sentence; more of it may come.
			near := text[i+1 : min(len(text), i+1+longest)]
			next := strings.TrimLeft(near, " \t\r")
			if len(next) <= utf8.UTFMax && len(near) < longest && !all {
				return later(i)
			}
			if b, bsize := utf8.DecodeRuneInString(next); spoken && (next == "" || next[0] == '\n' || isBullet(b, next[bsize:])) {
				return i + 1, scan{}
			}
		case ends(r):
			stop, sure := past(text, i+size)
			if !sure && !all {
				return later(i)
			}
			if r == '.' && stop == i+size && initials(text[:i]) {
				word, whole := nextWord(text[stop:])
				if !whole && !all {
					return later(i)
				}
				if first, _ := utf8.DecodeRuneInString(word); unicode.IsUpper(first) && !normal.Starts(strings.ToLower(word)) { // the U.S. Army
					i = stop
					continue
				}
			}
			next, _ := utf8.DecodeRuneInString(after(text[stop:]))
			if spoken && (wide(r) || stop == len(text) || breaks(text, i, stop, next)) {
				return stop, scan{}
			}
			i = stop
			continue
		}
		i += size
		spoken = spoken || sounds(r)
		if unicode.IsSpace(r) {
			space = i - size
		}
	}
	if all {
		return len(text), scan{}
	}
	return later(len(text))
}

// past is where the marks that end a sentence, and the quotes and brackets that close with it, stop; sure if enough text
// follows to judge by.
func past(text string, i int) (stop int, sure bool) {
	for from := i; i < len(text) && i < from+longest; {
		r, size := utf8.DecodeRuneInString(text[i:])
		if n := markup(text[i:]); n > 0 && text[i+1] == '/' {
			size = n
		} else if !ends(r) && !closes(r) {
			break
		}
		i += size
	}
	if i < len(text) && partial(text[i:]) {
		return i, false
	}
	rest := after(text[i:])
	return i, rest != "" && utf8.FullRuneInString(rest) || len(text)-i >= longest
}

// initials says whether text ends with letters that have full stops between, as in U.S; times of day do not count.
func initials(text string) bool {
	n := len(text)
	if n < 3 || text[n-2] != '.' || !asciiLetter(text[n-1]) || !asciiLetter(text[n-3]) || text[n-1]|0x20 == 'm' && (text[n-3]|0x20 == 'a' || text[n-3]|0x20 == 'p') {
		return false
	}
	for n -= 3; n >= 2 && text[n-1] == '.' && asciiLetter(text[n-2]); n -= 2 {
	}
	before, _ := utf8.DecodeLastRuneInString(text[:n])
	return n == 0 || !isWord(before) && before != '.'
}

func asciiLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// nextWord is the word that text goes on with, and whether all of it is there.
func nextWord(text string) (word string, whole bool) {
	rest := after(text)
	n := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != utf8.RuneError })
	if n < 0 {
		return rest, len(text) >= longest
	}
	return rest[:n], true
}

// after is what is visible within reach of the start of text.
func after(text string) string {
	return strings.TrimLeftFunc(text[:min(len(text), longest)], unicode.IsSpace)
}

// breaks judges a mark at i of text, whose marks stop at stop, by what comes before and after.
func breaks(text string, i, stop int, next rune) bool {
	if r, _ := utf8.DecodeRuneInString(text[stop:]); !unicode.IsSpace(r) {
		return false // 3.14, example.org
	}
	lower := unicode.IsLower(next)
	switch marks := strings.TrimRightFunc(text[i:stop], closes); {
	case marks == ".":
		return !lower && !abbreviated(text[:i+1], next)
	case strings.HasSuffix(marks, ".") || strings.ContainsRune(marks, '…'): // an ellipsis
		return !lower
	default: // "Really?" she said
		return !lower || len(marks) == stop-i
	}
}

func ends(r rune) bool { return strings.ContainsRune(".!?…。！？।؟", r) && r != utf8.RuneError }

// wide marks end a sentence without a space after them.
func wide(r rune) bool { return strings.ContainsRune("。！？", r) }

func closes(r rune) bool { return strings.ContainsRune("\"'”’)]}»」』*_", r) }

// Words before a full stop that is not the end: of these never, of those only if a capital letter follows.
var (
	titles = strings.Fields("mr mrs ms dr prof st sr rev hon gen col lt sgt capt mt messrs mme vs fig figs no nos vol ch pp approx e.g i.e cf al ca")
	shorts = strings.Fields("etc inc ltd co corp jr a.m p.m u.s u.k ave blvd rd dept est jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun")
)

// abbreviated says whether the full stop that text ends with belongs to an abbreviation, an initial or a list number, given
// the next visible character.
func abbreviated(text string, next rune) bool {
	text = text[:len(text)-1]
	at := strings.LastIndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("([{\"'“‘*_", r) })
	_, size := utf8.DecodeRuneInString(text[max(0, at):])
	if at < 0 {
		size = 0
	}
	word := text[max(0, at)+size:]
	lower := strings.ToLower(word)
	letter, n := utf8.DecodeRuneInString(word)
	switch {
	case lower == "no" || lower == "nos":
		return unicode.IsDigit(next)
	case slices.Contains(titles, lower):
		return true
	case slices.Contains(shorts, lower):
		return !unicode.IsUpper(next) && !unicode.IsDigit(next) && next != ' '
	case n == len(word) && unicode.IsUpper(letter):
		return word != "I" // an initial
	default: // "1. First"
		return strings.TrimSpace(text[:max(0, at)]) == "" && word != "" && strings.Trim(word, "0123456789") == ""
	}
}

// capped cuts what is longer than a sentence may be.
func capped(sentence string) []string {
	if !Speakable(sentence) {
		return nil
	}
	return Pieces(strings.TrimSpace(sentence), Limits{Max: longSentence})
}

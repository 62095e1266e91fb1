// Package speech readies text for a voice: it cleans the text of what is not read aloud, cuts it into sentences, as it
// arrives or all at once, finds the pauses it asks for, and cuts sentences into the pieces that a server works on, a small one
// first.
//
// It does not know how anything is pronounced, nor how long it takes to say: sizes are characters, and their limits are
// those of the voice that asks.
//
//	var s speech.Splitter
//	s.Write("Hello, **Dr. Ray**. It is ")     // "Hello, Dr. Ray."
//	s.Write("9:30 a.m. [pause:1s] now")       // nothing yet: the sentence may go on
//	s.Flush()                                 // "It is 9:30 a.m.", and after a pause of 1 s "now"
//	speech.Pieces("Well, it is late, and we go.", speech.Limits{First: 6}) // "Well,", "it is late, and we go."
package speech

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean is the text as it is read aloud: tags, directives in brackets, marks of Markdown, emoji and invisible characters
// are gone, and odd spaces are spaces. A blank line and the start of a list item remain, as "\n". It is empty where nothing
// can be spoken.
func Clean(text string) string {
	if s := clean(text); Speakable(s) {
		return s
	}
	return ""
}

// clean is Clean of a text that may be marks alone.
func clean(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	var last rune // written last; 0 at the start
	prev := ' '   // read last
	gap, line := false, true
	breaks := 0
	put := func(r rune) {
		if last != 0 {
			switch {
			case breaks > 1:
				out.WriteByte('\n')
				last = '\n'
			case gap && last != '\n':
				out.WriteByte(' ')
				last = ' '
			}
		}
		gap, breaks, line = false, 0, false
		out.WriteRune(r)
		last = r
	}
	for i := 0; i < len(text); {
		if n := markup(text[i:]); n > 0 {
			i += n
			gap, prev = true, ' '
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		rest := text[i+size:]
		next, _ := utf8.DecodeRuneInString(rest)
		edge := rest == "" || unicode.IsSpace(next)
		i += size
		switch {
		case r == '\n' || r == '\u2028':
			breaks++
			gap, line = true, true
		case r == '\u2029':
			breaks += 2
			gap, line = true, true
		case unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError:
			gap = true
		case invisible(r):
			if (r == '\u200c' || r == '\u200d') && !gap && isWord(last) { // joiners shape letters
				if isWord(next) {
					put(r)
				}
			}
		case emoji(r):
			gap = true
		case line && isBullet(r, rest):
			breaks += 2
		case r == '`', r == '>' && line, r == '#' && (line || gap && (edge || next == '#')):
			gap = gap || r != '`'
		case mark(r):
			// Emphasis is silent; a sign between spaces or digits, and a mark inside a word, are not emphasis.
			switch before, after := isWord(prev), isWord(next); {
			case unicode.IsSpace(prev) && edge && r != '_', before && after && r != '*',
				unicode.IsDigit(prev) && unicode.IsDigit(next):
				put(r)
			}
		default:
			put(r)
		}
		prev = r
	}
	return out.String()
}

// Speakable says whether a text has anything in it that is read aloud.
func Speakable(text string) bool {
	return strings.IndexFunc(text, sounds) >= 0
}

func sounds(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// longest is how far the end of a tag may be from its start, in bytes: beyond, "<" is a sign.
const longest = 256

// markup is the length of the tag or directive that text begins with: "<break/>", "[pause:1s]"; 0 if it begins with none.
func markup(text string) int {
	closing := byte('>')
	switch {
	case strings.HasPrefix(text, "[pause") || strings.HasPrefix(text, "[break"):
		closing = ']'
	case len(text) < 3 || text[0] != '<' || !tagStart(text[1]):
		return 0
	}
	for i := 1; i < len(text) && i < longest; i++ {
		switch text[i] {
		case closing:
			return i + 1
		case text[0], '\n':
			return 0
		}
	}
	return 0
}

// partial says whether text, which is all there is so far, may begin with a tag or directive whose end is to come.
func partial(text string) bool {
	if len(text) >= longest || strings.ContainsAny(text[1:], "<[>]\n") {
		return false
	}
	for _, d := range []string{"[pause", "[break"} {
		if strings.HasPrefix(text, d) || strings.HasPrefix(d, text) {
			return true
		}
	}
	return text[0] == '<' && (len(text) == 1 || tagStart(text[1]))
}

func tagStart(c byte) bool {
	return c == '/' || c == '!' || c == '?' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) }

func mark(r rune) bool { return r == '*' || r == '_' || r == '~' }

// isBullet says whether r, first on its line and followed by rest, opens a list item.
func isBullet(r rune, rest string) bool {
	return strings.ContainsRune("-*+•‣–", r) && strings.HasPrefix(rest, " ")
}

func invisible(r rune) bool {
	return r == '\u00ad' || r == '\ufeff' || r >= '\u200b' && r <= '\u200f' || r >= '\u202a' && r <= '\u202e' ||
		r >= '\u2060' && r <= '\u206f' || r >= '\ufe00' && r <= '\ufe0f' || r >= 0xE0000 && r <= 0xE01EF
}

func emoji(r rune) bool {
	return r >= 0x1F000 && r <= 0x1FAFF || r >= 0x2600 && r <= 0x27BF || r >= 0x2B00 && r <= 0x2BFF || r == 0x20E3
}

package speech

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Part is what is spoken at a time: a sentence, or what of one stands between two pauses.
type Part struct {
	Pause time.Duration // of silence before it, whole milliseconds
	Text  string        // cleaned; "" only of the last part of a text that ends with a pause
	More  bool          // the sentence goes on with the next part
}

// Limits of pauses. What is beyond is no pause.
const (
	longestPause = 10 * time.Second
	allPauses    = 30 * time.Second // of a text
)

// strengths are the lengths of pauses by name, as SSML names them.
var strengths = map[string]time.Duration{
	"none": 0, "x-weak": 100 * time.Millisecond, "weak": 250 * time.Millisecond, "medium": 500 * time.Millisecond,
	"strong": time.Second, "x-strong": 2 * time.Second,
}

// pauseOf is the pause that a tag or directive asks for; ok is false of all others, and of a pause that is malformed or too
// long.
func pauseOf(tag string) (d time.Duration, ok bool) {
	if value, is := strings.CutPrefix(tag, "[pause:"); is {
		return length(strings.TrimSuffix(value, "]"))
	}
	rest, is := strings.CutPrefix(strings.TrimSuffix(strings.TrimSuffix(tag, ">"), "/"), "<break")
	if !is {
		return 0, false
	}
	d = strengths["medium"]
	var timed, strong bool
	for {
		trimmed := strings.TrimLeft(rest, " \t\r")
		if trimmed == "" {
			return d, true
		}
		name, value, after, is := attribute(trimmed)
		if !is || trimmed == rest { // nothing stands between it and what is before
			return 0, false
		}
		rest = after
		switch l, known := strengths[value]; {
		case name == "time" && !timed:
			if d, timed = length(value); !timed {
				return 0, false
			}
		case name == "strength" && !strong && known:
			if strong = true; !timed {
				d = l
			}
		default:
			return 0, false
		}
	}
}

// attribute is the name and the value that text begins with, as in XML, and what follows.
func attribute(text string) (name, value, rest string, ok bool) {
	name, rest, ok = strings.Cut(text, "=")
	rest = strings.TrimLeft(rest, " \t\r")
	if !ok || rest == "" || rest[0] != '"' && rest[0] != '\'' {
		return "", "", "", false
	}
	value, rest, ok = strings.Cut(rest[1:], rest[:1])
	return strings.TrimRight(name, " \t\r"), value, rest, ok
}

// length reads a time as SSML writes it, 800ms or 1.5s, to the millisecond.
func length(text string) (time.Duration, bool) {
	unit := time.Millisecond
	number, ok := strings.CutSuffix(text, "ms")
	if !ok {
		unit = time.Second
		if number, ok = strings.CutSuffix(text, "s"); !ok {
			return 0, false
		}
	}
	if number == "" || strings.Trim(number, "0123456789.") != "" || strings.HasSuffix(number, ".") {
		return 0, false
	}
	n, err := strconv.ParseFloat(number, 64)
	if n *= float64(unit); err != nil || n > float64(longestPause) {
		return 0, false
	}
	return time.Duration(n).Round(time.Millisecond), true
}

// Uncut is the parts of a whole text for a voice that takes texts whole: they are one sentence, cut at its pauses alone.
func (s *Splitter) Uncut(text string) []Part {
	parts := s.cut(text, func(clean string) []string {
		if clean = strings.TrimSpace(strings.ReplaceAll(clean, "\n", " ")); !Speakable(clean) {
			return nil
		}
		return []string{clean}
	})
	for i := range parts[:max(0, len(parts)-1)] {
		parts[i].More = true
	}
	return parts
}

// Pause is the silence that the text ends with. It is asked for once, after Flush or Uncut.
func (s *Splitter) Pause() time.Duration {
	d := s.pause
	s.pause = 0
	return d
}

// cut cleans a sentence, cuts it at its pauses and its parts by lines. It takes account of tags.
func (s *Splitter) cut(text string, lines func(clean string) []string) []Part {
	var out []Part
	add := func(text string) {
		text = clean(text)
		said := lines(text)
		for _, line := range said {
			if n := len(out); n > 0 && s.pause > 0 {
				out[n-1].More, out[n-1].Text = true, asClause(out[n-1].Text)
			}
			out = append(out, Part{Pause: s.pause, Text: line})
			s.pause = 0
		}
		if n := len(out); n > 0 && len(said) == 0 { // a full stop after a pause
			mark, size := utf8.DecodeRuneInString(strings.TrimSpace(text))
			if strings.ContainsRune(heeded, mark) && size > 0 && endsWithWord(out[n-1].Text) {
				out[n-1].Text += string(mark)
			}
		}
	}
	from := 0
	for i := 0; ; {
		n := strings.IndexAny(text[i:], "<[")
		if n < 0 {
			break
		}
		i += n
		if n = markup(text[i:]); n == 0 {
			i++
			continue
		}
		tag := text[i : i+n]
		d, ok := pauseOf(tag)
		switch {
		case !ok || s.paused+d > allPauses:
			if len(s.tags) < mostTags {
				s.tags = append(s.tags, tag)
			}
		case d > 0 && !s.silent:
			add(text[from:i])
			s.pause, s.paused = s.pause+d, s.paused+d
			from = i + n
		}
		i += n
	}
	add(text[from:])
	return out
}

// asClause is a text that ends as a clause does, where it would end with a word.
func asClause(text string) string {
	if endsWithWord(text) {
		return text + ","
	}
	return text
}

// endsWithWord says whether text ends with a word to which a comma or a full stop may be put.
func endsWithWord(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return isWord(r) && r < '\u2e80' && utf8.RuneCountInString(text) < longSentence
}

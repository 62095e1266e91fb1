// Package normal puts text into words: numbers, dates, money and what else is not written in words is, after the policy in
// doc/text.md. English is put into words whole; in other languages only marks are made usual, since front ends read their
// numbers.
//
// It takes text that is cleaned already, and does not know how words are pronounced.
//
//	normal.Words("It cost $5.50 on 6/13/2026.", "en-us") // "It cost five dollars and fifty cents on June thirteenth, twenty twenty six."
package normal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"loadline/internal/speech/number"
)

// Words is a text, cleaned, as its words are said in a language, en-us for one. It takes time in proportion to the text.
func Words(text, language string) string {
	text = strings.Join(strings.Fields(Usual(text)), " ")
	if language != "en-us" && language != "en-gb" {
		return text
	}
	n := normaliser{british: language == "en-gb"}
	for _, w := range strings.Fields(text) {
		n.words = append(n.words, newWord(w))
	}
	return n.run()
}

// Usual is a text whose marks, of other scripts and of several ways to write them, are the usual ones.
func Usual(text string) string { return usual.Replace(text) }

// usual makes the marks of other scripts, and those that are written in several ways, the usual ones.
var usual = strings.NewReplacer("’", "'", "‘", "'", "ʼ", "'", "`", "'", "´", "'", "„", "“", "«", "“", "»", "”", "″", "\"", "′", "'",
	"...", "…", "---", " — ", "--", " — ", "—", " — ", "―", " — ", "‒", "–", "−", "-", "‐", "-", "‑", "-", " – ", " — ", "…", "… ",
	"。", ". ", "．", ".", "！", "! ", "？", "? ", "，", ", ", "、", ", ", "；", "; ", "：", ": ", "「", " “", "」", "” ", "『", " “", "』", "” ",
	"（", " (", "）", ") ", "؟", "? ", "،", ", ", "।", ". ", "¿", "", "¡", "", "・", " ",
	"½", " 1/2", "⅓", " 1/3", "⅔", " 2/3", "¼", " 1/4", "¾", " 3/4", "⅛", " 1/8", "⅜", " 3/8", "⅝", " 5/8", "⅞", " 7/8",
	"ﬁ", "fi", "ﬂ", "fl", "ﬀ", "ff", "№", "No. ", "℃", "°C", "℉", "°F", "㎞", "km", "㎏", "kg", "Ω", "Ω", "µ", "μ",
	"™", "", "®", "", "©", " copyright ", "☎", "", "\t", " ")

// Marks around a word.
const (
	opening = "\"'“([{"
	closing = ".,;:!?…\"'”)]}"
)

// word is a part of a text between spaces.
type word struct {
	pre, core, post string // marks before, what is said, marks after
}

// Trim is a word without the marks around it, and those before and after.
func Trim(s string) (pre, core, post string) {
	w := newWord(s)
	return w.pre, w.core, w.post
}

func newWord(s string) word {
	core := strings.TrimLeft(s, opening)
	pre := s[:len(s)-len(core)]
	trimmed := strings.TrimRight(core, closing)
	return word{pre, trimmed, core[len(trimmed):]}
}

// normaliser goes through the words of a text.
type normaliser struct {
	words   []word
	british bool
	out     strings.Builder

	single        bool // within single quotes
	joined, joins bool // what is being said, and what was said last, joins what follows
}

func (n *normaliser) run() string {
	for i := 0; i < len(n.words); {
		n.quotes(&n.words[i])
		said, used := n.say(i)
		n.put(n.words[i].pre + said + n.words[i+used-1].post) // marks may be taken by what was said
		i += used
	}
	return n.out.String()
}

// quotes takes away single quotes, which no voice heeds, and leaves apostrophes.
func (n *normaliser) quotes(w *word) {
	if k := strings.IndexByte(w.pre, '\''); k >= 0 && !elided[strings.ToLower(w.core)] && number.Run(w.core) == 0 {
		w.pre, n.single = strings.ReplaceAll(w.pre, "'", ""), true
	}
	k := strings.IndexByte(w.post, '\'')
	if k > 0 || k == 0 && n.single {
		w.post, n.single = strings.ReplaceAll(w.post, "'", ""), false
	}
}

// elided are words that begin with an apostrophe.
var elided = wordSet("tis twas em cause bout til n cos round er tween nuff")

func (n *normaliser) put(s string) {
	if s == "" {
		return
	}
	if n.out.Len() > 0 && !n.joins {
		n.out.WriteByte(' ')
	}
	n.joins, n.joined = n.joined, false
	n.out.WriteString(s)
}

// at is a word by its place, an empty one outside of the text.
func (n *normaliser) at(i int) word {
	if i < 0 || i >= len(n.words) {
		return word{}
	}
	return n.words[i]
}

// follows is the core of the next word if nothing stands between it and word i.
func (n *normaliser) follows(i int) string {
	if n.at(i).post != "" || n.at(i+1).pre != "" {
		return ""
	}
	return n.at(i + 1).core
}

// say is how the words from i on are said, and how many of them that is, at least one. It may shorten the marks after them.
func (n *normaliser) say(i int) (string, int) {
	w := n.words[i]
	if w.core == "" {
		return "", 1
	}
	if letters(w.core) {
		if r, size := utf8.DecodeRuneInString(w.core); size == len(w.core) && greekLetter(r) != "" {
			return greekLetter(r), 1
		}
		if s, used := n.monthFirst(i); used > 0 {
			return s, used
		}
		if s := n.abbreviation(i); s != "" {
			return s, 1
		}
		if s := n.roman(i); s != "" {
			return s, 1
		}
		if s, used := n.coded(i); used > 0 {
			return s, used
		}
		if w.core == "x" && isDigits(n.at(i-1).core) && isDigits(n.at(i+1).core) {
			return "times", 1
		}
		return w.core, 1
	}
	if s := n.abbreviation(i); s != "" {
		return s, 1
	}
	if s, used := n.address(i); used > 0 {
		return s, used
	}
	if strings.ContainsAny(w.core, "0123456789") {
		if s, used := n.numeric(i); used > 0 {
			return s, used
		}
	}
	return n.mixed(i), 1
}

// letters says whether a word is made of letters alone, with apostrophes and hyphens within.
func letters(s string) bool {
	for i, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) && (r != '\'' && r != '-' || i == 0) || r == 'Ω' || r == 'μ' {
			return false
		}
	}
	return true
}

// signs are symbols that are said.
var signs = map[rune]string{
	'&': "and", '+': "plus", '=': "equals", '@': "at", '%': "percent", '×': "times", '÷': "divided by", '±': "plus or minus", '≈': "approximately",
	'≠': "is not equal to", '≤': "is at most", '≥': "is at least", '∞': "infinity", '√': "the square root of", '°': "degrees", '§': "section", '¶': "paragraph",
	'$': "dollars", '€': "euros", '£': "pounds", '¥': "yen", '₹': "rupees", '¢': "cents", '‰': "per thousand", '∑': "the sum of", '∆': "delta", 'Ω': "ohms", 'μ': "mu",
	'π': "pi", '¹': "one", '²': "squared", '³': "cubed", '#': "number", '*': "times", '<': "is less than", '>': "is greater than", '/': "slash", '\\': "backslash", '~': "about", '^': "to the power of",
	'₀': "zero", '₁': "one", '₂': "two", '₃': "three", '₄': "four", '₅': "five", '₆': "six", '₇': "seven", '₈': "eight", '₉': "nine",
	'→': "to", '_': "", '|': "", '•': "", '·': "", '-': "", '–': "",
}

var greek = strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau upsilon phi chi psi omega")

// greekLetter is a letter's name.
func greekLetter(r rune) string {
	switch r = unicode.ToLower(r); {
	case r >= 'α' && r <= 'ω':
		return greek[r-'α']
	case r == 'μ':
		return "mu"
	}
	return ""
}

// mixed is a word of letters with other characters among them, said part by part.
func (n *normaliser) mixed(i int) string {
	core := n.words[i].core
	before, after := n.at(i-1), n.at(i+1)
	switch core {
	case "—":
		if before.post+after.pre == "" && isDigits(before.core) && isDigits(after.core) {
			return "to"
		}
		return core
	case "-":
		if isDigits(before.core) && isDigits(after.core) {
			return "minus"
		}
		return ""
	case "~":
		return ""
	case "*":
		if i == 0 || i+1 == len(n.words) {
			return ""
		}
	case "C#", "F#":
		return core[:1] + " sharp"
	}
	if s := together[strings.ToLower(core)]; s != "" {
		return s
	}
	var out []string
	parts := 0
	for rest := core; rest != ""; parts++ {
		r, size := utf8.DecodeRuneInString(rest)
		k := 0
		switch {
		case unicode.IsLetter(r) || unicode.IsMark(r):
			k = strings.IndexFunc(rest, func(r rune) bool {
				return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '\'' && r != '-' || greekLetter(r) != "" && len(rest) == len(core)
			})
			if k == 0 {
				k = size
			}
			if k < 0 {
				k = len(rest)
			}
			part := strings.TrimRight(rest[:k], "-'")
			name := greekLetter(r)
			switch {
			case utf8.RuneCountInString(part) == 1 && name != "":
				part = name
			case part == "s" && parts > 0 && k == len(rest) && len(out) > 0: // MP3s
				out[len(out)-1], part = number.Plural(out[len(out)-1]), ""
			case k < len(rest) || parts > 0:
				part = code(part)
			}
			if part != "" {
				out = append(out, part)
			}
		case r >= '0' && r <= '9':
			k = strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
			if k < 0 {
				k = len(rest)
			}
			out = append(out, n.digits(rest[:k], parts > 0 || k < len(rest)))
		default:
			k = size
			if r == '.' && parts > 0 && k < len(rest) && rest[k] >= '0' && rest[k] <= '9' {
				out = append(out, "point")
			} else if r == '.' && k < len(rest) {
				out = append(out, "dot")
			} else if s, ok := signs[r]; ok {
				if s != "" {
					out = append(out, s)
				}
			} else if strings.ContainsRune(",;:!?—…\"()“”", r) && len(out) > 0 {
				out[len(out)-1] += string(r)
			} else if !unicode.IsPunct(r) && !unicode.IsControl(r) {
				out = append(out, string(r)) // for Read to report
			}
		}
		rest = rest[k:]
	}
	s := strings.Join(out, " ")
	if strings.HasPrefix(s, "A ") && strings.HasPrefix(core, "A") {
		s = "A-" + s[2:] // the letter, not the article
	}
	return s
}

// together is words with a stroke in them that are not said part by part.
var together = map[string]string{"and/or": "and or", "w/": "with", "w/o": "without", "b/c": "because", "n/a": "N-A", "c/o": "care of", "he/she": "he or she",
	"she/he": "she or he", "his/her": "his or her", "him/her": "him or her", "s/he": "she or he", "i/o": "I-O", "->": "to", "=>": "gives", "==": "equals", "!=": "is not equal to",
	"<=": "is at most", ">=": "is at least", "&&": "and", "||": "or", "**": "", "//": "", "<-": "", "<->": ""}

// code is letters beside digits or signs: a few capitals are letters, the rest is a word.
func code(part string) string {
	if len(part) <= 3 && strings.ToUpper(part) == part {
		return letterByLetter(part)
	}
	return part
}

// digits is a row of digits within a code.
func (n *normaliser) digits(d string, code bool) string {
	if code && (len(d) > 4 || len(d) > 1 && d[0] == '0') {
		return number.Spelled(d)
	}
	if code && len(d) == 4 {
		return number.Year(d, n.british)
	}
	if code && len(d) == 3 && d[1:] != "00" {
		if d[1] == '0' {
			return number.Small(int(d[0]-'0')) + " oh " + number.Small(int(d[2]-'0'))
		}
		return number.Small(int(d[0]-'0')) + " " + number.Small(number.Value(d[1:]))
	}
	return number.Cardinal(d, n.british)
}

// letterByLetter spells capitals: joined by hyphens, each is said by its name.
func letterByLetter(s string) string {
	var out []string
	for _, r := range s {
		if unicode.IsLetter(r) {
			out = append(out, strings.ToUpper(string(r)))
		}
	}
	return strings.Join(out, "-")
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func wordSet(words string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

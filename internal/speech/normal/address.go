package normal

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"loadline/internal/speech/number"
)

var (
	linkForm   = regexp.MustCompile(`^(?i:https?|ftp)://(\S+)$`)
	mailForm   = regexp.MustCompile(`^(?:mailto:)?[\w.+-]+@[\w-]+(?:\.[\w-]+)+$`)
	domainForm = regexp.MustCompile(`^(?:[A-Za-z0-9-]+\.)+([A-Za-z][A-Za-z0-9]+)(?::\d+)?(?:[/?#]\S*)?$`)
	pathForm   = regexp.MustCompile(`^~?(?:\.{0,2}/)[\w.-]+(?:/[\w.-]*)*$`)
	handleForm = regexp.MustCompile(`^[@#]([A-Za-z_]\w*)$`)
	joinedForm = regexp.MustCompile(`^(\pL{2,})\.(\p{Lu}\pL*)$`)
)

// longest is the most bytes of an address.
const longest = 256

// suffixes are the last parts of names of machines and files. Those of up to three letters that are not said as words are
// spelled.
var suffixes = wordSet(`com org net edu gov io ai dev app uk de fr es it jp cn in co us ca au eu info me tv xyz ly gg nl ch se no br ru pl
	go md txt py js ts html htm css json yaml yml pdf png jpg jpeg gif csv exe zip sh cpp rs java xml mp3 mp4 wav doc docx xlsx toml ini cfg log sql onnx bin`)

var spoken = wordSet("com org net gov go dev app info co me zip java log bin wav json in doc")

// address is what is said for a link, an address, the name of a machine or file; 0 if the word is none.
func (n *normaliser) address(i int) (string, int) {
	core := n.words[i].core
	if len(core) > longest || strings.IndexByte(core, '.') < 0 && strings.IndexByte(core, '/') < 0 && core[0] != '@' && core[0] != '#' {
		return "", 0
	}
	if m := linkForm.FindStringSubmatch(core); m != nil {
		return n.aloud(m[1]), 1
	}
	if m := handleForm.FindStringSubmatch(core); m != nil {
		if core[0] == '#' {
			return "hashtag " + n.aloud(m[1]), 1
		}
		return "at " + n.aloud(m[1]), 1
	}
	if mailForm.MatchString(core) {
		return n.aloud(strings.TrimPrefix(core, "mailto:")), 1
	}
	if m := domainForm.FindStringSubmatch(core); m != nil && suffixes[strings.ToLower(m[1])] && !dotted.MatchString(core) && (m[1] == strings.ToLower(m[1]) || core == strings.ToUpper(core)) {
		return n.aloud(core), 1
	}
	if pathForm.MatchString(core) && strings.Count(core, "/") > 0 && (strings.Count(core, "/") > 1 || core[0] == '/' || core[0] == '.') {
		return n.aloud(core), 1
	}
	if m := joinedForm.FindStringSubmatch(core); m != nil && m[1] != strings.ToUpper(m[1]) { // end.Next
		return m[1] + ". " + m[2], 1
	}
	return "", 0
}

var inAddress = map[rune]string{'.': "dot", '/': "slash", '-': "dash", '_': "underscore", '?': "question mark", '=': "equals", '&': "and", '@': "at", '#': "hash", ':': "colon", '%': "percent", '~': "tilde",
	'+': "plus", ',': "comma", ';': "semicolon", '!': "exclamation mark", '*': "star", '$': "dollar"}

// aloud is an address part by part.
func (n *normaliser) aloud(s string) string {
	s = strings.TrimRight(s, "/")
	var out []string
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		k := size
		switch {
		case unicode.IsLetter(r):
			if k = strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) }); k < 0 {
				k = len(rest)
			}
			part := rest[:k]
			low := strings.ToLower(part)
			after := len(out) > 0 && out[len(out)-1] == "dot"
			switch {
			case low == "www":
				part = "www"
			case after && suffixes[low] && !spoken[low] && len(part) <= 3 || part == strings.ToUpper(part) && len(part) <= 3 && len(part) > 1:
				part = letterByLetter(part)
			case low == "mp" && k < len(rest) && (rest[k] == '3' || rest[k] == '4'):
				part = "M-P"
			}
			out = append(out, part)
		case r >= '0' && r <= '9':
			k = number.Run(rest)
			out = append(out, n.digits(rest[:k], true))
		default:
			if name := inAddress[r]; name != "" {
				out = append(out, name)
			}
		}
		rest = rest[k:]
	}
	return strings.Join(out, " ")
}

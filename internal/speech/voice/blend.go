package voice

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"loadline/internal/speech"
)

// Part is a voice of a blend and its share.
type Part struct {
	Name  string
	Share float64 // above 0; those of a blend sum to 1
}

// Blend is the voices that are mixed, by name, each once.
type Blend []Part

// MaxParts is the most voices of a blend, those without weight included.
const MaxParts = 16

// SyntaxError is a blend that cannot be read.
type SyntaxError struct {
	At      int // bytes into the text, from 1
	Message string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("at character %d: %s", e.At, e.Message) }

// ParseBlend reads a voice's name, or several with "+" between, each with its weight in brackets or after a colon if it is
// not 1: "af_bella(2)+af_sky(1)", "af_bella:2+af_sky". Only shares count: (2) and (1) are (4) and (2). A voice of no weight
// is none. Its error is a *SyntaxError.
func ParseBlend(text string) (Blend, error) {
	weights := make(map[string]float64)
	at, parts, total := 1, 0, 0.0
	for part := range strings.SplitSeq(text, "+") {
		bad := func(in int, format string, args ...any) error {
			return &SyntaxError{At: at + in, Message: fmt.Sprintf(format, args...)}
		}
		if parts++; parts > MaxParts {
			return nil, bad(0, "a blend has at most %d voices", MaxParts)
		}
		n := strings.IndexFunc(part, func(r rune) bool { return !named(r) })
		if n < 0 {
			n = len(part)
		}
		name, rest := part[:n], part[n:]
		weight := 1.0
		switch {
		case name == "" || n > 64:
			return nil, bad(0, "a voice's name is expected, as in af_heart or af_bella(2)+af_sky(1)")
		case rest == "":
		case rest[0] == '(' && rest[len(rest)-1] != ')':
			return nil, bad(n, "a bracket is open: a weight is written as in %s(2)", name)
		case rest[0] == '(' || rest[0] == ':':
			number := strings.TrimSuffix(rest[1:], ")")
			if rest[0] == ':' {
				number = rest[1:]
			}
			var err error
			weight, err = strconv.ParseFloat(number, 64)
			switch {
			case err != nil || strings.Trim(number, "0123456789.-") != "":
				return nil, bad(n+1, "%.20q is not a weight: it is a number, as in %s(2)", number, name)
			case weight < 0 || weight > 1e6:
				return nil, bad(n+1, "a weight is from 0 to 1000000, not %v", weight)
			case weight > 0 && weight < 1e-6:
				return nil, bad(n+1, "a weight is 0 or at least 0.000001, not %v", weight)
			}
		default:
			return nil, bad(n, "%.20q does not belong to a voice's name: these have letters, digits, _ and -", rest)
		}
		weights[name] += weight
		total += weight
		at += len(part) + 1
	}
	if total == 0 {
		return nil, &SyntaxError{At: 1, Message: "every weight is 0: nothing is left to speak with"}
	}
	var b Blend
	for name, w := range weights {
		if w > 0 {
			// Rounded, so that the same shares are the same blend however they were written.
			b = append(b, Part{name, math.Round(w/total*1e9) / 1e9})
		}
	}
	slices.SortFunc(b, func(x, y Part) int { return strings.Compare(x.Name, y.Name) })
	return b, nil
}

func named(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// String is the blend as ParseBlend reads it.
func (b Blend) String() string {
	if len(b) == 1 {
		return b[0].Name
	}
	var parts []string
	for _, p := range b {
		parts = append(parts, p.Name+"("+strconv.FormatFloat(p.Share, 'f', -1, 64)+")")
	}
	return strings.Join(parts, "+")
}

// ErrMixed is a blend of voices of several languages, for which a request must name one.
var ErrMixed = errors.New("the voices of the blend speak different languages: give language")

// Language is the language that a blend speaks: the one that is asked for, else that of its voices. It is "" where their
// names tell none.
func (b Blend) Language(asked string) (string, error) {
	if asked != "" {
		return speech.Language(asked), nil
	}
	language := ""
	for i, p := range b {
		l := speech.VoiceLanguage(p.Name)
		if i > 0 && l != language {
			return "", ErrMixed
		}
		language = l
	}
	return language, nil
}

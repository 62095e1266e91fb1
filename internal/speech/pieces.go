package speech

import (
	"slices"
	"strings"
	"unicode"
)

// Limits are sizes of pieces in characters; 0 is no limit. First and Second are aims, met within half as much again where
// a clause or word ends; Max is kept.
type Limits struct {
	First, Second, Max int
}

// Pieces cuts a sentence into what is spoken at a time, at clauses where it can, else between words, and within a word only
// where that alone is longer than Max. Every piece can be spoken; joined by spaces, pieces cut between words are the
// sentence.
func Pieces(sentence string, l Limits) []string {
	var out []string
	rest := []rune(sentence)
	for len(rest) > 0 {
		aim := 0
		switch len(out) {
		case 0:
			aim = l.First
		case 1:
			aim = l.Second
		}
		most := len(rest)
		if l.Max > 0 {
			most = l.Max
		}
		if aim == 0 || aim > most {
			aim = most
		}
		n := len(rest)
		if 2*n > 3*aim || n > most { // what is left over must be worth a piece of its own
			n = cut(rest, aim, most)
		}
		piece := strings.TrimSpace(string(rest[:n]))
		rest = rest[n:]
		for len(rest) > 0 && unicode.IsSpace(rest[0]) {
			rest = rest[1:]
		}
		if !slices.ContainsFunc(rest, sounds) && (l.Max == 0 || n+len(rest) < l.Max) { // "—" is no piece
			piece, rest = strings.TrimSpace(piece+" "+string(rest)), nil
		}
		if Speakable(piece) {
			out = append(out, piece)
		}
	}
	return out
}

// cut is how many characters make a piece of about aim and at most most.
func cut(rest []rune, aim, most int) int {
	low, high := max(1, aim/2), min(aim+(aim+1)/2, most, len(rest)-1)
	clause, word, early := 0, 0, 0
	spoken := false
	near := func(best, n int) int {
		if best == 0 || abs(n-aim) < abs(best-aim) {
			return n
		}
		return best
	}
	for n := 1; n <= high; n++ {
		spoken = spoken || sounds(rest[n-1])
		if !spoken || !unicode.IsSpace(rest[n]) && !strings.ContainsRune("、，；：", rest[n-1]) {
			continue
		}
		switch {
		case n < low:
			early = n
		case strings.ContainsRune(",;:—–…、，；：)", rest[n-1]) || conjunction(rest[n:]):
			clause = near(clause, n)
		default:
			word = near(word, n)
		}
	}
	switch {
	case clause > 0:
		return clause
	case word > 0:
		return word
	case early > 0 && most < len(rest) && aim == most:
		return early
	}
	for n := high + 1; n <= min(most, len(rest)-1); n++ { // a long word: as far as it goes
		if spoken = spoken || sounds(rest[n-1]); spoken && unicode.IsSpace(rest[n]) {
			return n
		}
	}
	if early > 0 {
		return early
	}
	return min(most, len(rest))
}

var conjunctions = strings.Fields("and or but because which that who when while if so then")

// conjunction says whether text, which begins with a space, goes on with a word that opens a clause.
func conjunction(text []rune) bool {
	text = text[1:]
	n := slices.IndexFunc(text, unicode.IsSpace)
	return n > 0 && n <= 7 && slices.Contains(conjunctions, string(text[:n]))
}

func abs(n int) int { return max(n, -n) }

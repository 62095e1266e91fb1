package serve

import "unicode/utf8"

// omissions is what of a text was not said: how many words and symbols, and the first of them. It is written by the goroutine
// that speaks, and read once that has ended.
type omissions struct {
	count int
	list  []string
}

// Limits of what is listed.
const (
	maxOmissions = 20
	maxOmission  = 60 // bytes
)

func (o *omissions) add(more []string) {
	o.count += len(more)
	o.list = append(o.list, short(more[:min(len(more), maxOmissions-len(o.list))])...)
}

// short is words as they are listed, none too long.
func short(words []string) []string {
	var out []string
	for _, s := range words {
		if len(s) > maxOmission {
			n := maxOmission
			for !utf8.RuneStart(s[n]) {
				n--
			}
			s = s[:n] + "…"
		}
		out = append(out, s)
	}
	return out
}

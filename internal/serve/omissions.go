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
	for _, s := range more {
		if len(o.list) == maxOmissions {
			return
		}
		if len(s) > maxOmission {
			n := maxOmission
			for !utf8.RuneStart(s[n]) {
				n--
			}
			s = s[:n] + "…"
		}
		o.list = append(o.list, s)
	}
}

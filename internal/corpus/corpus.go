// Package corpus is the texts that a measurement speaks: shipped ones and the user's own, in an order drawn from a seed.
package corpus

import "loadline/internal/sample"

// Text is one text to speak.
type Text struct {
	ID    sample.TextID
	Body  string
	Chars int // runes of Body
}

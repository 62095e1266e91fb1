// Package corpus is the texts that a measurement speaks: shipped ones and the user's own, in an order drawn from a seed.
//
//	c, err := corpus.Named("default")
//	c.Shuffle(1234)
//	c.At(7).Body // the eighth text spoken, the same on every rung
//
// It reads what it is given as bytes; opening the user's file is left to the command.
package corpus

import (
	"math/rand/v2"
	"slices"

	"loadline/internal/sample"
)

// Text is one text to speak.
type Text struct {
	ID    sample.TextID
	Body  string
	Chars int // runes of Body
}

// Corpus is texts in the order in which they are spoken.
type Corpus struct {
	id    string
	texts []Text
}

// Stats describes the lengths of a corpus, in characters (runes).
type Stats struct {
	Texts     int
	CharsMean float64
	CharsP95  float64 // the smallest length that 95 % of the texts do not exceed
	CharsMin  int
	CharsMax  int
}

// ID names the corpus: that of a shipped one, or a file's base name and 8 hex digits of its content's SHA-256.
func (c *Corpus) ID() string { return c.id }

// Len is the number of texts, at least 1.
func (c *Corpus) Len() int { return len(c.texts) }

// Shuffle puts the texts in the order that the seed draws. It does not depend on an earlier shuffle.
func (c *Corpus) Shuffle(seed int64) {
	slices.SortFunc(c.texts, func(a, b Text) int { return a.ID.Index - b.ID.Index })
	r := rand.New(rand.NewPCG(uint64(seed), 0x636f72707573))
	r.Shuffle(len(c.texts), func(i, j int) { c.texts[i], c.texts[j] = c.texts[j], c.texts[i] })
}

// At is the text of request seq, from 0; after the last the first comes again.
func (c *Corpus) At(seq int) Text { return c.texts[seq%len(c.texts)] }

// Stats is the lengths of all texts.
func (c *Corpus) Stats() Stats {
	n := make([]int, len(c.texts))
	sum := 0
	for i, t := range c.texts {
		n[i] = t.Chars
		sum += t.Chars
	}
	slices.Sort(n)
	return Stats{
		Texts:     len(n),
		CharsMean: float64(sum) / float64(len(n)),
		CharsP95:  float64(n[(95*len(n)+99)/100-1]),
		CharsMin:  n[0],
		CharsMax:  n[len(n)-1],
	}
}

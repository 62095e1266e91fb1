package phoneme

import (
	"strings"
	"unicode"

	"loadline/internal/speech"
)

// tied ties what people write without a tie.
var tied = strings.NewReplacer("\u0361", "^", "aɪ", "a^ɪ", "aʊ", "a^ʊ", "eɪ", "e^ɪ", "oʊ", "o^ʊ", "ɔɪ", "ɔ^ɪ", "əʊ", "ə^ʊ", "dʒ", "d^ʒ", "tʃ", "t^ʃ")

// Join puts a reading together again: what the front end said of each of its words spans, in order, the sounds that the
// caller asked for, and the marks in between. What the front end said nothing of is reported.
func Join(r speech.Reading, ipa []string) Spelling {
	s := Spelling{Omitted: r.Omitted}
	var out strings.Builder
	open, said := true, false // no space is due; a word was said
	put := func(sounds string) {
		if !open {
			out.WriteByte(' ')
		}
		for _, c := range sounds {
			if Known(c) {
				out.WriteRune(c)
			} else {
				s.Dropped++
			}
		}
		open, said = false, true
	}
	for _, span := range r.Spans {
		switch {
		case span.Sounds != "":
			put(FromEspeak(tied.Replace(span.Sounds), r.Language))
		case span.Words != "":
			sounds := ""
			if len(ipa) > 0 {
				sounds, ipa = FromEspeak(ipa[0], r.Language), ipa[1:]
			}
			if strings.IndexFunc(sounds, Known) < 0 {
				s.Omitted = append(s.Omitted, span.Words)
				continue
			}
			put(sounds)
		default:
			for _, c := range span.Mark {
				switch {
				case !Known(c):
					s.Dropped++
					continue
				case strings.ContainsRune("(“", c) || c == '—' && said:
					if !open {
						out.WriteByte(' ')
					}
					open = c != '—'
				default:
					open = false
				}
				out.WriteRune(c)
			}
		}
	}
	s.Phonemes = strings.TrimSpace(out.String())
	if !said || strings.IndexFunc(s.Phonemes, unicode.IsLetter) < 0 {
		s.Phonemes = "" // marks alone are no speech
	}
	return s
}

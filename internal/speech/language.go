package speech

import "strings"

// Languages of Kokoro's voices by the first letter of their names.
var byLetter = map[byte]string{'a': "en-us", 'b': "en-gb", 'e': "es", 'f': "fr-fr", 'h': "hi", 'i': "it", 'j': "ja", 'p': "pt-br", 'z': "cmn"}

var aliases = map[string]string{
	"a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "j": "ja", "p": "pt-br", "z": "cmn",
	"en": "en-us", "fr": "fr-fr", "pt": "pt-br", "zh": "cmn", "zh-cn": "cmn", "es-es": "es", "it-it": "it", "ja-jp": "ja", "hi-in": "hi",
}

// VoiceLanguage is the language of a voice named as Kokoro's are, af_heart for one; "" if it is not.
func VoiceLanguage(voice string) string {
	if len(voice) > 3 && (voice[1] == 'f' || voice[1] == 'm') && voice[2] == '_' {
		return byLetter[voice[0]]
	}
	return ""
}

// Language is the usual name, en-us for one, of a language as requests write it: EN_US, en, a. Others are only put in lower
// case.
func Language(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	if l := aliases[name]; l != "" {
		return l
	}
	return name
}

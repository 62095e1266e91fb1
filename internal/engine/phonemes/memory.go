package phonemes

import "sync"

// memory keeps what was said of texts lately: greetings and prompts come again and again, and the program takes its time
// for each. It is two maps that take turns, so it is bounded, and what is in use stays.
type memory struct {
	mu            sync.Mutex
	recent, older map[string]string
}

// Limits of a memory: texts in each of its maps, and bytes of one, some 4 MB in all.
const (
	remembered = 2048
	memorable  = 500
)

func key(language, text string) string { return language + "\x00" + text }

// get is what was said of a text in a language, if that is still known.
func (m *memory) get(language, text string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := key(language, text)
	ipa, ok := m.recent[k]
	if !ok {
		if ipa, ok = m.older[k]; ok {
			m.put(k, ipa)
		}
	}
	return ipa, ok
}

// keep remembers what is said of a text.
func (m *memory) keep(language, text, ipa string) {
	if len(text) > memorable || len(ipa) > 3*memorable {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key(language, text), ipa)
}

func (m *memory) put(k, ipa string) {
	if len(m.recent) >= remembered {
		m.older, m.recent = m.recent, nil
	}
	if m.recent == nil {
		m.recent = make(map[string]string)
	}
	m.recent[k] = ipa
}

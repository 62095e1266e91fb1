package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"loadline/internal/speech"
)

var someCodecs = map[string]Codec{formatMP3: {"audio/mpeg", reversing}}

func FuzzRequestBody(f *testing.F) {
	for _, b := range []string{`{"text": "Hello."}`, `{"text": "a", "speed": 0.5, "stream": false, "format": "pcm", "voice": "v", "sample_rate": 24000}`,
		`{"text": "a", "format": "mp3"}`, `{"text": "a", "language": "EN_us", "pronunciations": {"a": "b"}}`, `{"text": "a", "format": "opus"}`, `{"text": 5}`, `[]`, `null`, ``, `{"text": "…"}`, `{"text": "a", "speed": 1e999}`, `{"TEXT": "a"}`, "{\"text\": \"\xff\"}"} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := parse(raw, someCodecs)
		if err != nil {
			var fa *fault
			if !errors.As(err, &fa) || fa.Status != 400 || fa.Code != CodeInvalid || fa.Field == "" || fa.Message == "" {
				t.Fatalf("not a proper refusal: %#v", err)
			}
			return
		}
		if speech.Clean(a.Text) == "" || a.Speed < minSpeed || a.Speed > maxSpeed {
			t.Fatalf("accepted %+v", a)
		}
		again, err := json.Marshal(map[string]any{"text": a.Text, "voice": a.Voice, "speed": a.Speed, "stream": a.stream, "format": a.format,
			"sample_rate": a.rate, "resume_at": a.resume, "language": a.Language})
		a.Lexicon = nil
		if err != nil {
			t.Fatal(err)
		}
		if b, err := parse(again, someCodecs); err != nil || b != a {
			t.Fatalf("%+v became %+v, %v", a, b, err)
		}
	})
}

// The page about the server names every code that a client may see, and every metric.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../doc/server.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{CodeSaturated, CodeStale, CodeInvalid, CodeTooLarge, CodeShutdown, CodeNotReady, CodeStuck, CodeLimit, CodeSynthesis, CodeNotFound, CodeBadMethod,
		msgText, msgFlush, msgEnd, msgInterrupt, msgClose, msgStart, msgSentence, msgProgress, msgComplete, msgInterrupted, msgError, trailerResume, trailerSamples, trailerSentences, trailerOmitted, trailerRemoved, Namespace}
	for _, m := range append(append([]metric(nil), perRequest...), perDocument...) {
		names = append(names, m.Name)
	}
	for _, n := range names {
		if !strings.Contains(string(page), "`"+n+"`") && !strings.Contains(string(page), `"`+n+`"`) {
			t.Errorf("doc/server.md does not name %s", n)
		}
	}
}

// What cannot be spoken is refused before the engine hears of it, at once; a silent sentence inside a text is left out.
func TestSilentTexts(t *testing.T) {
	var asked []string
	var mu sync.Mutex
	engine := &fake{sentences: true, say: func(r Request) *fakeUtterance {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Text)
		return blocks(1)
	}}
	s := start(t, Config{Engine: engine})
	for _, stream := range []bool{true, false} {
		for _, text := range []string{"", "   ", "\n\n", "...", "?!", "—", "\u200b", "\u00a0", "[pause:1s]", "<break time=\"1s\"/>", "🎉"} {
			body := fmt.Sprintf(`{"text": %q, "stream": %v}`, text, stream)
			best := time.Hour
			for range 5 {
				began := time.Now()
				w := call(s, "POST", "/invocations", body)
				best = min(best, time.Since(began))
				if w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"text"`) {
					t.Errorf("%s: %d %s", body, w.Code, w.Body)
				}
			}
			if best > 10*time.Millisecond {
				t.Errorf("%s: refused after %v", body, best)
			}
		}
	}
	if len(asked) > 0 {
		t.Errorf("the engine was asked for %q", asked)
	}
	for text, want := range map[string]int{"[pause:1] Hello": 1, "Hello\n\n\n\nworld": 2, "A1. B2. C3. … E5. F6. G7. H8. I9. J10.": 9} {
		asked = nil
		w := call(s, "POST", "/invocations", fmt.Sprintf(`{"text": %q}`, text))
		if w.Code != 200 || len(asked) != want || w.Body.Len() != 44+want*len(block100) {
			t.Errorf("%q: %d, %d bytes, spoken %q", text, w.Code, w.Body.Len(), asked)
		}
	}
}

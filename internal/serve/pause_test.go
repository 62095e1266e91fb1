package serve

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// laid is the sound of a script for spell: what is said, and in brackets the milliseconds of a pause.
func laid(script string) []byte {
	var out []byte
	for i := 0; i < len(script); i++ {
		if script[i] != '(' {
			out = append(out, bytes.Repeat([]byte{script[i], 1}, 2400)...)
			continue
		}
		end := i + strings.IndexByte(script[i:], ')')
		ms, err := strconv.Atoi(script[i+1 : end])
		if err != nil {
			panic(err)
		}
		out = append(out, make([]byte, 48*ms)...)
		i = end
	}
	return out
}

// A pause is silence of its exact length at its place, by every route, for voices that take sentences and for those that
// take texts.
func TestPauses(t *testing.T) {
	for _, c := range []struct {
		text, want, whole string // whole "": as want
		removed           int
	}{
		{`Hi <break time='800ms'/> you.`, "Hi,(800)you.", "", 0},
		{`Hi. <break/> You. [pause:1ms]`, "Hi.(500)You.(1)", "", 0},
		{`<break time='1.5s'/> [pause:10ms] Hi.`, "(1510)Hi.", "", 0},
		{`<p><s>Hi.</s> <break strength='x-strong'/> <s>You.</s></p> Now.`, "Hi.(2000)You.Now.", "Hi.(2000)You. Now.", 6},
		{`A [pause:9s] b [pause:9s] c [pause:9s] d [pause:9s] e [pause:1s] f [pause:11s].`, "A,(9000)b,(9000)c,(9000)d e,(1000)f .", "", 2},
	} {
		for _, whole := range []bool{false, true} {
			engine := spell()
			engine.sentences = !whole
			s := start(t, Config{Engine: engine, Ahead: -1})
			want := c.want
			if whole && c.whole != "" {
				want = c.whole
			}
			for path, body := range map[string]string{"/invocations": `{"text": %q, "format": "pcm", "stream": %v}`, pathSpeech: `{"input": %q, "response_format": "pcm", "stream": %v}`} {
				for _, stream := range []bool{false, true} {
					w := call(s, "POST", path, fmt.Sprintf(body, c.text, stream))
					if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), laid(want)) {
						t.Errorf("%s of %q, stream %v, whole %v: %d, %d bytes, want %d", path, c.text, stream, whole, w.Code, w.Body.Len(), len(laid(want)))
					}
					if got := w.Header().Get("X-Removed"); !stream && got != strconv.Itoa(c.removed) {
						t.Errorf("%q: X-Removed %s, want %d", c.text, got, c.removed)
					}
				}
			}
			p := dial(t, open(t, s).URL+sessionPath, nil)
			p.send(fmt.Sprintf(`{"text": %q}`, c.text))
			if m := p.until(24000, msgComplete); m.Samples != len(laid(want))/2 || !bytes.Equal(p.sound, laid(want)) {
				t.Errorf("%q in a session, whole %v: %+v, %d bytes", c.text, whole, m, len(p.sound))
			}
		}
	}
}

// Sentences are counted as if there were no pauses, and who resumes hears the pause before the sentence.
func TestPausesAreNoSentences(t *testing.T) {
	s := start(t, Config{Engine: spell(), Ahead: -1})
	const text = `One [pause:1s] and. [pause:2s] Two. [pause:3s] <break/>`
	for resume, want := range []string{"One,(1000)and.(2000)Two.(3500)", "(2000)Two.(3500)", ""} {
		w := call(s, "POST", "/invocations", fmt.Sprintf(`{"text": %q, "format": "pcm", "resume_at": %d}`, text, resume))
		if want == "" {
			if w.Code != 400 || !strings.Contains(w.Body.String(), "the text has 2 sentences") {
				t.Errorf("from %d on: %d %s", resume, w.Code, w.Body)
			}
		} else if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), laid(want)) {
			t.Errorf("from %d on: %d, %d bytes", resume, w.Code, w.Body.Len())
		}
	}
	p := dial(t, open(t, s).URL+sessionPath, nil)
	p.send(fmt.Sprintf(`{"text": %q}`, text))
	for i, want := range []string{"One,(1000)and.", "One,(1000)and.(2000)Two."} {
		if m := p.until(24000, msgSentence); m.Sentences != i+1 || m.Samples != len(laid(want))/2 {
			t.Errorf("sentence %d: %+v", i+1, m)
		}
	}
	if m := p.until(24000, msgComplete); m.Sentences != 2 || m.Samples != len(p.sound)/2 || m.Duration != 7.7 || !bytes.Equal(p.sound, laid("One,(1000)and.(2000)Two.(3500)")) {
		t.Errorf("complete %+v, %d bytes", m, len(p.sound))
	}
	p.sound = nil
	p.send(fmt.Sprintf(`{"text": %q, "resume_at": 1, "sample_rate": 8000}`, text))
	if m := p.until(8000, msgComplete); m.Sentences != 2 || m.Samples != 44000+4*800 {
		t.Errorf("resumed: %+v", m)
	}
	p.send(fmt.Sprintf(`{"text": %q, "resume_at": 2}`, text))
	if m := p.until(24000, msgError); m.Field != "resume_at" {
		t.Errorf("resumed beyond: %+v", m)
	}
}

// A pause may come in pieces, alone, and long before what follows.
func TestPausesOfALiveText(t *testing.T) {
	s := start(t, Config{Engine: spell(), Ahead: -1})
	p := dial(t, open(t, s).URL+sessionPath, nil)
	p.send(`{"type": "text", "text": "Hi. <bre"}`)
	p.send(`{"type": "text", "text": "ak time=\"1s\"/> You. [pau"}`)
	p.send(`{"type": "text", "text": "se:2s] Now"}`)
	p.send(`{"type": "end"}`)
	if m := p.until(24000, msgComplete); m.Sentences != 3 || !bytes.Equal(p.sound, laid("Hi.(1000)You.(2000)Now")) {
		t.Errorf("in pieces: %+v, %d bytes", m, len(p.sound))
	}
	p.sound = nil
	p.send(`{"type": "text", "text": "<break/>"}`)
	p.send(`{"type": "flush"}`)
	p.send(`{"type": "text", "text": "Hi."}`)
	p.send(`{"type": "flush"}`)
	p.until(24000, msgSentence)
	p.send(`{"type": "text", "text": "<break/>"}`)
	p.send(`{"type": "flush"}`)
	p.send(`{"type": "text", "text": "You. <break/>"}`)
	p.send(`{"type": "end"}`)
	if m := p.until(24000, msgComplete); m.Sentences != 2 || !bytes.Equal(p.sound, laid("(500)Hi.(500)You.(500)")) {
		t.Errorf("alone: %+v, %d bytes", m, len(p.sound))
	}
	p.sound = nil
	p.send(`{"type": "text", "text": "Hi."}`)
	p.send(`{"type": "flush"}`)
	p.until(24000, msgSentence)
	p.send(`{"type": "text", "text": "[pause:1s] <break/>"}`)
	p.send(`{"type": "end"}`)
	if m := p.until(24000, msgComplete); m.Sentences != 1 || !bytes.Equal(p.sound, laid("Hi.(1500)")) {
		t.Errorf("long after: %+v, %d bytes", m, len(p.sound))
	}
	p.sound = nil
	for _, text := range []string{"<break/>", "[pause:1s] … <break time='3s'/>"} {
		p.send(fmt.Sprintf(`{"text": %q}`, text))
		if m := p.until(24000, msgError); m.Field != "text" || len(p.sound) > 0 {
			t.Errorf("%q: %+v", text, m)
		}
	}
}

// Whatever is sent, half a minute is silent at most.
func TestPausesAreBounded(t *testing.T) {
	s := start(t, Config{Engine: &fake{sentences: true}, MaxBody: 4 << 20, Ahead: -1})
	for unit, silent := range map[string]int{"<break/>": 30, "<break": 0, "[pause:10s]": 30, "<break time='1e9s'/>": 0} {
		for _, path := range []string{"/invocations", pathSpeech} {
			text := strings.Repeat(unit, 1<<20/len(unit)) + " end"
			body := fmt.Sprintf(`{"text": %q, "input": %q, "format": "pcm", "response_format": "pcm"}`, text, text)
			began := time.Now()
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
			said := w.Body.Len() - silent*48000
			if w.Code != 200 || said <= 0 || unit != "<break" && said != len(block100) {
				t.Errorf("%s: %d, %d bytes beside the pauses", unit, w.Code, said)
			}
			if d := time.Since(began); d > time.Minute {
				t.Errorf("%s took %v", unit, d)
			}
		}
	}
}

// The listener hears a pause: what comes after it is not late while it lasts.
func TestPausesAreHeard(t *testing.T) {
	for text, underruns := range map[string]int{"One. Two.": 1, "One. [pause:1s] Two.": 0} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, Config{Engine: &fake{sentences: true, say: taking(500*time.Millisecond, 1)}})
			w := call(s, "POST", "/invocations", fmt.Sprintf(`{"text": %q}`, text))
			if w.Code != 200 || s.met.underruns != underruns {
				t.Errorf("%q: %d, %d underruns, want %d", text, w.Code, s.met.underruns, underruns)
			}
		})
	}
}

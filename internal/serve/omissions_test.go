package serve

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// omitting leaves out every word in capitals, and wants a language and a pronunciation.
type omitting struct{ fake }

type omittingUtterance struct {
	*fakeUtterance
	omitted []string
}

func (u *omittingUtterance) Omitted() []string { return u.omitted }

func (o *omitting) Prepare(ctx context.Context, r Request) (Utterance, error) {
	u := &omittingUtterance{fakeUtterance: blocks(1)}
	for _, w := range strings.Fields(r.Text) {
		if strings.ToUpper(w) == w {
			u.omitted = append(u.omitted, w)
		}
	}
	if r.Language != "" {
		u.omitted = append(u.omitted, r.Language)
	}
	return u, nil
}

// What an engine does not say is counted in a header, and listed in the last message.
func TestOmitted(t *testing.T) {
	s := start(t, Config{Engine: &omitting{fake{sentences: true}}})
	w := call(s, "POST", "/invocations", `{"text": "Say ABC <b>to</b> me. And DEF so.", "stream": false, "language": "EN_gb"}`)
	if got := w.Header().Get("X-Omitted"); w.Code != 200 || got != "4" || w.Header().Get("X-Removed") != "2" {
		t.Errorf("%d, X-Omitted %q", w.Code, got)
	}
	hs := open(t, s)
	req, err := http.NewRequestWithContext(t.Context(), "POST", hs.URL+"/invocations", strings.NewReader(`{"text": "Say ABC to me."}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("TE", "trailers")
	res, err := hs.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for b := make([]byte, 4096); err == nil; _, err = res.Body.Read(b) {
	}
	if got := res.Trailer.Get("X-Omitted"); got != "1" || res.Trailer.Get("X-Removed") != "0" {
		t.Errorf("the trailer X-Omitted is %q", got)
	}
	p := dial(t, hs.URL+sessionPath+"?language=fr", nil)
	p.send(`{"text": "Say ABC <br/> to me."}`)
	for {
		kind, b, err := p.c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if kind == websocket.MessageText && strings.Contains(string(b), msgComplete) {
			if !strings.Contains(string(b), `"omitted":["ABC","fr-fr"],"removed":["\u003cbr/\u003e"]`) {
				t.Errorf("the last message is %s", b)
			}
			return
		}
	}
}

func TestOmissionsAreBounded(t *testing.T) {
	var o omissions
	for range 3 {
		o.add(slices.Repeat([]string{strings.Repeat("ж", 1000)}, 15))
	}
	if o.count != 45 || len(o.list) != maxOmissions || len(o.list[0]) > maxOmission+3 || !utf8.ValidString(o.list[0]) {
		t.Errorf("%d, %d listed, the first %q", o.count, len(o.list), o.list[0])
	}
}

func TestPronunciationsAreChecked(t *testing.T) {
	s := start(t, Config{Engine: &fake{}})
	for body, field := range map[string]string{
		`{"text": "a", "pronunciations": {"a": "b", "c": "/d/"}}`:    "",
		`{"text": "a", "pronunciations": {"a": "/b"}}`:               "pronunciations",
		`{"text": "a", "pronunciations": {"...": "b"}}`:              "pronunciations",
		`{"text": "a", "pronunciations": {"a": "[[b]]/"}}`:           "pronunciations",
		`{"text": "a", "pronunciations": "b"}`:                       "pronunciations",
		`{"text": "a", "pronunciations": {"a": 5}}`:                  "pronunciations",
		`{"text": "a", "language": "../x"}`:                          "language",
		`{"text": "a", "language": 5}`:                               "language",
		`{"text": "a", "language": "pt-BR", "pronunciations": null}`: "",
	} {
		w := call(s, "POST", "/invocations", body)
		if got := w.Body.String(); field == "" && w.Code != 200 || field != "" && (w.Code != 400 || !strings.Contains(got, `"field":"`+field)) {
			t.Errorf("%s: %d %.200s", body, w.Code, got)
		}
	}
}

package speech

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"Hello.", "Hello."},
		{"  a\u00a0b\tc\r\n d ", "a b c d"},
		{"one\ntwo\n\n\nthree", "one two\nthree"},
		{"- one\n- two\n* three", "one\ntwo\nthree"},
		{"Hi <break time=\"800ms\"/> you", "Hi you"},
		{"<speak>Hi</speak>", "Hi"},
		{"[pause:1s] Hello", "Hello"},
		{"a < b and c > d", "a < b and c > d"},
		{"**bold** # head", "bold head"},
		{"# Title\ntext", "Title text"},
		{"> quoted `code` here", "quoted code here"},
		{"an *emphasis*, __strong__ and ~~gone~~", "an emphasis, strong and gone"},
		{"5 * 3, 2*3, snake_case, C#, #1", "5 * 3, 2*3, snake_case, C#, #1"},
		{"ok 👍🏽 👨‍👩‍👧 done", "ok done"},
		{"only 🎉", "only"},
		{"soft\u00adhyphen, zero\u200bwidth, \ufeffmark", "softhyphen, zerowidth, mark"},
		{"می\u200cخواهم", "می\u200cخواهم"},
		{"small group)—and then", "small group)—and then"},
		{"me@ex.org", "me@ex.org"},
		{"bell\a and\x00 nul", "bell and nul"},
		{"", ""}, {"   ", ""}, {"\n\n", ""}, {"...", ""}, {"?!", ""}, {"—", ""}, {"\u200b", ""}, {"\u00a0", ""}, {"<break/>", ""}, {"🎉", ""}, {"[pause:1s]", ""},
	} {
		if got := Clean(c.in); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
}

func TestTags(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "a < b > c [x]": nil, "<b>x</b> [pause:1m] <break time=\"1\"/>": {"<b>", "</b>", "[pause:1m]", "<break time=\"1\"/>"},
		strings.Repeat("<", 1<<20): nil, "<a<b>": {"<b>"}, strings.Repeat("<b>", 100): slices.Repeat([]string{"<b>"}, mostTags),
	} {
		var s Splitter
		s.Write(text)
		s.Flush()
		if got := s.Tags(); !slices.Equal(got, want) {
			t.Errorf("%.60q has %q, want %q", text, got, want)
		}
	}
	var s Splitter
	s.Write("Hi <bre")
	s.Write("ath/> you. <b>Now</b>.")
	s.Flush()
	if got := s.Tags(); !slices.Equal(got, []string{"<breath/>", "<b>", "</b>"}) {
		t.Errorf("a splitter took %q", got)
	}
}

func TestSentences(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"Hello.", []string{"Hello."}},
		{"Did it? No. It ran.", []string{"Did it?", "No.", "It ran."}},
		{"Dr. Lee met Mr. Ray at 9:30 a.m. today.", []string{"Dr. Lee met Mr. Ray at 9:30 a.m. today."}},
		{"Apples, pears, etc. Next one.", []string{"Apples, pears, etc.", "Next one."}},
		{"See No. 5 and fig. 3 of J. Smith. Then I go. So am I. Fine.", []string{"See No. 5 and fig. 3 of J. Smith.", "Then I go.", "So am I.", "Fine."}},
		{"It costs $9.99. Version 1.2.3 is at example.org. Done", []string{"It costs $9.99.", "Version 1.2.3 is at example.org.", "Done"}},
		{"\"Really?\" she said. \"Yes!\" Then nothing.", []string{"\"Really?\" she said.", "\"Yes!\"", "Then nothing."}},
		{"Wait... what? He left… and came back… Good.", []string{"Wait... what?", "He left… and came back…", "Good."}},
		{"1. First. 2. Second.", []string{"1. First.", "2. Second."}},
		{"line one\nline two\n\nline three", []string{"line one line two", "line three"}},
		{"Items:\n- one\n- two", []string{"Items:", "one", "two"}},
		{"こんにちは。元気ですか？はい", []string{"こんにちは。", "元気ですか？", "はい"}},
		{"One. … Two.", []string{"One.", "… Two."}},
		{"Hello\n\n\n\nworld", []string{"Hello", "world"}},
		{"Wait <break time=\"0.8s\"/> here. <b>Bold.</b> End.", []string{"Wait here.", "Bold.", "End."}},
		{"e.g. this, i.e. that. v1.0 is out.", []string{"e.g. this, i.e. that. v1.0 is out."}},
		{"The U.S. Army met the U.N. General Assembly in the U.S. It was late, at 9 p.m. We left.",
			[]string{"The U.S. Army met the U.N. General Assembly in the U.S.", "It was late, at 9 p.m.", "We left."}},
		{"?! … —", nil},
		{"", nil},
	} {
		if got := Sentences(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}

// A sentence is given out as soon as what follows proves its end, and not before.
func TestSplitterHoldsBack(t *testing.T) {
	var s Splitter
	for _, step := range []struct {
		in, out string
		whole   bool
	}{
		{"Hello", "", false}, {".", "", true}, {" ", "", true}, {"It", "Hello.", false}, {" is 3.", "", true},
		{"14 now. <bre", "It is 3.14 now.", false}, {"ak/>And", "", false}, {" so Dr.", "", false}, {" Ray.\n\n", "", true}, {"Next one", "And so Dr. Ray.", false},
	} {
		if got := strings.Join(texts(s.Write(step.in)), "|"); got != step.out || s.Whole() != step.whole {
			t.Errorf("after %q: %q, whole %v; want %q, %v", step.in, got, s.Whole(), step.out, step.whole)
		}
	}
	if got := texts(s.Flush()); !slices.Equal(got, []string{"Next one"}) || s.Len() != 0 {
		t.Errorf("flush: %q", got)
	}
}

func TestPieces(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("alpha bravo charlie ", 20))
	for _, c := range []struct {
		in   string
		l    Limits
		want []string
	}{
		{"Hello.", Limits{First: 17}, []string{"Hello."}},
		{"Well, it is late, and we go.", Limits{First: 6}, []string{"Well,", "it is late, and we go."}},
		{"The first piece is small because a listener waits for it, the next is longer, and the rest comes whole.", Limits{First: 17, Second: 34},
			[]string{"The first piece is small", "because a listener waits for it,", "the next is longer, and the rest comes whole."}},
		{"Nothing to gain here.", Limits{First: 17}, []string{"Nothing to gain here."}},
		{long, Limits{Max: 150}, []string{long[:145], long[146:291], long[292:]}},
		{strings.Repeat("x", 25), Limits{Max: 10}, []string{"xxxxxxxxxx", "xxxxxxxxxx", "xxxxx"}},
		{"私の名前は、あゆみです、よろしく。", Limits{First: 6}, []string{"私の名前は、", "あゆみです、よろしく。"}},
		{"And then he said — — — !", Limits{First: 10}, []string{"And then he", "said — — — !"}},
	} {
		if got := Pieces(c.in, c.l); !slices.Equal(got, c.want) {
			t.Errorf("%q by %+v:\n got %q\nwant %q", c.in, c.l, got, c.want)
		}
	}
}

// Long text loses no word, whatever it is made of, and takes no long time.
func TestNothingIsLost(t *testing.T) {
	for name, text := range map[string]string{
		"no punctuation": strings.Repeat("alpha bravo charlie ", 200),
		"sentences":      strings.Repeat("ten words are in this sentence, more or less, roughly. ", 2000),
		"one token":      strings.Repeat("x", 3000),
		"japanese":       strings.Repeat("私の名前はあゆみです、よろしく。", 25),
		"megabyte":       strings.Repeat("a. b! <c ", 1<<20/9),
		"marks":          strings.Repeat("! ", 1<<19) + "a",
		"newlines":       strings.Repeat("\n \n", 1<<18) + "a",
		"brackets":       strings.Repeat("<a<[pause", 1<<16) + "b",
	} {
		began := time.Now()
		letters := func(s string) string {
			return strings.Map(func(r rune) rune {
				if sounds(r) {
					return r
				}
				return -1
			}, s)
		}
		var got strings.Builder
		for _, s := range Sentences(text) {
			if n := utf8.RuneCountInString(s); n > longSentence {
				t.Errorf("%s: a sentence of %d characters", name, n)
			}
			for _, p := range Pieces(s, Limits{First: 17, Second: 34, Max: 200}) {
				if !Speakable(p) || utf8.RuneCountInString(p) > 200 {
					t.Errorf("%s: piece %q", name, p)
				}
				got.WriteString(letters(p))
			}
		}
		if want := letters(text); got.String() != want {
			t.Errorf("%s: %d letters of %d", name, got.Len(), len(want))
		}
		if d := time.Since(began); d > time.Minute {
			t.Errorf("%s took %v", name, d)
		}
	}
}

func texts(parts []Part) (out []string) {
	for _, p := range parts {
		out = append(out, p.Text)
	}
	return out
}

// FuzzSentences holds that text cut anywhere on its way gives the same sentences and pauses, that each can be spoken and is
// clean, and that pieces keep every letter.
func FuzzSentences(f *testing.F) {
	for _, s := range []string{"Hello. How are you?", "Dr. Lee met J. Ray, 3.14 <b>and</b> so on... \n\n- one\n- two", "「はい。」と[pause:1s]言った。No. 5!", "a *b* _c_ # d\n> e `f` 👍 <x y.z", "\u2029.\u00a0a\n•  b", "U.S. Army U.S. It, U.S.", "x.a. B.c.d. E",
		"A <break time='1s'/>b, [pause:9s]<break/>. <b>c.</b> <break strength=\"none\"/>D <break time=\"20s\"/> e", "<b>.a"} {
		f.Add(s, uint8(3), uint8(5))
	}
	f.Add("a."+strings.Repeat(" ", 1000)+"b!"+strings.Repeat("!", 1000)+"\n"+strings.Repeat(" ", 500)+"\nc", uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, text string, step, first uint8) {
		if !utf8.ValidString(text) {
			return
		}
		var all, s Splitter
		whole := append(all.Write(text), all.Flush()...)
		var got []Part
		for rest := []rune(text); len(rest) > 0; {
			n := min(len(rest), 1+int(step))
			got = append(got, s.Write(string(rest[:n]))...)
			rest = rest[n:]
		}
		got = append(got, s.Flush()...)
		if !slices.Equal(got, whole) || !slices.Equal(s.Tags(), all.Tags()) {
			t.Fatalf("in steps of %d:\n got %+v\nwant %+v", 1+int(step), got, whole)
		}
		paused, more := s.Pause(), false
		if paused != all.Pause() {
			t.Fatal("the last pause differs")
		}
		for _, part := range whole {
			paused, more = paused+part.Pause, part.More
			sentence := part.Text
			if !Speakable(sentence) || strings.TrimSpace(sentence) != sentence || utf8.RuneCountInString(sentence) > longSentence {
				t.Fatalf("sentence %q", sentence)
			}
			joined := strings.Join(Pieces(sentence, Limits{First: int(first), Second: 2 * int(first)}), "")
			if strip := strings.NewReplacer(" ", "", "\u00a0", ""); strip.Replace(joined) != strip.Replace(sentence) {
				t.Fatalf("%q became %q", sentence, joined)
			}
		}
		if paused > allPauses || more {
			t.Fatalf("%v of pauses, and the last part goes on: %v", paused, more)
		}
	})
}

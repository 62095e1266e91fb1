package speech

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// show writes parts as the golden file has them: pauses in brackets, "|" between sentences, "+" within one.
func show(parts []Part, last time.Duration, tags []string) string {
	var out strings.Builder
	between := ""
	for _, p := range parts {
		out.WriteString(between)
		if p.Pause > 0 {
			fmt.Fprintf(&out, "(%v) ", p.Pause)
		}
		out.WriteString(p.Text)
		if between = " | "; p.More {
			between = " + "
		}
	}
	if last > 0 {
		fmt.Fprintf(&out, " (%v)", last)
	}
	if len(tags) > 0 {
		fmt.Fprintf(&out, " removed: %s", strings.Join(tags, " "))
	}
	return strings.TrimSpace(out.String())
}

// Every line of the golden file is a text, and after " => " its parts; the line below, indented, is what a voice gets that takes
// texts whole, where that differs.
func TestPauses(t *testing.T) {
	const file = "testdata/pauses.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "    whole") {
			continue
		}
		text, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " => ")
		var s, whole Splitter
		parts := append(s.Write(text), s.Flush()...)
		said := show(parts, s.Pause(), s.Tags())
		fmt.Fprintf(&out, "%s => %s\n", text, said)
		parts = whole.Uncut(text)
		if other := show(parts, whole.Pause(), whole.Tags()); other != said {
			fmt.Fprintf(&out, "    whole => %s\n", other)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if out.String() != string(b) {
		t.Errorf("%s should be:\n%s", file, out.String())
	}
}

// A pause stands where it was written, whatever its tag is cut into.
func TestPauseCutInTwo(t *testing.T) {
	const text = `One <break time="1s"/> two. [pause:2s] Three.`
	want := []Part{{Text: "One,", More: true}, {Pause: time.Second, Text: "two."}, {Pause: 2 * time.Second, Text: "Three."}}
	for at := range text {
		var s Splitter
		got := append(s.Write(text[:at]), s.Write(text[at:])...)
		if got = append(got, s.Flush()...); !slices.Equal(got, want) {
			t.Errorf("cut at %d: %+v", at, got)
		}
	}
}

// Whatever is sent, no more than 30 s are silent, and a megabyte takes no long time.
func TestPausesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		unit   string
		paused time.Duration
	}{
		"open":       {"<break", 0},
		"breaks":     {"<break/>", allPauses},
		"words":      {"a <break time=\"1ms\"/>", allPauses},
		"sentences":  {"A. <break time=\"7s\"/>", 28 * time.Second},
		"brackets":   {"[pause:10s]", allPauses},
		"over":       {"[pause:11s]", 0},
		"attributes": {"<break time='1s' a=\"", 0},
		"none":       {"<break strength='none'/>", 0},
	} {
		text := strings.Repeat(c.unit, 1<<20/len(c.unit)) + " end"
		began := time.Now()
		var s, whole Splitter
		paused := func(parts []Part, last time.Duration) time.Duration {
			for _, p := range parts {
				last += p.Pause
			}
			return last
		}
		parts := append(s.Write(text), s.Flush()...)
		if got := paused(parts, s.Pause()); got != c.paused || len(s.Tags()) > mostTags {
			t.Errorf("%s: %v of pauses, %d tags", name, got, len(s.Tags()))
		}
		parts = whole.Uncut(text)
		if got := paused(parts, whole.Pause()); got != c.paused {
			t.Errorf("%s: %v of pauses of a whole text", name, got)
		}
		if d := time.Since(began); d > time.Minute {
			t.Errorf("%s took %v", name, d)
		}
	}
}

// FuzzPause holds that a pause written as a tag is the pause that is read, and that whatever is read is within bounds and is read
// alike when it is written anew.
func FuzzPause(f *testing.F) {
	for _, s := range []string{`<break time="800ms"/>`, `<break strength='x-strong' time = ".5s" >`, "<break/>", "[pause:1s]", `<break time="1e9s"/>`, `<break time="-1s"/>`, "<break time=\"1s\"strength=\"weak\"/>"} {
		f.Add(s, uint16(1500))
	}
	f.Fuzz(func(t *testing.T, tag string, ms uint16) {
		d := time.Duration(ms%10001) * time.Millisecond
		for _, written := range []string{fmt.Sprintf(`<break time="%dms"/>`, d.Milliseconds()), fmt.Sprintf("<break  time='%.3fs' >", d.Seconds()), fmt.Sprintf("[pause:%.3fs]", d.Seconds())} {
			if got, ok := pauseOf(written); got != d || !ok {
				t.Fatalf("%s is %v, %v", written, got, ok)
			}
		}
		got, ok := pauseOf(tag)
		if got < 0 || got > longestPause || got != got.Round(time.Millisecond) || !ok && got != 0 {
			t.Fatalf("%q is %v, %v", tag, got, ok)
		}
		if again, _ := pauseOf(fmt.Sprintf("[pause:%dms]", got.Milliseconds())); again != got {
			t.Fatalf("%q is %v, then %v", tag, got, again)
		}
	})
}

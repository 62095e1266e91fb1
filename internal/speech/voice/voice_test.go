package voice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"loadline/internal/speech/phoneme"
)

// pack is one whose numbers are all f, but for the row's own number in front.
func pack(f float32) []byte {
	b := make([]byte, Size)
	for i := range Size / 4 {
		v := f
		if i%Width == 0 {
			v = float32(i / Width)
		}
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

// folder counts what is opened.
type folder struct {
	fstest.MapFS
	opened []string
}

func (f *folder) Open(name string) (fs.File, error) {
	f.opened = append(f.opened, name)
	return f.MapFS.Open(name)
}

func library(t *testing.T, keep int) (*Library, *folder) {
	t.Helper()
	f := &folder{MapFS: fstest.MapFS{"README.md": {Data: []byte("voices")}, "no name.bin": {Data: []byte("x")}, "sub/af_deep.bin": {Data: pack(9)}}}
	for i, name := range []string{"af_heart", "af_bella", "af_sky", "af_nicole", "af_jessica", "jf_alpha", "bm_george"} {
		f.MapFS[name+".bin"] = &fstest.MapFile{Data: pack(float32(i + 1))}
	}
	l, err := Open(f, keep)
	if err != nil {
		t.Fatal(err)
	}
	return l, f
}

func TestBlends(t *testing.T) {
	l, f := library(t, 8)
	listed := len(f.opened)
	for _, c := range []struct{ in, want, err string }{
		{"af_heart", "af_heart", ""},
		{"af_bella(2)+af_sky(1)", "af_bella(0.666666667)+af_sky(0.333333333)", ""},
		{"af_bella(4)+af_sky(2)", "af_bella(0.666666667)+af_sky(0.333333333)", ""},
		{"af_sky(1)+af_bella(2)", "af_bella(0.666666667)+af_sky(0.333333333)", ""},
		{"af_bella:2+af_sky", "af_bella(0.666666667)+af_sky(0.333333333)", ""},
		{"af_bella+af_sky", "af_bella(0.5)+af_sky(0.5)", ""},
		{"af_bella+af_bella", "af_bella", ""},
		{"af_heart(2.2)+af_nicole(2.8)+af_jessica(1.5)", "af_heart(0.338461538)+af_jessica(0.230769231)+af_nicole(0.430769231)", ""},
		{"af_bella(0)+af_sky(1)", "af_sky", ""},
		{"af_bella(-1)+af_sky(2)", "", "at character 10: a weight is from 0 to 1000000, not -1"},
		{"af_bella(0)+af_sky(0)", "", "at character 1: every weight is 0"},
		{"af_bella(2", "", "at character 9: a bracket is open"},
		{"+af_sky", "", "at character 1: a voice's name is expected"},
		{"af_sky+", "", "at character 8: a voice's name is expected"},
		{"", "", "at character 1: a voice's name is expected"},
		{"af_sky(x)", "", `at character 8: "x" is not a weight`},
		{"af_sky(Inf)", "", `at character 8: "Inf" is not a weight`},
		{"af_sky(NaN)", "", `at character 8: "NaN" is not a weight`},
		{"af_sky(1e3)", "", `at character 8: "1e3" is not a weight`},
		{"af_sky()", "", `at character 8: "" is not a weight`},
		{"af_sky(1)x", "", "at character 7: a bracket is open"},
		{"af_sky(9999999)", "", "at character 8: a weight is from 0"},
		{"../../etc/passwd", "", "at character 1: a voice's name is expected"},
		{"af_sky/../x", "", `at character 7: "/../x" does not belong`},
		{"af sky", "", `at character 3: " sky" does not belong`},
		{"ballad", "", `no voice is named "ballad"`},
		{"AF_BELLA", "", `no voice is named "AF_BELLA": near it are af_bella`},
		{"af_bela", "", `near it are af_bella`},
		{"bella", "", `near it are af_bella`},
		{"af_deep", "", `no voice is named "af_deep"`},
		{"sub-af_deep", "", `no voice is named "sub-af_deep"`},
		{strings.Repeat("af_sky+", 39) + "af_sky", "", "at most 16 voices"},
		{strings.Repeat("a", 100), "", "a voice's name is expected"},
		{"af_sky\x00", "", "does not belong"},
	} {
		b, err := ParseBlend(c.in)
		if err == nil {
			err = l.Check(b)
		}
		switch {
		case c.err == "" && (err != nil || b.String() != c.want):
			t.Errorf("%q is %q, %v; want %q", c.in, b, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: %v, want %q", c.in, err, c.err)
		}
	}
	if len(f.opened) != listed {
		t.Errorf("names of requests were opened: %v", f.opened[listed:])
	}
}

func TestBlendLanguage(t *testing.T) {
	for _, c := range []struct{ blend, asked, want string }{
		{"af_bella", "", "en-us"}, {"bm_george", "", "en-gb"}, {"jf_alpha", "", "ja"}, {"af_bella+af_sky", "", "en-us"}, {"af_bella+jf_alpha", "", "mixed"},
		{"af_bella+jf_alpha", "EN_us", "en-us"}, {"af_bella", "z", "cmn"}, {"af_bella", "fr", "fr-fr"}, {"nova", "", ""},
	} {
		b, err := ParseBlend(c.blend)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Language(c.asked)
		if errors.Is(err, ErrMixed) {
			got = "mixed"
		}
		if got != c.want {
			t.Errorf("%s asked for %q speaks %q (%v), want %q", c.blend, c.asked, got, err, c.want)
		}
	}
}

func style(t *testing.T, l *Library, blend string) *Style {
	t.Helper()
	b, err := ParseBlend(blend)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Style(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStyles(t *testing.T) {
	l, _ := library(t, 3)
	if names := fmt.Sprint(l.Names()); names != "[af_bella af_heart af_jessica af_nicole af_sky bm_george jf_alpha]" {
		t.Errorf("voices %s", names)
	}
	s := style(t, l, "af_heart")
	for _, n := range []int{0, 1, 100, phoneme.Rows - 1} {
		if row := s.Row(n); len(row) != Width || row[0] != float32(n) || row[1] != 1 || row[Width-1] != 1 {
			t.Errorf("row %d of %d numbers begins %v", n, len(row), row[:2])
		}
	}
	a, b := style(t, l, "af_bella(2)+af_sky(1)"), style(t, l, "af_sky(2)+af_bella(4)")
	if !slices.Equal(a.rows, b.rows) || math.Abs(float64(a.Row(7)[3])-(2*2+3)/3.0) > 1e-6 || a.Row(7)[0] != 7 {
		t.Errorf("2:1 of 2 and 3 is %v, 4:2 is %v", a.Row(7)[3], b.Row(7)[3])
	}
	if a != b {
		t.Error("the same blend was mixed twice")
	}
	for range 3 {
		for _, name := range l.Names() {
			for _, other := range l.Names() {
				style(t, l, name+"+"+other)
			}
		}
	}
	if n := len(l.styles); n > 3 {
		t.Errorf("%d styles are kept, not 3", n)
	}
	if again := style(t, l, "af_heart"); !slices.Equal(again.rows, s.rows) {
		t.Error("a voice read again is another")
	}
}

func TestBadPacks(t *testing.T) {
	nan := pack(1)
	binary.LittleEndian.PutUint32(nan[4096:], math.Float32bits(float32(math.NaN())))
	for want, f := range map[string]fstest.MapFS{
		"has 5 bytes, not 522240": {"af_x.bin": {Data: []byte("short")}},
		"no voice pack":           {"af_x.pt": {Data: pack(1)}},
		"not 522240":              {"af_x.bin/y": {Data: nil}},
	} {
		if _, err := Open(f, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	l, err := Open(fstest.MapFS{"af_x.bin": {Data: nan}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := ParseBlend("af_x")
	if _, err := l.Style(b); err == nil || !strings.Contains(err.Error(), "NaN as number 1024") {
		t.Errorf("a damaged pack: %v", err)
	}
}

// FuzzParseBlend holds that a blend is what it is written as, its shares sum to 1, and its names are plain.
func FuzzParseBlend(f *testing.F) {
	for _, s := range []string{"af_heart", "af_bella(2)+af_sky(1)", "a:0.000001+b(1000000)", "a(0)+b", "+", "a(1)(2)", "a+b+c+d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBlend(text)
		if err != nil {
			var at *SyntaxError
			if !errors.As(err, &at) || at.At < 1 || at.At > len(text)+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		sum := 0.0
		for _, p := range b {
			sum += p.Share
			if strings.IndexFunc(p.Name, func(r rune) bool { return !named(r) }) >= 0 {
				t.Fatalf("%q has the voice %q", text, p.Name)
			}
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Fatalf("%q: shares sum to %v", text, sum)
		}
	})
}

package wire

import (
	"encoding/xml"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQueryDecode(t *testing.T) {
	form := url.Values{"S": {"a b"}, "N": {"-7"}, "F.member.10": {"3"}, "F.member.2": {"1.5"}, "M.entry.1.key": {"k"}, "M.entry.1.value": {"0.25"},
		"T": {"2026-11-30T12:00:00Z"}, "B": {"true"}, "Inner.member.1.S": {"x"}, "Inner.member.1.Inner.member.1.N": {"4"}, "Unknown": {"y"}}
	c := Query("https://example.com/", "Do", "id")
	var got whole
	if err := c.Decode([]byte(form.Encode()), &got); err != nil {
		t.Fatal(err)
	}
	text, inner, n, four, yes, at := "a b", "x", -7, 4, true, At(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	want := whole{S: &text, N: &n, F: []float64{1.5, 3}, M: map[string]float64{"k": 0.25}, T: &at, B: &yes, Inner: []whole{{S: &inner, Inner: []whole{{N: &four}}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	b, err := c.Encode(&got)
	if err != nil {
		t.Fatal(err)
	}
	const xml = `<DoResponse xmlns="https://example.com/"><DoResult><S>a b</S><N>-7</N><F><member>1.5</member><member>3</member></F>` +
		`<M><entry><key>k</key><value>0.25</value></entry></M><T>2026-11-30T12:00:00.000Z</T><B>true</B>` +
		`<Inner><member><S>x</S><Inner><member><N>4</N></member></Inner></member></Inner></DoResult>` +
		`<ResponseMetadata><RequestId>id</RequestId></ResponseMetadata></DoResponse>`
	if string(b) != xml {
		t.Errorf("got  %s\nwant %s", b, xml)
	}
}

// FuzzQuery decodes any form, and what it takes for an input is answered as XML that a parser reads.
func FuzzQuery(f *testing.F) {
	f.Add("S=a&F.member.1=2&Inner.member.1.Inner.member.1.N=4")
	f.Add("F.member.99999999999999999999=1&M.entry.1.key=k")
	f.Add("S=%00%ff<]]>&T=2026-11-30T12:00:00Z")
	f.Fuzz(func(t *testing.T, form string) {
		c := Query("https://example.com/", "Do", "id")
		var in whole
		if c.Decode([]byte(form), &in) != nil {
			return
		}
		b, err := c.Encode(&in)
		if err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(strings.NewReader(string(b))); ; {
			if _, err := d.Token(); err == io.EOF {
				return
			} else if err != nil {
				t.Fatalf("%s: %v", b, err)
			}
		}
	})
}

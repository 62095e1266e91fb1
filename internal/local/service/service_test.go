package service

import (
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"loadline/internal/wire"
)

type echoIn struct{ Text *string }

// TestFront finds one operation by each protocol, and lets none in that Admit refuses.
func TestFront(t *testing.T) {
	var logged strings.Builder
	l := log.New(&logged, "", 0)
	echo := func(_ context.Context, in *echoIn) (*echoIn, error) {
		if in.Text == nil {
			return nil, errors.New("nothing to say")
		}
		return in, nil
	}
	var admitted []string
	f := &Front{Absent: &Absent{Log: l}, Log: l,
		Admit: func(r *http.Request, _ []byte, action string) error {
			if admitted = append(admitted, action); r.Header.Get("X-No") != "" {
				return wire.Refuse(wire.AccessDenied, "no")
			}
			return nil
		},
		Services: []Service{{Target: "Echo_1", Name: "echo", CBOR: true, Version: "2026-11-30", Operations: Operations{"Say": Op(echo)}}}}
	ask := func(path, target, contentType, body, no string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("X-Amz-Target", target)
		r.Header.Set("X-No", no)
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		b, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, string(b)
	}
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		path, target, contentType, body, no string
		status                              int
		want                                string
	}{
		{"/", "Echo_1.Say", "", `{"Text":"hi"}`, "", 200, `{"Text":"hi"}`},
		{"/", "", form, "Action=Say&Version=2026-11-30&Text=hi", "", 200, "<Text>hi</Text>"},
		{"/service/Echo_1/operation/Say", "", "application/cbor", "\xa1\x64Text\x62hi", "", 200, "\xa1\x64Text\x62hi"},
		{"/", "Echo_1.Say", "", `{}`, "", 500, wire.InternalFailure},
		{"/", "Echo_1.Say", "", `{}`, "yes", 403, wire.AccessDenied},
		{"/", "Echo_1.Shout", "", `{}`, "yes", 400, wire.UnknownOperation},
		{"/", "Echo_2.Say", "", `{}`, "", 400, wire.UnknownOperation},
		{"/service/Echo_2/operation/Say", "", "", "", "", 400, wire.UnknownOperation},
		{"/", "", form, "Action=Say&Version=", "", 400, wire.InvalidAction},
	} {
		if status, body := ask(c.path, c.target, c.contentType, c.body, c.no); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%+v: %d %q", c, status, body)
		}
	}
	if len(admitted) != 5 || slices.Max(admitted) != "echo:Say" {
		t.Errorf("asked to admit %v", admitted)
	}
	if n := strings.Count(logged.String(), "Echo_1.Shout"); n != 1 {
		t.Errorf("%d lines of what is not here:\n%s", n, &logged)
	}
}

func TestPage(t *testing.T) {
	all := []int{1, 2, 3, 4, 5}
	var token *string
	var got []int
	for two := 2; ; {
		page, next, err := Page(all, &two, token, 1, 3, "bad")
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, page...); next == "" {
			break
		}
		token = &next
	}
	if !slices.Equal(got, all) {
		t.Errorf("pages of %v", got)
	}
	four, stolen, past := 4, "stolen", "after-6"
	for _, c := range []struct {
		limit *int
		token *string
		code  string
	}{{&four, nil, wire.ValidationException}, {nil, &stolen, "bad"}, {nil, &past, "bad"}} {
		var f *wire.Fault
		if _, _, err := Page(all, c.limit, c.token, 1, 3, "bad"); !errors.As(err, &f) || f.Code != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestTags(t *testing.T) {
	tags := NewTags()
	tags.Add("a", []Tag{{"k", "v"}, {"l", "w"}})
	tags.Set("b", map[string]string{"x": ""})
	of := tags.Of("a")
	of["k"] = "changed" // a copy
	tags.Remove("a", []string{"l", "m"})
	tags.Remove("nobody", []string{"l"})
	tags.Forget("b")
	if got := tags.All(); len(got) != 1 || !maps.Equal(got["a"], map[string]string{"k": "v"}) {
		t.Errorf("%v", got)
	}
}

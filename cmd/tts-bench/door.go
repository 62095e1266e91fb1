package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"loadline/internal/transport"
)

// byURL fills in the part of a target that a URL has.
func (t *target) byURL(a *app, f targetFlags, set func(string) bool) error {
	name := f.transport
	if !set("transport") && name == responseStream { // the default for endpoints
		name = ""
	}
	var err error
	if t.door, t.url, err = transport.FindDoor(name, f.url); err != nil {
		return fmt.Errorf("--%w", err)
	}
	t.URL, t.Transport, t.end = transport.RecordURL(t.url), t.door.Name, f.end
	if t.Model = f.name; t.Model == "" {
		u, err := url.Parse(t.url)
		if err != nil {
			return errors.New("--url: not a URL")
		}
		t.Model = u.Hostname()
	}
	body := ""
	if set("body") {
		if body, err = a.body(f.body); err != nil {
			return err
		}
	}
	if t.spoken, err = t.door.Parse(body); err != nil {
		return fmt.Errorf("--body: %w", err)
	}
	return nil
}

// body reads a request body: what it says, or what the file that it names says, with ${NAME} taken from the environment.
// Its secrets are in no record: there the body is as it was written.
func (a *app) body(text string) (string, error) {
	if file, ok := strings.CutPrefix(text, "@"); ok {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("--body %s: %w", text, err)
		}
		text = string(data)
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			return b.String() + text, nil
		}
		value, known := a.env[name]
		if !known {
			return "", fmt.Errorf("--body: $%s is not set in the environment", name)
		}
		b.WriteString(before + value)
		text = after
	}
}

package main

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"loadline/internal/load"
	"loadline/internal/transport"
)

// The ways to ask a target by URL.
const (
	plainHTTP    = "http"
	rawHTTP      = "raw"
	openAISpeech = "openai-speech"
	sse          = "sse"
	webSocket    = "websocket"
)

// urlDoor is one way to ask a target by URL: what it sends where the user says no more, and where.
type urlDoor struct {
	name    string
	schemes []string
	body    string
	path    string // where the URL has none
}

// urlDoors are all of them; the first that takes a URL's scheme is its default.
var urlDoors = []urlDoor{
	{plainHTTP, []string{"http", "https"}, transport.BodyKokoro, ""},
	{rawHTTP, []string{"http", "https"}, transport.BodyRaw, ""},
	{openAISpeech, []string{"http", "https"}, transport.BodyOpenAI, "/v1/audio/speech"},
	{sse, []string{"http", "https"}, transport.BodyKokoro, ""},
	{webSocket, []string{"ws", "wss", "http", "https"}, transport.BodySession, "/invocations-bidirectional-stream"},
}

func doorNames() string {
	var names []string
	for _, d := range urlDoors {
		names = append(names, d.name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// byURL fills in the part of a target that a URL has.
func (t *target) byURL(a *app, f targetFlags, set func(string) bool) error {
	u, err := url.Parse(f.url)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme) {
		return fmt.Errorf("--url %q: want http://host[:port]/path, https://…, ws://… or wss://…", transport.RecordURL(f.url))
	}
	given := set("transport") || f.transport != responseStream // which is the default for endpoints
	i := slices.IndexFunc(urlDoors, func(d urlDoor) bool {
		return d.name == f.transport || !given && slices.Contains(d.schemes, u.Scheme)
	})
	if i < 0 {
		return fmt.Errorf("--transport %q: by --url it is %s", f.transport, doorNames())
	}
	d := urlDoors[i]
	if !slices.Contains(d.schemes, u.Scheme) {
		return fmt.Errorf("--transport %s: it wants a URL that begins with %s://", d.name, strings.Join(d.schemes, ":// or "))
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = d.path
	}
	t.url, t.URL, t.Transport, t.end = u.String(), transport.RecordURL(u.String()), d.name, f.end
	if t.Model = f.name; t.Model == "" {
		t.Model = u.Hostname()
	}
	body := d.body
	if set("body") {
		if body, err = a.body(f.body); err != nil {
			return err
		}
	}
	if d.name == webSocket {
		t.messages, err = transport.ParseMessages(body)
	} else {
		t.body, err = transport.ParseTemplate(body)
	}
	if err != nil {
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

// dial makes the transport of a target by URL.
func (t *target) dial(net transport.Net) (load.Transport, error) {
	if t.Transport == webSocket {
		return transport.NewWebSocket(transport.WebSocketOptions{Net: net, URL: t.url, Header: t.header, Messages: t.messages, End: t.end, Payload: t.payload})
	}
	return transport.NewHTTP(transport.HTTPOptions{Net: net, URL: t.url, Header: t.header, Body: t.body, Payload: t.payload,
		Events: t.Transport == sse, End: t.end})
}

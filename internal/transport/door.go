package transport

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"loadline/internal/audio"
	"loadline/internal/load"
)

// The ways to ask a server by its URL.
const (
	PlainHTTP    = "http"
	RawHTTP      = "raw"
	OpenAISpeech = "openai-speech"
	SSE          = "sse"
	WebSockets   = "websocket"
)

// Door is one way to ask a server by its URL: what it sends where the user says no more, and where.
type Door struct {
	Name    string
	Schemes []string
	Body    string
	Path    string // where the URL has none
}

// Doors are all of them; the first that takes a URL's scheme is its default.
var Doors = []Door{
	{PlainHTTP, []string{"http", "https"}, BodyKokoro, ""},
	{RawHTTP, []string{"http", "https"}, BodyRaw, ""},
	{OpenAISpeech, []string{"http", "https"}, BodyOpenAI, "/v1/audio/speech"},
	{SSE, []string{"http", "https"}, BodyKokoro, ""},
	{WebSockets, []string{"ws", "wss", "http", "https"}, BodySession, "/invocations-bidirectional-stream"},
}

// DoorNames lists them for people.
func DoorNames() string {
	var names []string
	for _, d := range Doors {
		names = append(names, d.Name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// FindDoor is the door of that name, or the default one of the URL where name is "", and the URL that is asked through it.
func FindDoor(name, rawURL string) (Door, string, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme) {
		return Door{}, "", fmt.Errorf("url %q: want http://host[:port]/path, https://…, ws://… or wss://…", RecordURL(rawURL))
	}
	i := slices.IndexFunc(Doors, func(d Door) bool { return d.Name == name || name == "" && slices.Contains(d.Schemes, u.Scheme) })
	if i < 0 {
		return Door{}, "", fmt.Errorf("transport %q: by URL it is %s", name, DoorNames())
	}
	d := Doors[i]
	if !slices.Contains(d.Schemes, u.Scheme) {
		return Door{}, "", fmt.Errorf("transport %s: it wants a URL that begins with %s://", d.Name, strings.Join(d.Schemes, ":// or "))
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = d.Path
	}
	return d, u.String(), nil
}

// Spoken is what is sent for a text, through one door.
type Spoken struct {
	body     Template
	messages Messages
}

// Parse reads what is sent for a text; "" is what the door sends where nobody says more.
func (d Door) Parse(body string) (s Spoken, err error) {
	if body == "" {
		body = d.Body
	}
	if d.Name == WebSockets {
		s.messages, err = ParseMessages(body)
	} else {
		s.body, err = ParseTemplate(body)
	}
	return s, err
}

// DoorOptions say what is asked through a door.
type DoorOptions struct {
	Net
	URL     string
	Header  http.Header
	Spoken  Spoken // the door's own when zero
	End     string // of a reply in events or messages
	Payload audio.Payload
}

// Open makes the door's transport. It connects to nothing yet.
func (d Door) Open(o DoorOptions) (load.Transport, error) {
	if d.Name == WebSockets {
		return NewWebSocket(WebSocketOptions{Net: o.Net, URL: o.URL, Header: o.Header, Messages: o.Spoken.messages, End: o.End, Payload: o.Payload})
	}
	if o.Spoken.body.parts == nil {
		var err error
		if o.Spoken, err = d.Parse(""); err != nil {
			return nil, err
		}
	}
	return NewHTTP(HTTPOptions{Net: o.Net, URL: o.URL, Header: o.Header, Body: o.Spoken.body, Payload: o.Payload, Events: d.Name == SSE, End: o.End})
}

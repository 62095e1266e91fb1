// Package logs is CloudWatch Logs of a local account: what its containers print, and what is put there.
//
// It decides how much is kept, and what listings, pages and filters of it give. What a line says of metrics is for whom
// New is given to observe it.
//
//	l := logs.New(account, time.Now, func(line string, now time.Time) { … })
//	cmd.Stdout = l.Output("/aws/sagemaker/Endpoints/speech", "primary/i-0123")
//	front.Services = append(front.Services, l.Service())
package logs

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	"loadline/internal/local/service"
)

// What the log keeps: memory stays bounded however long an account lives.
const (
	mostStreams   = 2000      // of one group; the oldest goes
	mostEvents    = 10_000    // of one stream; the oldest quarter goes
	longestOutput = 256 << 10 // bytes of one line of a container
)

// Logs is an account's log groups and their streams. It is safe for concurrent use.
type Logs struct {
	account service.Account
	now     func() time.Time
	observe func(line string, now time.Time)

	mu     sync.Mutex
	groups map[string]*group
}

// New is an account without logs. What is logged is observed line by line, after it is kept.
func New(account service.Account, now func() time.Time, observe func(line string, now time.Time)) *Logs {
	return &Logs{account: account, now: now, observe: observe, groups: map[string]*group{}}
}

type group struct {
	name      string
	created   time.Time
	retention int // days; 0: for ever
	tags      map[string]string
	streams   map[string]*stream
}

type stream struct {
	name     string
	created  time.Time
	ingested time.Time
	dropped  int // events that were here and are too old
	bytes    int
	events   []Event // by time
}

// Event is a line of a log.
type Event struct {
	At, Ingested time.Time
	Text         string
}

// group is the group of that name, made if it is missing. l.mu is held.
func (l *Logs) group(name string, now time.Time) *group {
	g := l.groups[name]
	if g == nil {
		g = &group{name: name, created: now, tags: map[string]string{}, streams: map[string]*stream{}}
		l.groups[name] = g
	}
	return g
}

// stream is the stream of that name, made if it is missing. l.mu is held.
func (g *group) stream(name string, now time.Time) *stream {
	s := g.streams[name]
	if s == nil {
		if len(g.streams) >= mostStreams {
			oldest := ""
			for n, s := range g.streams {
				if oldest == "" || s.created.Before(g.streams[oldest].created) {
					oldest = n
				}
			}
			delete(g.streams, oldest)
		}
		s = &stream{name: name, created: now}
		g.streams[name] = s
	}
	return s
}

// put adds events. l.mu is held.
func (s *stream) put(now time.Time, events ...Event) {
	s.ingested = now
	for _, e := range events {
		e.Ingested = now
		i, _ := slices.BinarySearchFunc(s.events, e.At, func(x Event, at time.Time) int {
			return cmp.Or(x.At.Compare(at), -1) // behind those of the same time
		})
		s.events = slices.Insert(s.events, i, e)
		s.bytes += len(e.Text) + 26 // as CloudWatch counts an event
	}
	if n := len(s.events); n > mostEvents {
		cut := n - mostEvents + mostEvents/4
		for _, e := range s.events[:cut] {
			s.bytes -= len(e.Text) + 26
		}
		s.events = slices.Delete(s.events, 0, cut)
		s.dropped += cut
	}
}

// Output is where a container's output goes: each line is an event of its stream.
type Output struct {
	Group, Stream string

	logs *Logs
	mu   sync.Mutex
	rest []byte // of the last line
}

// Output of a container, to that stream of that group; they are there from the first line on.
func (l *Logs) Output(group, stream string) *Output {
	return &Output{Group: group, Stream: stream, logs: l}
}

// Write takes what the container printed.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, p...)
	for {
		line, rest, whole := bytes.Cut(o.rest, []byte("\n"))
		if !whole && len(o.rest) < longestOutput {
			return len(p), nil
		}
		if !whole {
			line, rest = o.rest[:longestOutput], o.rest[longestOutput:]
		}
		o.line(string(bytes.TrimSuffix(line, []byte("\r"))))
		o.rest = append([]byte(nil), rest...)
	}
}

func (o *Output) line(text string) {
	l := o.logs
	now := l.now()
	l.mu.Lock()
	l.group(o.Group, now).stream(o.Stream, now).put(now, Event{At: now, Text: text})
	l.mu.Unlock()
	l.observe(text, now)
}

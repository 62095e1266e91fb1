package local

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"
)

// What the log keeps: memory stays bounded however long an account lives.
const (
	mostStreams   = 2000      // of one group; the oldest goes
	mostEvents    = 10_000    // of one stream; the oldest quarter goes
	longestOutput = 256 << 10 // bytes of one line of a container
)

// logbook is log groups and their streams. It is safe for concurrent use.
type logbook struct {
	mu     sync.Mutex
	groups map[string]*logGroup
}

type logGroup struct {
	name      string
	created   time.Time
	retention int // days; 0: for ever
	tags      map[string]string
	streams   map[string]*logStream
}

type logStream struct {
	name     string
	created  time.Time
	ingested time.Time
	dropped  int // events that were here and are too old
	bytes    int
	events   []logEvent // by time
}

type logEvent struct {
	at, ingested time.Time
	text         string
}

func newLogbook() *logbook { return &logbook{groups: map[string]*logGroup{}} }

// group is the group of that name, made if it is missing. b.mu is held.
func (b *logbook) group(name string, now time.Time) *logGroup {
	g := b.groups[name]
	if g == nil {
		g = &logGroup{name: name, created: now, tags: map[string]string{}, streams: map[string]*logStream{}}
		b.groups[name] = g
	}
	return g
}

// stream is the stream of that name, made if it is missing. b.mu is held.
func (g *logGroup) stream(name string, now time.Time) *logStream {
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
		s = &logStream{name: name, created: now}
		g.streams[name] = s
	}
	return s
}

// put adds events. b.mu is held.
func (s *logStream) put(now time.Time, events ...logEvent) {
	s.ingested = now
	for _, e := range events {
		e.ingested = now
		i, _ := slices.BinarySearchFunc(s.events, e.at, func(x logEvent, at time.Time) int {
			return cmp.Or(x.at.Compare(at), -1) // behind those of the same time
		})
		s.events = slices.Insert(s.events, i, e)
		s.bytes += len(e.text) + 26 // as CloudWatch counts an event
	}
	if n := len(s.events); n > mostEvents {
		cut := n - mostEvents + mostEvents/4
		for _, e := range s.events[:cut] {
			s.bytes -= len(e.text) + 26
		}
		s.events = slices.Delete(s.events, 0, cut)
		s.dropped += cut
	}
}

// output is where an instance's output goes: each line is an event of its stream, and a metric if it says so.
type output struct {
	l             *Local
	group, stream string
	mu            sync.Mutex
	rest          []byte // of the last line
}

// Write takes what the container printed.
func (c *output) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, p...)
	for {
		line, rest, whole := bytes.Cut(c.rest, []byte("\n"))
		if !whole && len(c.rest) < longestOutput {
			return len(p), nil
		}
		if !whole {
			line, rest = c.rest[:longestOutput], c.rest[longestOutput:]
		}
		c.line(string(bytes.TrimSuffix(line, []byte("\r"))))
		c.rest = append([]byte(nil), rest...)
	}
}

func (c *output) line(text string) {
	now := c.l.now()
	c.l.logbook.mu.Lock()
	c.l.logbook.group(c.group, now).stream(c.stream, now).put(now, logEvent{at: now, text: text})
	c.l.logbook.mu.Unlock()
	c.l.observe(text, now)
}

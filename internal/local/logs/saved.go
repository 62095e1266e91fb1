package logs

import (
	"maps"
	"slices"
	"time"
)

// savedEvents is how many events of a stream are saved, the newest.
const savedEvents = 200

// Group is a log group as it is saved.
type Group struct {
	Name      string
	Created   time.Time
	Retention int // days; 0: for ever
	Tags      map[string]string
	Streams   []Stream
}

// Stream is a log stream as it is saved.
type Stream struct {
	Name              string
	Created, Ingested time.Time
	Dropped           int // events that were there before Events
	Events            []Event
}

// Save is what there is, the newest events of each stream.
func (l *Logs) Save() []Group {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Group
	for _, name := range slices.Sorted(maps.Keys(l.groups)) {
		g := l.groups[name]
		saved := Group{g.name, g.created, g.retention, maps.Clone(g.tags), nil}
		for _, name := range slices.Sorted(maps.Keys(g.streams)) {
			s := g.streams[name]
			from := max(0, len(s.events)-savedEvents)
			saved.Streams = append(saved.Streams, Stream{s.name, s.created, s.ingested, s.dropped + from, append([]Event(nil), s.events[from:]...)})
		}
		out = append(out, saved)
	}
	return out
}

// Restore adds what was saved.
func (l *Logs) Restore(groups []Group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range groups {
		own := l.group(g.Name, g.Created)
		own.retention = g.Retention
		maps.Copy(own.tags, g.Tags)
		for _, s := range g.Streams {
			to := own.stream(s.Name, s.Created)
			to.dropped = s.Dropped
			for _, e := range s.Events {
				to.put(e.Ingested, e)
			}
		}
	}
}

package scaleout

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Marker is one line by which a container says how far its start has come:
//
//	=== STAGE weights_ready t=2026-08-04T12:03:11.250Z elapsed_s=6.500 ===
type Marker struct {
	Stage   string
	At      time.Time
	Elapsed time.Duration // since the container started
}

// ParseMarker finds a marker anywhere in a line.
func ParseMarker(line string) (Marker, bool) {
	_, rest, ok := strings.Cut(line, "=== STAGE ")
	if !ok {
		return Marker{}, false
	}
	rest, _, ok = strings.Cut(rest, " ===")
	part := strings.Fields(rest)
	if !ok || len(part) != 3 {
		return Marker{}, false
	}
	stamp, isTime := strings.CutPrefix(part[1], "t=")
	took, isTook := strings.CutPrefix(part[2], "elapsed_s=")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	seconds, errTook := strconv.ParseFloat(took, 64)
	if !isTime || !isTook || err != nil || errTook != nil || !(seconds >= 0 && seconds < 1e6) {
		return Marker{}, false
	}
	return Marker{part[0], at.UTC(), time.Duration(math.Round(seconds * float64(time.Second)))}, true
}

// Event is one line of a container's log, when its collector stamped it.
type Event struct {
	At   time.Time
	Text string
}

// Container is what the head of an instance's log says of its start.
func Container(events []Event) []Mark {
	if len(events) == 0 {
		return nil
	}
	first := slices.MinFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	marks := []Mark{{Name: InstanceLogging, At: first.At, Bounded: true, Source: "first event of its log stream"}}
	var found []Marker
	for _, e := range events {
		m, ok := ParseMarker(e.Text)
		if ok && !slices.ContainsFunc(found, func(f Marker) bool { return f.Stage == m.Stage }) {
			found = append(found, m)
		}
	}
	started := false
	for _, m := range found {
		if m.Stage == "container_start" {
			m.Stage = ContainerStarted
		}
		started = started || m.Stage == ContainerStarted
		marks = append(marks, Mark{Name: m.Stage, At: m.At, Source: "marker of the container"})
	}
	if len(found) > 0 && !started {
		m := slices.MinFunc(found, func(a, b Marker) int { return cmp.Compare(a.Elapsed, b.Elapsed) })
		marks = append(marks, Mark{Name: ContainerStarted, At: m.At.Add(-m.Elapsed), Bounded: true,
			Source: "marker " + m.Stage + " less its elapsed_s"})
	}
	// A log collector stamps a line when it comes by, which may be after the stage that it tells of.
	slices.SortStableFunc(marks, func(a, b Mark) int { return a.At.Compare(b.At) })
	for i := range marks {
		if marks[i].Name == InstanceLogging && i > 0 && marks[0].Name == ContainerStarted {
			marks[i].At, marks[i].Note = marks[0].At, "the collector stamped it after the container had started"
		}
	}
	return marks
}

package logs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// Service is its operations.
func (l *Logs) Service() service.Service {
	return service.Service{Target: "Logs_20140328", Name: "logs", Operations: service.Operations{
		"CreateLogGroup":        service.Op(l.createGroup),
		"DeleteLogGroup":        service.Op(l.deleteGroup),
		"DescribeLogGroups":     service.Op(l.describeGroups),
		"PutRetentionPolicy":    service.Op(l.putRetention),
		"DeleteRetentionPolicy": service.Op(l.deleteRetention),
		"CreateLogStream":       service.Op(l.createStream),
		"DeleteLogStream":       service.Op(l.deleteStream),
		"DescribeLogStreams":    service.Op(l.describeStreams),
		"PutLogEvents":          service.Op(l.putEvents),
		"GetLogEvents":          service.Op(l.getEvents),
		"FilterLogEvents":       service.Op(l.filterEvents),
		"TagResource":           service.Op(l.tag),
		"UntagResource":         service.Op(l.untag),
		"ListTagsForResource":   service.Op(l.listTags),
	}}
}

// Logs' limits.
const (
	mostPutEvents = 10_000
	mostGetEvents = 10_000
	mostPage      = 50
	oldestPut     = 14 * 24 * time.Hour
	furthestPut   = 2 * time.Hour
)

var (
	groupForm  = regexp.MustCompile(`^[.\-_/#A-Za-z0-9]{1,512}$`)
	streamForm = regexp.MustCompile(`^[^:*]{1,512}$`)
)

func fault(format string, args ...any) error {
	return wire.Refuse(wire.InvalidParameter, format, args...)
}

// groupName is a group's name, which an ARN may give too.
func groupName(name, identifier *string) (string, error) {
	n := service.Or(name, service.Or(identifier, ""))
	if _, after, ok := strings.Cut(n, ":log-group:"); ok {
		n = strings.TrimSuffix(after, ":*")
	}
	if !groupForm.MatchString(n) {
		return "", fault("1 validation error detected: Value '%s' at 'logGroupName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\.\\-_/#A-Za-z0-9]+", n)
	}
	return n, nil
}

// found runs f on a group that exists, under the log's lock.
func (l *Logs) found(name, identifier *string, f func(*group) error) error {
	n, err := groupName(name, identifier)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[n]
	if g == nil {
		return wire.Refuse(wire.ResourceNotFound, "The specified log group does not exist.")
	}
	return f(g)
}

func (g *group) named(stream *string) (*stream, error) {
	if s := g.streams[service.Or(stream, "")]; s != nil {
		return s, nil
	}
	return nil, wire.Refuse(wire.ResourceNotFound, "The specified log stream does not exist.")
}

type createGroupIn struct {
	LogGroupName *string           `json:"logGroupName"`
	Tags         map[string]string `json:"tags"`
}

func (l *Logs) createGroup(_ context.Context, in *createGroupIn) (*service.Nothing, error) {
	name, err := groupName(in.LogGroupName, nil)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups[name] != nil {
		return nil, wire.Refuse(wire.ResourceExists, "The specified log group already exists")
	}
	maps.Copy(l.group(name, l.now()).tags, in.Tags)
	return &service.Nothing{}, nil
}

type groupIn struct {
	LogGroupName    *string `json:"logGroupName"`
	LogStreamName   *string `json:"logStreamName"`
	RetentionInDays *int    `json:"retentionInDays"`
}

func (l *Logs) deleteGroup(_ context.Context, in *groupIn) (*service.Nothing, error) {
	return &service.Nothing{}, l.found(in.LogGroupName, nil, func(g *group) error {
		delete(l.groups, g.name)
		return nil
	})
}

var retentions = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

func (l *Logs) putRetention(_ context.Context, in *groupIn) (*service.Nothing, error) {
	days := service.Or(in.RetentionInDays, 0)
	if !slices.Contains(retentions, days) {
		return nil, fault("1 validation error detected: Value '%d' at 'retentionInDays' failed to satisfy constraint: Member must satisfy enum value set: %v", days, retentions)
	}
	return &service.Nothing{}, l.found(in.LogGroupName, nil, func(g *group) error {
		g.retention = days
		return nil
	})
}

func (l *Logs) deleteRetention(_ context.Context, in *groupIn) (*service.Nothing, error) {
	return &service.Nothing{}, l.found(in.LogGroupName, nil, func(g *group) error {
		g.retention = 0
		return nil
	})
}

type describeGroupsIn struct {
	Prefix  *string `json:"logGroupNamePrefix"`
	Pattern *string `json:"logGroupNamePattern"`
	Next    *string `json:"nextToken"`
	Limit   *int    `json:"limit"`
}

type describeGroupsOut struct {
	LogGroups []groupOut `json:"logGroups"`
	Next      string     `json:"nextToken,omitempty"`
}

type groupOut struct {
	Name      string `json:"logGroupName"`
	Created   int64  `json:"creationTime"`
	Retention int    `json:"retentionInDays,omitempty"`
	Filters   int    `json:"metricFilterCount"`
	ARN       string `json:"arn"`
	Bytes     int    `json:"storedBytes"`
	Class     string `json:"logGroupClass"`
	GroupARN  string `json:"logGroupArn"`
}

func (l *Logs) groupARN(name string) string { return l.account.ARN("logs", "log-group:"+name) }

func (l *Logs) describeGroups(_ context.Context, in *describeGroupsIn) (*describeGroupsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []groupOut
	for _, name := range slices.Sorted(maps.Keys(l.groups)) {
		g := l.groups[name]
		if !strings.HasPrefix(name, service.Or(in.Prefix, "")) || !strings.Contains(name, service.Or(in.Pattern, "")) {
			continue
		}
		arn, bytes := l.groupARN(name), 0
		for _, s := range g.streams {
			bytes += s.bytes
		}
		all = append(all, groupOut{name, g.created.UnixMilli(), g.retention, 0, arn + ":*", bytes, "STANDARD", arn})
	}
	page, next, err := service.Page(all, in.Limit, in.Next, mostPage, mostPage, wire.InvalidParameter)
	return &describeGroupsOut{append([]groupOut{}, page...), next}, err
}

func (l *Logs) createStream(_ context.Context, in *groupIn) (*service.Nothing, error) {
	name := service.Or(in.LogStreamName, "")
	if !streamForm.MatchString(name) {
		return nil, fault("1 validation error detected: Value '%s' at 'logStreamName' failed to satisfy constraint: Member must satisfy regular expression pattern: [^:*]*", name)
	}
	return &service.Nothing{}, l.found(in.LogGroupName, nil, func(g *group) error {
		if g.streams[name] != nil {
			return wire.Refuse(wire.ResourceExists, "The specified log stream already exists")
		}
		g.stream(name, l.now())
		return nil
	})
}

func (l *Logs) deleteStream(_ context.Context, in *groupIn) (*service.Nothing, error) {
	return &service.Nothing{}, l.found(in.LogGroupName, nil, func(g *group) error {
		s, err := g.named(in.LogStreamName)
		if err != nil {
			return err
		}
		delete(g.streams, s.name)
		return nil
	})
}

type describeStreamsIn struct {
	Group      *string `json:"logGroupName"`
	Identifier *string `json:"logGroupIdentifier"`
	Prefix     *string `json:"logStreamNamePrefix"`
	OrderBy    *string `json:"orderBy"`
	Descending *bool   `json:"descending"`
	Next       *string `json:"nextToken"`
	Limit      *int    `json:"limit"`
}

type describeStreamsOut struct {
	Streams []streamOut `json:"logStreams"`
	Next    string      `json:"nextToken,omitempty"`
}

type streamOut struct {
	Name     string `json:"logStreamName"`
	Created  int64  `json:"creationTime"`
	First    *int64 `json:"firstEventTimestamp,omitempty"`
	Last     *int64 `json:"lastEventTimestamp,omitempty"`
	Ingested *int64 `json:"lastIngestionTime,omitempty"`
	Token    string `json:"uploadSequenceToken"`
	ARN      string `json:"arn"`
	Bytes    int    `json:"storedBytes"`
}

func (l *Logs) describeStreams(_ context.Context, in *describeStreamsIn) (*describeStreamsOut, error) {
	out := &describeStreamsOut{}
	order := service.Or(in.OrderBy, "LogStreamName")
	if order == "LastEventTime" && in.Prefix != nil {
		return nil, fault("Cannot order by LastEventTime with a logStreamNamePrefix.")
	}
	return out, l.found(in.Group, in.Identifier, func(g *group) error {
		streams := slices.SortedFunc(maps.Values(g.streams), func(a, b *stream) int {
			c := strings.Compare(a.name, b.name)
			if order == "LastEventTime" {
				c = cmp.Or(a.last().Compare(b.last()), c)
			}
			if service.Or(in.Descending, false) {
				return -c
			}
			return c
		})
		var all []streamOut
		for _, s := range streams {
			if !strings.HasPrefix(s.name, service.Or(in.Prefix, "")) {
				continue
			}
			o := streamOut{Name: s.name, Created: s.created.UnixMilli(), Token: fmt.Sprintf("%056d", s.dropped+len(s.events)),
				ARN: l.groupARN(g.name) + ":log-stream:" + s.name, Bytes: s.bytes}
			if len(s.events) > 0 {
				first, last, ingested := s.events[0].At.UnixMilli(), s.last().UnixMilli(), s.ingested.UnixMilli()
				o.First, o.Last, o.Ingested = &first, &last, &ingested
			}
			all = append(all, o)
		}
		page, next, err := service.Page(all, in.Limit, in.Next, mostPage, mostPage, wire.InvalidParameter)
		out.Streams, out.Next = append([]streamOut{}, page...), next
		return err
	})
}

func (s *stream) last() time.Time {
	if len(s.events) == 0 {
		return time.Time{}
	}
	return s.events[len(s.events)-1].At
}

type putEventsIn struct {
	Group  *string `json:"logGroupName"`
	Stream *string `json:"logStreamName"`
	Events []struct {
		At   *int64  `json:"timestamp"`
		Text *string `json:"message"`
	} `json:"logEvents"`
}

type putEventsOut struct {
	Next     string          `json:"nextSequenceToken"`
	Rejected *rejectedEvents `json:"rejectedLogEventsInfo,omitempty"`
}

type rejectedEvents struct {
	New *int `json:"tooNewLogEventStartIndex,omitempty"`
	Old *int `json:"tooOldLogEventEndIndex,omitempty"`
}

// putEvents stores events, those too old or too new left out; EMF lines among them become metrics.
func (l *Logs) putEvents(_ context.Context, in *putEventsIn) (*putEventsOut, error) {
	if len(in.Events) == 0 || len(in.Events) > mostPutEvents {
		return nil, fault("1 validation error detected: Value at 'logEvents' failed to satisfy constraint: Member must have length between 1 and %d", mostPutEvents)
	}
	now := l.now()
	var good []Event
	rejected := &rejectedEvents{}
	for i, e := range in.Events {
		if e.At == nil || e.Text == nil || *e.Text == "" {
			return nil, fault("1 validation error detected: Value null at 'logEvents.%d.member' failed to satisfy constraint: timestamp and message must not be null", i+1)
		}
		at := time.UnixMilli(*e.At)
		if i > 0 && *e.At < *in.Events[i-1].At {
			return nil, fault("Log events in a single PutLogEvents request must be in chronological order.")
		}
		switch {
		case at.After(now.Add(furthestPut)):
			if rejected.New == nil {
				rejected.New = &i
			}
		case at.Before(now.Add(-oldestPut)):
			end := i + 1
			rejected.Old = &end
		default:
			good = append(good, Event{At: at, Text: *e.Text})
		}
	}
	out := &putEventsOut{}
	err := l.found(in.Group, nil, func(g *group) error {
		s, err := g.named(in.Stream)
		if err != nil {
			return err
		}
		s.put(now, good...)
		out.Next = fmt.Sprintf("%056d", s.dropped+len(s.events))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, e := range good {
		l.observe(e.Text, now)
	}
	if rejected.New != nil || rejected.Old != nil {
		out.Rejected = rejected
	}
	return out, nil
}

type getEventsIn struct {
	Group      *string `json:"logGroupName"`
	Identifier *string `json:"logGroupIdentifier"`
	Stream     *string `json:"logStreamName"`
	Start      *int64  `json:"startTime"`
	End        *int64  `json:"endTime"`
	Next       *string `json:"nextToken"`
	Limit      *int    `json:"limit"`
	FromHead   *bool   `json:"startFromHead"`
}

type getEventsOut struct {
	Events   []eventOut `json:"events"`
	Forward  string     `json:"nextForwardToken"`
	Backward string     `json:"nextBackwardToken"`
}

type eventOut struct {
	At       int64  `json:"timestamp"`
	Text     string `json:"message"`
	Ingested int64  `json:"ingestionTime"`
}

// within says whether an event lies in [start, end), in milliseconds.
func (e *Event) within(start, end *int64) bool {
	at := e.At.UnixMilli()
	return (start == nil || at >= *start) && (end == nil || at < *end)
}

// getEvents is a page of a stream. A token is f/ or b/ and the number of an event since the stream's beginning: what
// comes from it on, or what comes before it. The forward token of the last page leads to itself, as AWS's does.
func (l *Logs) getEvents(_ context.Context, in *getEventsIn) (*getEventsOut, error) {
	limit := service.Or(in.Limit, mostGetEvents)
	if limit < 1 || limit > mostGetEvents {
		return nil, fault("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and %d", limit, mostGetEvents)
	}
	out := &getEventsOut{Events: []eventOut{}}
	return out, l.found(in.Group, in.Identifier, func(g *group) error {
		s, err := g.named(in.Stream)
		if err != nil {
			return err
		}
		from, back := 0, !service.Or(in.FromHead, false)
		if back {
			from = len(s.events)
		}
		if in.Next != nil {
			way, number, ok := strings.Cut(*in.Next, "/")
			n, err := strconv.Atoi(number)
			if !ok || err != nil || way != "f" && way != "b" || n < 0 {
				return fault("The specified nextToken is invalid.")
			}
			from, back = min(max(n-s.dropped, 0), len(s.events)), way == "b"
		}
		first, last := from, from // the page, among all the stream's events
		for i := from; !back && i < len(s.events) && len(out.Events) < limit; i++ {
			if last = i + 1; s.events[i].within(in.Start, in.End) {
				out.Events = append(out.Events, s.events[i].out())
			}
		}
		for i := from - 1; back && i >= 0 && len(out.Events) < limit; i-- {
			if first = i; s.events[i].within(in.Start, in.End) {
				out.Events = append(out.Events, s.events[i].out())
			}
		}
		if back {
			slices.Reverse(out.Events)
		}
		out.Forward, out.Backward = fmt.Sprintf("f/%d", s.dropped+last), fmt.Sprintf("b/%d", s.dropped+first)
		return nil
	})
}

func (e *Event) out() eventOut { return eventOut{e.At.UnixMilli(), e.Text, e.Ingested.UnixMilli()} }

type filterIn struct {
	Group      *string  `json:"logGroupName"`
	Identifier *string  `json:"logGroupIdentifier"`
	Streams    []string `json:"logStreamNames"`
	Prefix     *string  `json:"logStreamNamePrefix"`
	Start      *int64   `json:"startTime"`
	End        *int64   `json:"endTime"`
	Pattern    *string  `json:"filterPattern"`
	Next       *string  `json:"nextToken"`
	Limit      *int     `json:"limit"`
}

type filterOut struct {
	Events   []filteredOut     `json:"events"`
	Searched []service.Nothing `json:"searchedLogStreams"`
	Next     string            `json:"nextToken,omitempty"`
}

type filteredOut struct {
	Stream   string `json:"logStreamName"`
	At       int64  `json:"timestamp"`
	Text     string `json:"message"`
	Ingested int64  `json:"ingestionTime"`
	ID       string `json:"eventId"`
}

// filterEvents knows patterns of words, each of which an event must have; "-word" must not be there.
func (l *Logs) filterEvents(_ context.Context, in *filterIn) (*filterOut, error) {
	pattern := strings.TrimSpace(service.Or(in.Pattern, ""))
	if strings.HasPrefix(pattern, "{") || strings.HasPrefix(pattern, "[") || strings.HasPrefix(pattern, "%") {
		return nil, fault("Invalid filter pattern %q: words and quoted phrases are part of this local account.", pattern)
	}
	want := words(pattern)
	out := &filterOut{Searched: []service.Nothing{}}
	return out, l.found(in.Group, in.Identifier, func(g *group) error {
		var all []filteredOut
		for _, name := range slices.Sorted(maps.Keys(g.streams)) {
			if len(in.Streams) > 0 && !slices.Contains(in.Streams, name) || !strings.HasPrefix(name, service.Or(in.Prefix, "")) {
				continue
			}
			s := g.streams[name]
			for i := range s.events {
				if e := &s.events[i]; e.within(in.Start, in.End) && matches(e.Text, want) {
					all = append(all, filteredOut{name, e.At.UnixMilli(), e.Text, e.Ingested.UnixMilli(), fmt.Sprintf("%020d%036d", service.Hash(name), s.dropped+i)})
				}
			}
		}
		slices.SortStableFunc(all, func(a, b filteredOut) int { return cmp.Compare(a.At, b.At) })
		page, next, err := service.Page(all, in.Limit, in.Next, mostGetEvents, mostGetEvents, wire.InvalidParameter)
		out.Events, out.Next = append([]filteredOut{}, page...), next
		return err
	})
}

var wordForm = regexp.MustCompile(`-?"[^"]*"|\S+`)

func words(pattern string) []string {
	found := wordForm.FindAllString(pattern, -1)
	for i, w := range found {
		found[i] = strings.ReplaceAll(w, `"`, "")
	}
	return found
}

func matches(text string, want []string) bool {
	for _, w := range want {
		w, not := strings.CutPrefix(w, "-")
		if strings.Contains(text, w) == not {
			return false
		}
	}
	return true
}

type tagsIn struct {
	ARN  *string           `json:"resourceArn"`
	Tags map[string]string `json:"tags"`
	Keys []string          `json:"tagKeys"`
}

type tagsOut struct {
	Tags map[string]string `json:"tags"`
}

func (l *Logs) tag(_ context.Context, in *tagsIn) (*service.Nothing, error) {
	return &service.Nothing{}, l.found(in.ARN, nil, func(g *group) error {
		maps.Copy(g.tags, in.Tags)
		return nil
	})
}

func (l *Logs) untag(_ context.Context, in *tagsIn) (*service.Nothing, error) {
	return &service.Nothing{}, l.found(in.ARN, nil, func(g *group) error {
		for _, k := range in.Keys {
			delete(g.tags, k)
		}
		return nil
	})
}

func (l *Logs) listTags(_ context.Context, in *tagsIn) (*tagsOut, error) {
	out := &tagsOut{}
	return out, l.found(in.ARN, nil, func(g *group) error {
		out.Tags = maps.Clone(g.tags)
		return nil
	})
}

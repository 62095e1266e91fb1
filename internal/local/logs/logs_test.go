package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func keeping() (l *Logs, observed *[]string) {
	observed = &[]string{}
	return New(service.Account{Region: "us-east-1", ID: "000000000000"}, func() time.Time { return noon },
		func(line string, _ time.Time) { *observed = append(*observed, line) }), observed
}

// ask calls an operation, as it comes over the wire.
func ask[Out any](t *testing.T, l *Logs, name, in string) (*Out, error) {
	t.Helper()
	out, err := l.Service().Operations[name](context.Background(), func(v any) error { return json.Unmarshal([]byte(in), v) })
	if err != nil {
		return nil, err
	}
	return out.(*Out), nil
}

// TestOutput: what a container prints is there line by line, and is observed so; what is put into a line's middle is one.
func TestOutput(t *testing.T) {
	l, observed := keeping()
	o := l.Output("/g", "s")
	for _, part := range []string{"one\r\ntw", "o\n", strings.Repeat("x", longestOutput), "\nnot yet"} {
		if n, err := o.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(*observed) != 4 || (*observed)[0] != "one" || (*observed)[1] != "two" || len((*observed)[2]) != longestOutput || (*observed)[3] != "" {
		t.Errorf("observed %.20q", *observed)
	}
	out, err := ask[getEventsOut](t, l, "GetLogEvents", `{"logGroupName":"/g","logStreamName":"s","startFromHead":true,"limit":2}`)
	if err != nil || len(out.Events) != 2 || out.Events[1].Text != "two" || out.Forward != "f/2" {
		t.Errorf("%v %+v", err, out)
	}
}

// TestPut keeps events by time, refuses those in disorder, and leaves out those too old or too new.
func TestPut(t *testing.T) {
	l, _ := keeping()
	for name, in := range map[string]string{"CreateLogGroup": `{"logGroupName":"g","tags":{"k":"v"}}`} {
		if _, err := ask[service.Nothing](t, l, name, in); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask[service.Nothing](t, l, "CreateLogStream", `{"logGroupName":"g","logStreamName":"s"}`); err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) int64 { return noon.Add(d).UnixMilli() }
	put := func(ats ...int64) (*putEventsOut, error) {
		var events []string
		for i, ms := range ats {
			events = append(events, fmt.Sprintf(`{"timestamp":%d,"message":"m%d"}`, ms, i))
		}
		return ask[putEventsOut](t, l, "PutLogEvents", `{"logGroupName":"g","logStreamName":"s","logEvents":[`+strings.Join(events, ",")+`]}`)
	}
	out, err := put(at(-15*24*time.Hour), at(-time.Hour), at(0), at(3*time.Hour))
	if err != nil || out.Rejected == nil || *out.Rejected.Old != 1 || *out.Rejected.New != 3 {
		t.Errorf("%v %+v", err, out)
	}
	var f *wire.Fault
	if _, err := put(at(0), at(-1)); !errors.As(err, &f) || f.Code != wire.InvalidParameter {
		t.Errorf("in disorder: %v", err)
	}
	if _, err := put(at(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	found, err := ask[filterOut](t, l, "FilterLogEvents", `{"logGroupName":"g","filterPattern":"m -m1"}`)
	if err != nil || len(found.Events) != 2 || found.Events[0].Text != "m0" || found.Events[1].Text != "m2" {
		t.Errorf("%v %+v", err, found)
	}

	again, _ := keeping()
	again.Restore(l.Save())
	if d := cmp.Diff(l.Save(), again.Save()); d != "" {
		t.Error(d)
	}
}

// TestBounded: however much is logged, so much is kept.
func TestBounded(t *testing.T) {
	s := (&group{streams: map[string]*stream{}}).stream("s", noon)
	for i := range mostEvents + 1 {
		s.put(noon, Event{At: noon, Text: fmt.Sprint(i)})
	}
	if n := len(s.events); n > mostEvents || n+s.dropped != mostEvents+1 || s.events[n-1].Text != fmt.Sprint(mostEvents) {
		t.Errorf("%d events kept, %d dropped", n, s.dropped)
	}
}

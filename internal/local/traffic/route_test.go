package traffic

import (
	"io"
	"log"
	"testing"
	"time"

	"loadline/internal/local/logs"
	"loadline/internal/local/service"
	"loadline/internal/metric"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// idler is a container that does nothing.
type idler struct{}

func (idler) Addr() string { return "127.0.0.1:1" }
func (idler) Usage() Usage { return Usage{} }

func quiet(pooled bool) *Traffic {
	return New(Config{Account: service.Account{Region: "us-east-1", ID: "000000000000"}, Now: func() time.Time { return noon },
		Log: log.New(io.Discard, "", 0), Metrics: metric.NewStore(), Pooled: pooled, Seed: 7})
}

func with(t *testing.T, tr *Traffic, routing Routing, n int) (*Pool, []*Instance) {
	t.Helper()
	r, err := tr.NewRoute("e", []Variant{{"primary", routing, 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr.Serve(map[string]*Route{"e": r})
	var all []*Instance
	for range n {
		i := NewInstance((&logs.Logs{}).Output("g", "s"))
		r.Variant("primary").Add(i, idler{}, noon)
		all = append(all, i)
	}
	return r.Variant("primary"), all
}

// TestLeastOutstanding spreads requests evenly, whatever has ended before.
func TestLeastOutstanding(t *testing.T) {
	p, all := with(t, quiet(false), LeastOutstanding, 3)
	for range 9 {
		p.enter(noon)
	}
	for range 2 {
		p.leave(all[1], noon)
	}
	for range 2 {
		if i, n := p.enter(noon); i != all[1] || n != 3 {
			t.Errorf("the request went to one of %d that has more in flight", n)
		}
	}
	for k, i := range all {
		if i.inFlight != 3 {
			t.Errorf("instance %d has %d in flight", k, i.inFlight)
		}
	}
}

// TestLeaving: an instance that is removed takes nothing more, and is idle when what it has has ended.
func TestLeaving(t *testing.T) {
	p, all := with(t, quiet(false), Random, 2)
	for all[0].inFlight == 0 {
		p.enter(noon)
	}
	had := all[0].inFlight
	p.Remove(all[0])
	for range 20 {
		if i, n := p.enter(noon); i != all[1] || n != 1 {
			t.Fatal("a request reached an instance that was removed")
		}
	}
	for range had {
		select {
		case <-all[0].Idle():
			t.Fatal("it is idle with requests in flight")
		default:
		}
		p.leave(all[0], noon)
	}
	<-all[0].Idle()
	p.Remove(all[1])
	if i, _ := p.enter(noon); i != nil {
		t.Error("a request reached an instance where none is")
	}
}

// TestConcurrency is published for each instance or, pooled, as their mean.
func TestConcurrency(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		tr := quiet(pooled)
		p, _ := with(t, tr, LeastOutstanding, 2)
		for range 3 { // two on one of them
			p.enter(noon)
		}
		end := noon.Add(2 * ConcurrencyPeriod)
		tr.Publish(end)
		read := p.meter.concurrency.Read(noon.Add(ConcurrencyPeriod), end, ConcurrencyPeriod, end)
		want := [2]float64{1, 2}
		if pooled {
			want = [2]float64{1.5, 1.5}
		}
		if len(read) != 1 || read[0].Min != want[0] || read[0].Max != want[1] {
			t.Errorf("pooled %v: %+v, want %v", pooled, read, want)
		}
	}
}

// TestWeights: a variant without weight gets nothing, and where none has any there is none.
func TestWeights(t *testing.T) {
	r, err := quiet(false).NewRoute("e", []Variant{{"a", Random, 0}, {"b", Random, 0.5}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if p := r.pick(); p != r.Variant("b") {
			t.Fatal("a variant without weight was drawn")
		}
	}
	r.Variant("b").Weigh(0)
	if r.pick() != nil {
		t.Error("a variant was drawn where none has weight")
	}
}

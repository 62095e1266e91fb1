package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// hosts is an endpoint of one hosting variant whose instances hold two copies each, and a record of what happens.
type hosts struct {
	t   *testing.T
	e   *Endpoint
	at  time.Time
	out []string
	ids map[string]string
}

func newHosts(t *testing.T, initial int, h Hosting, faults Faults) *hosts {
	t.Helper()
	h.Room = Room{CPUs: 8, Accelerators: 2, Memory: 32_000}
	w := &hosts{t: t, at: time.Unix(0, 0), ids: map[string]string{}}
	e, events, err := New(Config{Name: "e", AtOnce: true, Variants: []VariantConfig{{Name: "v", InstanceType: "ml.g5.12xlarge", Initial: initial, Weight: 1,
		Stages: Stages{Provision: 100 * time.Second, Settle: 5 * time.Second}, Hosting: &h}}}, w.at, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	w.e = e
	w.saw(events)
	e.Faults = faults
	return w
}

func (w *hosts) name(id string) string {
	if id == "" {
		return ""
	}
	if w.ids[id] == "" {
		n := 0
		for other := range w.ids {
			if other[0] == id[0] {
				n++
			}
		}
		w.ids[id] = id[:1] + fmt.Sprint(n+1)
	}
	return w.ids[id]
}

func (w *hosts) saw(events []Event) {
	for _, ev := range events {
		w.out = append(w.out, strings.Join(strings.Fields(fmt.Sprint(ev.At.Unix(), " ", ev.Kind, " ", ev.Component, " ", w.name(ev.Instance), " ", w.name(ev.Host), " ", ev.Detail)), " "))
		w.at = ev.At
	}
}

func (w *hosts) do(events []Event, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	w.saw(events)
}

// run lets time pass; copies are healthy at once, and gone at once.
func (w *hosts) run(until int64) {
	for n := 0; ; {
		for ; n < len(w.out); n++ {
			f := strings.Fields(w.out[n])
			for id, name := range w.ids {
				if len(f) > 3 && f[3] == name && f[2] == "a" {
					switch Kind(f[1]) {
					case Start:
						w.saw(w.e.Healthy(id, w.at))
					case Drain:
						w.saw(w.e.Gone(id, w.at))
					}
				}
			}
		}
		due, ok := w.e.Next()
		if !ok || due.Unix() > until {
			break
		}
		w.at = due
		w.saw(w.e.Advance(due))
	}
	w.at = time.Unix(until, 0)
}

func (w *hosts) check(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.out, want) {
		w.t.Errorf("got\n%s\nwant\n%s", strings.Join(w.out, "\n"), strings.Join(want, "\n"))
	}
	w.out = nil
}

var need = Room{CPUs: 2, Accelerators: 1, Memory: 8000}

func TestComponentsGrowAndShrink(t *testing.T) {
	w := newHosts(t, 1, Hosting{Min: 0, Max: 3}, nil)
	w.check("0 provision i1", "0 hosts i1", "0 status InService")
	stages := Stages{Provision: 20 * time.Second, Settle: 2 * time.Second}
	w.do(w.e.CreateComponent(w.at, ComponentConfig{Name: "a", Variant: "v", Copies: 1, Need: need, Stages: stages}))
	w.run(60)
	w.check("0 component_status a Creating", "20 start a c1 i1", "22 in_service a c1 i1", "22 component_status a InService")

	// Four copies need two instances: one is there and has room for one more.
	w.at = time.Unix(100, 0)
	w.do(w.e.SetCopies(w.at, "a", 4))
	if _, err := w.e.SetCopies(w.at, "a", 5); !errors.Is(err, ErrInProgress) {
		t.Errorf("a second change: %v", err)
	}
	w.run(300)
	w.check("100 component_status a Updating", "100 provision i2", "120 start a c2 i1", "122 in_service a c2 i1",
		"205 hosts i2", "225 start a c3 i2", "225 start a c4 i2", "227 in_service a c3 i2", "227 in_service a c4 i2", "227 component_status a InService")
	if c := w.e.Components()[0]; c.Current() != 4 || c.Desired != 4 {
		t.Errorf("%+v", c)
	}

	// To nothing: the copies go, and a minute later the instances.
	w.do(w.e.SetCopies(w.at, "a", 0))
	w.run(400)
	w.check("300 component_status a Updating", "300 drain a c4 i2", "300 drain a c3 i2", "300 drain a c2 i1", "300 drain a c1 i1",
		"300 removed a c4 i2", "300 removed a c3 i2", "300 removed a c2 i1", "300 removed a c1 i1", "300 component_status a InService",
		"360 removed i1", "360 removed i2")
	if n := w.e.Held("ml.g5.12xlarge"); n != 0 || w.e.Status != InService {
		t.Errorf("%d instances are held, %s", n, w.e.Status)
	}

	// From nothing.
	w.do(w.e.SetCopies(w.at, "a", 1))
	w.run(600)
	w.check("400 component_status a Updating", "400 provision i3", "505 hosts i3", "525 start a c5 i3", "527 in_service a c5 i3", "527 component_status a InService")
	if _, err := w.e.Delete(w.at); err == nil {
		t.Error("an endpoint with components was deleted")
	}
	w.do(w.e.DeleteComponent(w.at, "a"))
	w.run(610)
	w.do(w.e.Delete(w.at))
	w.check("600 component_status a Deleting", "600 drain a c5 i3", "600 removed a c5 i3", "600 component_deleted a",
		"610 status Deleting", "610 stop i3 it is not wanted any more", "610 removed i3 it is not wanted any more", "610 deleted")
}

// TestComponentsRollBack: what does not find room, or is never healthy, takes its change down and nothing else.
func TestComponentsRollBack(t *testing.T) {
	w := newHosts(t, 1, Hosting{Min: 1, Max: 1}, nil)
	w.do(w.e.CreateComponent(w.at, ComponentConfig{Name: "a", Variant: "v", Copies: 1, Need: need, Stages: Stages{Placement: time.Minute, Health: 30 * time.Second}}))
	w.run(10)
	w.out = nil
	w.do(w.e.SetCopies(w.at, "a", 3)) // two fit
	w.run(200)
	w.check("10 component_status a Updating", "10 start a c2 i1", "10 in_service a c2 i1",
		"70 drain a c2 i1 Could not place a copy of inference component a: InsufficientInstanceCapacity",
		"70 removed a c3 Could not place a copy of inference component a: InsufficientInstanceCapacity", "70 removed a c2 i1", "70 component_status a InService")
	if c := w.e.Components()[0]; c.Desired != 1 || c.Current() != 1 || !strings.HasSuffix(c.Reason, "InsufficientInstanceCapacity") {
		t.Errorf("%+v", c)
	}
	w.e.Faults = Faults{FailHealth: 1}
	w.do(w.e.SetCopies(w.at, "a", 2))
	w.run(300)
	w.check("200 component_status a Updating", "200 start a c4 i1", "230 stop a c4 i1 The container of inference component a did not pass the ping health check within 30s.",
		"230 removed a c4 i1 The container of inference component a did not pass the ping health check within 30s.", "230 component_status a InService")

	// One that breaks while it serves is started again.
	w.e.Faults = nil
	id := w.e.Components()[0].Copies[0].ID
	w.saw(w.e.Broke(id, w.at, "exit status 1"))
	w.run(310)
	w.check("300 stop a c1 i1 exit status 1", "300 removed a c1 i1 exit status 1", "300 start a c1 i1", "300 in_service a c1 i1")
}

func TestComponentsRefuse(t *testing.T) {
	w := newHosts(t, 1, Hosting{Min: 1, Max: 1}, nil)
	for _, c := range []ComponentConfig{
		{Name: "a", Variant: "w", Copies: 1, Need: need},
		{Name: "a", Variant: "v", Copies: 0, Need: need},
		{Name: "a", Variant: "v", Copies: 1, Need: Room{CPUs: 9}},
	} {
		if _, err := w.e.CreateComponent(w.at, c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	var missing *ComponentError
	if _, err := w.e.SetCopies(w.at, "b", 1); !errors.As(err, &missing) {
		t.Errorf("%v", err)
	}
	two := 2
	if _, err := w.e.SetCapacity(w.at, []Change{{Variant: "v", Desired: &two}}, nil); err == nil {
		t.Error("instances that the platform manages were counted by hand")
	}
	if _, _, err := New(Config{Variants: []VariantConfig{{Name: "v", Initial: 0, Hosting: &Hosting{Min: 1, Max: 2}}}}, w.at, rand.New(rand.NewPCG(1, 2))); err == nil {
		t.Error("no instance where at least one is kept")
	}
}

package fleet

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// TestTranscripts runs each file of testdata: lines of commands, each followed by what came of it, indented.
//
//	new [at-once] VARIANT=N…        provision=100s settle=20s health=480s may follow
//	set VARIANT=N…                  quota=N may follow
//	update VARIANT=N…               a new configuration; retain, type=T, pinned and quota=N may follow
//	delete
//	fault KIND[:RATE]|none
//	at SECONDS                      advance
//	healthy|broke|gone ID           IDs are a, b, c… in the order in which they came
//	show
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(want) {
				t.Errorf("got:\n%s", got)
			}
			if again := replay(t, string(want)); again != got {
				t.Errorf("a second run differs:\n%s", again)
			}
		})
	}
}

func replay(t *testing.T, script string) string {
	var out strings.Builder
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	now := start
	names, ids := map[string]string{}, map[string]string{}
	var e *Endpoint
	var st Stages
	show := func(events []Event, err error) {
		for _, ev := range events {
			if ev.Instance != "" && names[ev.Instance] == "" {
				name := string(rune('a' + len(names)))
				names[ev.Instance], ids[name] = name, ev.Instance
			}
			line := fmt.Sprintf("  %gs %s", ev.At.Sub(start).Seconds(), ev.Kind)
			for _, s := range []string{ev.Variant, names[ev.Instance], ev.Detail} {
				if s != "" {
					line += " " + s
				}
			}
			for id, name := range names {
				line = strings.ReplaceAll(line, id, name)
			}
			fmt.Fprintln(&out, line)
		}
		if err != nil {
			fmt.Fprintf(&out, "  refused: %v\n", err)
		}
	}
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, " ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if e == nil && f[0] != "new" {
			t.Fatalf("%q comes before new", line)
		}
		switch f[0] {
		case "new":
			cfg := Config{Name: "speech"}
			for _, a := range f[1:] {
				k, v, _ := strings.Cut(a, "=")
				switch k {
				case "at-once":
					cfg.AtOnce = true
				case "provision", "settle", "health", "placement":
					d, err := time.ParseDuration(v)
					if err != nil {
						t.Fatal(err)
					}
					*map[string]*time.Duration{"provision": &st.Provision, "settle": &st.Settle, "health": &st.Health, "placement": &st.Placement}[k] = d
				default:
					cfg.Variants = append(cfg.Variants, VariantConfig{Name: k, InstanceType: "ml.g5.xlarge", Initial: atoi(t, v), Weight: 1})
				}
			}
			for i := range cfg.Variants {
				cfg.Variants[i].Stages = st
			}
			made, events, err := New(cfg, now, rand.New(rand.NewPCG(1, 2)))
			e = made
			show(events, err)
		case "set":
			var changes []Change
			var quota Quota
			for _, a := range f[1:] {
				k, v, _ := strings.Cut(a, "=")
				n := atoi(t, v)
				if k == "quota" {
					quota = func(it string) (int, int) { return n, e.Held(it) }
					continue
				}
				changes = append(changes, Change{Variant: k, Desired: &n})
			}
			show(e.SetCapacity(now, changes, quota))
		case "update":
			u := Update{}
			it := "ml.g5.xlarge"
			for _, a := range f[1:] {
				k, v, _ := strings.Cut(a, "=")
				switch k {
				case "retain":
					u.RetainCounts, u.RetainWeights = true, true
				case "type":
					it = v
				case "pinned":
					u.Scalable = func(string) bool { return true }
				case "quota":
					n := atoi(t, v)
					u.Quota = func(it string) (int, int) { return n, e.Held(it) }
				default:
					u.Variants = append(u.Variants, VariantConfig{Name: k, InstanceType: it, Initial: atoi(t, v), Weight: 1, Stages: st})
				}
			}
			show(e.Update(now, u))
		case "delete":
			show(e.Delete(now))
		case "fault":
			e.Faults = nil
			if f[1] != "none" {
				kind, rate, err := ParseFault(f[1])
				if err != nil {
					t.Fatal(err)
				}
				e.Faults = Faults{kind: rate}
			}
		case "at":
			now = start.Add(time.Duration(atoi(t, f[1])) * time.Second)
			show(e.Advance(now), nil)
		case "healthy":
			show(e.Healthy(ids[f[1]], now), nil)
		case "broke":
			show(e.Broke(ids[f[1]], now, "exit status 1"), nil)
		case "gone":
			show(e.Gone(ids[f[1]], now), nil)
		case "show":
			for _, v := range e.Variants() {
				fmt.Fprintf(&out, "  %s %s desired %d current %d held %d:", e.Status, v.Name, v.Desired, v.Current(), e.Held(v.InstanceType))
				for _, i := range v.Instances {
					fmt.Fprintf(&out, " %s %s since %gs", names[i.ID], i.Phase, i.Since.Sub(start).Seconds())
				}
				fmt.Fprintln(&out)
			}
			if next, ok := e.Next(); ok {
				fmt.Fprintf(&out, "  next at %gs\n", next.Sub(start).Seconds())
			}
			if e.Reason != "" {
				why := e.Reason
				for name, id := range ids {
					why = strings.ReplaceAll(why, id, name)
				}
				fmt.Fprintf(&out, "  %s\n", why)
			}
		default:
			t.Fatalf("unknown command %q", line)
		}
	}
	return out.String()
}

func atoi(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSetCapacityIsAllOrNothing(t *testing.T) {
	now := time.Unix(0, 0)
	e, events, err := New(Config{Name: "e", AtOnce: true, Variants: []VariantConfig{
		{Name: "a", InstanceType: "ml.g5.xlarge", Initial: 1, Weight: 1}, {Name: "b", InstanceType: "ml.g5.xlarge", Initial: 1, Weight: 1},
	}}, now, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		if ev.Kind == Start {
			e.Healthy(ev.Instance, now)
		}
	}
	two, zero, five := 2, 0, 5
	var (
		variant *VariantError
		count   *CountError
		limit   *LimitError
	)
	quota := func(string) (int, int) { return 4, 2 }
	for _, c := range []struct {
		changes []Change
		want    any
	}{
		{[]Change{{Variant: "a", Desired: &two}, {Variant: "c", Desired: &two}}, &variant},
		{[]Change{{Variant: "a", Desired: &two}, {Variant: "b", Desired: &zero}}, &count},
		{[]Change{{Variant: "a", Desired: &two}, {Variant: "b", Desired: &five}}, &limit},
	} {
		if _, err := e.SetCapacity(now, c.changes, quota); !errors.As(err, c.want) {
			t.Errorf("%v: got %v", c.changes, err)
		}
		for _, v := range e.Variants() {
			if v.Desired != 1 || e.Status != InService {
				t.Errorf("%v changed something: %s wants %d, status %s", c.changes, v.Name, v.Desired, e.Status)
			}
		}
	}
	if limit.Delta != 5 || limit.Used != 2 || limit.Limit != 4 {
		t.Errorf("the refusal says %v", limit)
	}
}

func TestNewRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, variants := range [][]VariantConfig{
		nil,
		{{Name: "a", Initial: 0}},
		{{Name: "a", Initial: 1}, {Name: "a", Initial: 1}},
	} {
		if _, _, err := New(Config{Name: "e", Variants: variants}, time.Unix(0, 0), rng); err == nil {
			t.Errorf("%v was taken", variants)
		}
	}
}

func TestParseFault(t *testing.T) {
	for s, want := range map[string]float64{"placement": 1, "quota:0.5": 0.5, "health:1": 1, "stuck:0.01": 0.01} {
		if kind, rate, err := ParseFault(s); err != nil || rate != want || !strings.HasPrefix(s, string(kind)) {
			t.Errorf("%s: %s %g %v", s, kind, rate, err)
		}
	}
	for _, s := range []string{"", "fire", "quota:", "quota:0", "quota:1.1", "quota:-1", "quota:NaN", "quota:x"} {
		if kind, rate, err := ParseFault(s); err == nil {
			t.Errorf("%q: %s %g", s, kind, rate)
		}
	}
}

// TestQuotaFault: the account's limit refuses, all or nothing, whatever it is.
func TestQuotaFault(t *testing.T) {
	now := time.Unix(0, 0)
	e, events, err := New(Config{Name: "e", AtOnce: true, Faults: Faults{FailQuota: 1},
		Variants: []VariantConfig{{Name: "a", InstanceType: "ml.g5.xlarge", Initial: 2}}}, now, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		if ev.Kind == Start {
			e.Healthy(ev.Instance, now)
		}
	}
	three, one := 3, 1
	var limit *LimitError
	if _, err := e.SetCapacity(now, []Change{{Variant: "a", Desired: &three}}, nil); !errors.As(err, &limit) || limit.Limit != 2 || limit.Delta != 1 {
		t.Errorf("%v", err)
	}
	if _, err := e.SetCapacity(now, []Change{{Variant: "a", Desired: &one}}, nil); err != nil {
		t.Errorf("fewer: %v", err)
	}
}

// TestSpread: the stages of many instances keep their mean and have the spread that was asked for.
func TestSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 20_000
	sum, squares := 0.0, 0.0
	for range n {
		v := Stages{Provision: 100 * time.Second, Spread: 0.3}.drawn(rng).Provision.Seconds()
		sum, squares = sum+v, squares+v*v
	}
	mean := sum / n
	if cv := math.Sqrt(squares/n-mean*mean) / mean; math.Abs(mean-100) > 1 || math.Abs(cv-0.3) > 0.01 {
		t.Errorf("mean %.1f s, spread %.3f", mean, cv)
	}
}

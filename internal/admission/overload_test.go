package admission

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// law is what a piece of size 1 costs, in seconds.
type law struct {
	name string
	draw func(*rand.Rand) float64
}

// laws have a mean of 100 ms.
var laws = []law{
	{"deterministic", func(*rand.Rand) float64 { return 0.1 }},
	{"lognormal cv 0.3", lognormal(0.3)},
	{"lognormal cv 0.6", lognormal(0.6)},
	{"bimodal 50/250", func(rng *rand.Rand) float64 {
		if rng.Float64() < 0.25 {
			return 0.25
		}
		return 0.05
	}},
}

func lognormal(cv float64) func(*rand.Rand) float64 {
	s2 := math.Log(1 + cv*cv)
	return func(rng *rand.Rand) float64 { return 0.1 * math.Exp(math.Sqrt(s2)*rng.NormFloat64()-s2/2) }
}

// crowd is what became of those who came, as shares.
type crowd struct {
	late       float64 // of those served
	good       float64 // in time, of what the places complete at best
	door, turn float64 // refused, of those who came
}

// ends is the ends of holds under way.
type ends []end

type end struct {
	at float64
	t  *Ticket
}

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

// crowded offers load times what the places complete, at random instants, to a gate that predicts: ten minutes' worth of one
// place for each of the seeds. bare takes the gate's margin away.
func crowded(l law, places int, slo time.Duration, load float64, seeds uint64, bare bool) crowd {
	const mean = 0.1
	span := 600 / float64(places)
	rate := load * float64(places) / mean
	var offered, door, turn, served, late float64
	clock := func(s float64) time.Time { return epoch.Add(time.Duration(s * 1e9)) }
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 77))
		g := New(Config{Depth: 50 * places, Places: places, SLO: slo, Predict: true})
		var run ends
		for next := rng.ExpFloat64() / rate; next < span || len(run) > 0; {
			now := next
			if len(run) > 0 && run[0].at <= next {
				e := heap.Pop(&run).(end)
				now = e.at
				served++
				if clock(now).Sub(e.t.arrived) > slo {
					late++
				}
				g.Release(e.t, clock(now))
			} else {
				offered++
				if t, err := g.Admit(clock(now), true); err != nil {
					door++
				} else {
					g.Queue(t, clock(now), Piece{Size: 1})
				}
				if next += rng.ExpFloat64() / rate; next >= span {
					next = math.Inf(1)
				}
			}
			if bare {
				g.margin = 0
			}
			for t := g.Next(clock(now)); t != nil; t = g.Next(clock(now)) {
				if t.Refused() != nil {
					turn++
					g.Release(t, clock(now))
					continue
				}
				heap.Push(&run, end{now + l.draw(rng), t})
			}
		}
	}
	return crowd{late / served, (served - late) * mean / (600 * float64(seeds)), door / offered, turn / offered}
}

// TestMargin: at three times what is completed, whatever the law of the costs, at most 1 % of those served are late where the
// objective is ten costs or more, and the places do hardly less in time than they can; at 0.8 of it hardly more are refused.
func TestMargin(t *testing.T) {
	for _, l := range laws {
		for _, places := range []int{1, 4} {
			for _, slo := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second} {
				for _, load := range []float64{0.8, 3} {
					bare, got := crowded(l, places, slo, load, 2, true), crowded(l, places, slo, load, 2, false)
					show := func(c crowd) string {
						return fmt.Sprintf("late %.2f %%, good %.1f %%, refused at the door %.2f %%, at its turn %.2f %%", 100*c.late, 100*c.good, 100*c.door, 100*c.turn)
					}
					t.Logf("%s, %d places, within %v, load %g: %s (without margin: %s)", l.name, places, slo, load, show(got), show(bare))
					switch {
					case slo < time.Second:
						if got.late > max(0.02, bare.late/5) && load > 1 {
							t.Error("late though the objective is three costs")
						}
					case got.late > 0.01:
						t.Error("late")
					case load > 1 && got.good < 0.95:
						t.Error("idle, or late")
					case load < 1 && got.door+got.turn > bare.door+bare.turn+0.01:
						t.Error("refused more")
					}
				}
			}
		}
	}
}

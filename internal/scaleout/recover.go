package scaleout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"loadline/internal/sample"
)

// fewest is how many replies a window must hold before its quantile says anything.
const fewest = 20

// Reply is one reply of the probe.
type Reply struct {
	At      sample.Nanos // when it was had: first audio, or the end of one that failed
	Latency float64      // seconds; +Inf for one that failed
}

// Rule says when traffic has recovered: where requests go to the least loaded instance, once the quantile of a window's
// latencies is at most Target; where they go anywhere, once a window completes Rate a second.
type Rule struct {
	Window   time.Duration
	Quantile float64 // 0.95
	Target   float64 // seconds; 0: Rate decides
	Rate     float64 // completions a second
}

// Recovery is when traffic had recovered.
type Recovery struct {
	At    sample.Nanos // None: it had not
	Why   string       // where it had not
	After float64      // the highest quantile of any window from At on, seconds: within Target where that decided
	Rate  float64      // the lowest rate of any such window
	Held  time.Duration
}

// Recover is the first instant, not before from, from which every window of the rule up to the end of the probe keeps it.
// A window's leading part must keep it too, as soon as it holds enough replies: a quantile lets some replies be slow, and
// those that came before the recovery would otherwise hide at the start of the first window.
//
// The windows that decide are the ones that After and Rate are taken from, so the two cannot disagree.
func Recover(replies []Reply, from, end sample.Nanos, rule Rule) Recovery {
	rs := slices.Clone(replies)
	slices.SortStableFunc(rs, func(a, b Reply) int { return cmp.Compare(a.At, b.At) })
	first, _ := slices.BinarySearchFunc(rs, from, func(r Reply, at sample.Nanos) int { return cmp.Compare(r.At, at) })
	last, _ := slices.BinarySearchFunc(rs, end, func(r Reply, at sample.Nanos) int { return cmp.Compare(r.At, at+1) })
	rs = rs[first:max(first, last)]
	none := func(format string, args ...any) Recovery {
		return Recovery{At: sample.None, Why: fmt.Sprintf(format, args...)}
	}
	w := sample.Nanos(rule.Window)
	if (end - from) < w {
		return none("the probe went on for %s after the instance was in service: less than one window of %s", (end - from).Duration(), rule.Window)
	}
	cum := make([]tally, len(rs)+1)
	for i, r := range rs {
		cum[i+1] = cum[i].add(r, rule.Target)
	}
	// The last window that can decide starts a whole one before the end.
	starts, _ := slices.BinarySearchFunc(rs, end-w, func(r Reply, at sample.Nanos) int { return cmp.Compare(r.At, at+1) })
	at := -1
	to := len(rs)
	why := "no reply came after the instance was in service"
	for i := starts - 1; i >= 0; i-- {
		for to > i && rs[to-1].At >= rs[i].At+w {
			to--
		}
		ok, reason := rule.keeps(cum[to].less(cum[i]))
		if !ok {
			why = reason
			break
		}
		at = i
	}
	if at < 0 {
		return none("%s in the last window of %s", why, rule.Window)
	}
	for at < starts && !rule.leads(rs[at:]) {
		at++
	}
	if at >= starts {
		return none("it was never kept from its very beginning on")
	}
	r := Recovery{At: rs[at].At, Rate: math.Inf(1), Held: (end - rs[at].At).Duration()}
	step := max(1, (starts-at)/64)
	for i := at; i < starts; i += step {
		j, _ := slices.BinarySearchFunc(rs, rs[i].At+w, func(r Reply, at sample.Nanos) int { return cmp.Compare(r.At, at) })
		r.After = max(r.After, Quantile(rs[i:j], rule.Quantile))
		r.Rate = min(r.Rate, good(rs[i:j])/rule.Window.Seconds())
	}
	return r
}

// tally counts replies: all, those later than the target, and those that succeeded.
type tally struct{ n, late, good int }

func (t tally) add(r Reply, target float64) tally {
	t.n++
	if !(r.Latency <= target) {
		t.late++
	}
	if !math.IsInf(r.Latency, 1) {
		t.good++
	}
	return t
}

func (t tally) less(o tally) tally { return tally{t.n - o.n, t.late - o.late, t.good - o.good} }

// keeps says whether a whole window keeps the rule.
func (rule Rule) keeps(t tally) (bool, string) {
	if t.n < fewest {
		return false, fmt.Sprintf("only %d replies came", t.n)
	}
	if rule.Target > 0 {
		return t.late <= t.n-rank(t.n, rule.Quantile), fmt.Sprintf("%d of %d replies came later than %.0f ms", t.late, t.n, 1000*rule.Target)
	}
	rate := float64(t.good) / rule.Window.Seconds()
	return rate >= rule.Rate, fmt.Sprintf("%.1f completed a second, of %.1f", rate, rule.Rate)
}

// leads says whether every beginning of the window at rs[0], from a few replies on, keeps the rule.
func (rule Rule) leads(rs []Reply) bool {
	late := 0
	for n, r := range rs {
		if r.At-rs[0].At >= sample.Nanos(rule.Window) {
			return true
		}
		count := n + 1
		if rule.Target > 0 {
			if !(r.Latency <= rule.Target) {
				late++
			}
			if late > 0 && (count == 1 || count >= fewest && late > count-rank(count, rule.Quantile)) {
				return false
			}
			continue
		}
		past := (r.At - rs[0].At).Duration()
		if past >= rule.Window/12 && good(rs[:count])/past.Seconds() < rule.Rate {
			return false
		}
	}
	return true
}

// Quantile is the order statistic of the latencies, +Inf for none.
func Quantile(rs []Reply, q float64) float64 {
	if len(rs) == 0 {
		return math.Inf(1)
	}
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = r.Latency
	}
	slices.Sort(v)
	return v[rank(len(v), q)-1]
}

// rank is which of n, from 1, the quantile is.
func rank(n int, q float64) int {
	return min(n, max(1, int(math.Ceil(q*float64(n)-1e-9))))
}

func good(rs []Reply) float64 {
	n := 0
	for _, r := range rs {
		if !math.IsInf(r.Latency, 1) {
			n++
		}
	}
	return float64(n)
}

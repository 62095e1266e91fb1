package autoscale

import (
	"fmt"
	"strings"
	"time"
)

// Unknowns are what AWS does not publish, as switches. The zero value is every switch's first setting.
type Unknowns struct {
	Statistic Statistic     // what a managed alarm reads of the concurrency metrics
	Across    Across        // how a metric of several instances becomes one number; the publisher's to follow
	Datapoint Datapoint     // which datapoints target tracking computes with
	Rounding  Rounding      // of what target tracking removes
	Updating  WhileUpdating // what becomes of a decision that comes while the resource changes
	Guard     FlappingGuard // whether a removal that would call for an addition is refused
	Router    Router        // how requests find an instance; the endpoint's to follow
	Delay     time.Duration // from the end of a period until it can be read, 0 to 120 s
}

// The switches' types. Each is one of two settings; the first is the zero value.
type (
	Statistic     int
	Across        int
	Datapoint     int
	Rounding      int
	WhileUpdating int
	FlappingGuard int
	Router        int
)

// The settings.
const (
	Max     Statistic = iota // the maximum of a period
	Average                  // its mean
)
const (
	AcrossMax  Across = iota // each instance is a series of samples: Maximum is over instances, Average their mean
	AcrossMean               // their mean at each moment is the one series
)
const (
	Last Datapoint = iota // the newest one that was evaluated
	Mean                  // the mean of all that were evaluated
)
const (
	Ceil         Rounding = iota // current × metric ÷ target, rounded up, in both directions
	Conservative                 // as that, and never more than one removed at a time
)
const (
	Refuse WhileUpdating = iota // it is dropped, and made anew while the alarm lasts
	Queue                       // it waits for the change under way to end
)
const (
	GuardOn  FlappingGuard = iota // a removal after which the metric would lie above the target is refused
	GuardOff                      // a low alarm removes at least one
)
const (
	RandomRouter Router = iota
	LeastOutstanding
)

// MaxDelay is the longest publication delay that the switch takes.
const MaxDelay = 120 * time.Second

// switches are the names that settings go by on the command line and in plans.
var switches = []struct {
	name     string
	settings [2]string
	at       func(*Unknowns) *int
}{
	{"alarm_statistic", [2]string{"max", "average"}, func(u *Unknowns) *int { return (*int)(&u.Statistic) }},
	{"metric_across_instances", [2]string{"max", "mean"}, func(u *Unknowns) *int { return (*int)(&u.Across) }},
	{"tt_datapoint", [2]string{"last", "mean"}, func(u *Unknowns) *int { return (*int)(&u.Datapoint) }},
	{"tt_rounding", [2]string{"ceil", "conservative"}, func(u *Unknowns) *int { return (*int)(&u.Rounding) }},
	{"scale_while_updating", [2]string{"refuse", "queue"}, func(u *Unknowns) *int { return (*int)(&u.Updating) }},
	{"flapping_guard", [2]string{"on", "off"}, func(u *Unknowns) *int { return (*int)(&u.Guard) }},
	{"router", [2]string{"random", "lor"}, func(u *Unknowns) *int { return (*int)(&u.Router) }},
}

const delayName = "publication_delay_s"

// Set changes one switch, written name=setting; publication_delay_s takes a number of seconds.
func (u *Unknowns) Set(assignment string) error {
	name, setting, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("%q is no setting of an unknown: write NAME=SETTING, NAME one of %s", assignment, strings.Join(Names(), ", "))
	}
	if name == delayName {
		d, err := time.ParseDuration(strings.TrimSuffix(setting, "s") + "s")
		if err != nil || d < 0 || d > MaxDelay {
			return fmt.Errorf("%s=%s: it takes 0 to %g seconds", name, setting, MaxDelay.Seconds())
		}
		u.Delay = d
		return nil
	}
	for _, s := range switches {
		if s.name != name {
			continue
		}
		for i, known := range s.settings {
			if known == setting {
				*s.at(u) = i
				return nil
			}
		}
		return fmt.Errorf("%s=%s: it takes %s or %s", name, setting, s.settings[0], s.settings[1])
	}
	return fmt.Errorf("there is no unknown %q: there are %s", name, strings.Join(Names(), ", "))
}

// String is every setting, in the form that Set takes, separated by spaces.
func (u Unknowns) String() string {
	var b strings.Builder
	for _, s := range switches {
		fmt.Fprintf(&b, "%s=%s ", s.name, s.settings[*s.at(&u)])
	}
	fmt.Fprintf(&b, "%s=%g", delayName, u.Delay.Seconds())
	return b.String()
}

// Names of the switches.
func Names() []string {
	var names []string
	for _, s := range switches {
		names = append(names, s.name)
	}
	return append(names, delayName)
}

// Variation is a setting of the unknowns, by what differs from the usual one.
type Variation struct {
	Name string // name=setting; empty for the usual one
	Unknowns
}

// Variations are u itself, then u with each unknown at its other setting, one at a time; the publication delay goes to
// both of its ends.
func (u Unknowns) Variations() []Variation {
	all := []Variation{{"", u}}
	for _, s := range switches {
		v := u
		at := s.at(&v)
		*at = 1 - *at
		all = append(all, Variation{s.name + "=" + s.settings[*at], v})
	}
	for _, d := range []time.Duration{0, MaxDelay} {
		if d != u.Delay {
			v := u
			v.Delay = d
			all = append(all, Variation{fmt.Sprintf("%s=%g", delayName, d.Seconds()), v})
		}
	}
	return all
}

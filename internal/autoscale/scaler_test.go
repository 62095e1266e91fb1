package autoscale

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestResources is row TG4.
func TestResources(t *testing.T) {
	for id, want := range map[string]Resource{
		"endpoint/tts/variant/primary":   {Endpoint: "tts", Variant: "primary"},
		"inference-component/tts-copy-1": {Component: "tts-copy-1"},
	} {
		r, err := ParseResource(id)
		if err != nil || r != want || r.ID() != id {
			t.Errorf("%s: %+v %v", id, r, err)
		}
	}
	if d := (Resource{Component: "c"}).Dimension(); d != "sagemaker:inference-component:DesiredCopyCount" {
		t.Error(d)
	}
	for _, id := range []string{"", "tts/primary", "endpoint/tts/variant/", "variant/primary/endpoint/tts", "endpoint/t_s/variant/primary",
		"endpoint/tts-/variant/primary", "inference-component/", "endpoint/" + strings.Repeat("a", 64) + "/variant/v"} {
		var e *Error
		if _, err := ParseResource(id); !errors.As(err, &e) || e.Code != Validation {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// everything is a fleet in which every resource has one instance.
type everything struct{}

func (everything) Capacity(string) (Capacity, error)        { return Capacity{Desired: 1, Current: 1}, nil }
func (everything) SetCapacity(string, time.Time, int) error { return nil }

// TestLimits is rows TG7 and SC8.
func TestLimits(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := New(Config{Fleet: everything{}, Rand: rand.New(rand.NewPCG(1, 2))})
	one := 1
	limited := func(what string, most int, put func(i int) error) {
		t.Helper()
		for i := range most {
			if err := put(i); err != nil {
				t.Fatalf("%s %d: %v", what, i, err)
			}
		}
		var e *Error
		if err := put(most); !errors.As(err, &e) || e.Code != LimitExceeded {
			t.Errorf("%s %d: %v", what, most, err)
		}
		if err := put(0); err != nil {
			t.Errorf("a change of %s 0: %v", what, err)
		}
	}
	limited("target", MostTargets, func(i int) error {
		_, err := s.Register(now, Registration{Resource: fmt.Sprintf("endpoint/e%d/variant/v", i), Min: &one, Max: &one})
		return err
	})
	if _, err := s.Register(now, Registration{Resource: "inference-component/c", Min: &one, Max: &one}); err != nil {
		t.Errorf("a target of another type: %v", err)
	}
	limited("policy", MostPolicies, func(i int) error {
		zero := 0.0
		_, err := s.PutPolicy(now, Policy{Name: fmt.Sprint("p", i), Resource: "endpoint/e1/variant/v",
			Step: &Step{Adjustment: ChangeInCapacity, Steps: []StepAdjustment{{Lower: &zero, Change: 1}}}})
		return err
	})
	limited("scheduled action", MostScheduled, func(i int) error {
		_, err := s.PutScheduled(now, Scheduled{Name: fmt.Sprint("s", i), Resource: "endpoint/e1/variant/v", Schedule: "rate(1 day)", Min: &one})
		return err
	})
	if n := len(s.Policies("endpoint/e1/variant/v")); n != MostPolicies {
		t.Errorf("%d policies", n)
	}
}

// TestActivitiesAge is row AC12.
func TestActivitiesAge(t *testing.T) {
	w := newWorld(t)
	w.run("fleet 2\ntarget 1 9\nschedule daily rate(1 day); max=9\nrun 1680h")
	log := w.s.Activities(resource)
	oldest := log[len(log)-1].Start
	if age := w.now.Sub(oldest); age > KeepActivities+24*time.Hour || len(log) != 43 {
		t.Errorf("%d activities, the oldest %s old", len(log), age)
	}
}

// TestNames is rows TT22 and TT26: ARNs and alarms as AWS forms them.
func TestNames(t *testing.T) {
	w := newWorld(t)
	w.run("fleet 2\ntarget 1 9\ntrack rate rate 70\nschedule s rate(1 day); max=9")
	const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
	p := w.s.Policies("")[0]
	a, ok := w.s.Alarm(p.Alarms[0].Name)
	if !ok {
		t.Fatal("the high alarm is missing")
	}
	for got, want := range map[string]string{
		p.ARN:                      `arn:aws:autoscaling:us-east-1:000000000000:scalingPolicy:` + uuid + `:resource/sagemaker/endpoint/tts/variant/primary:policyName/rate`,
		p.Alarms[0].Name:           `TargetTracking-endpoint/tts/variant/primary-AlarmHigh-` + uuid,
		p.Alarms[1].Name:           `TargetTracking-endpoint/tts/variant/primary-AlarmLow-` + uuid,
		a.ARN:                      `arn:aws:cloudwatch:us-east-1:000000000000:alarm:TargetTracking-endpoint/tts/variant/primary-AlarmHigh-` + uuid,
		a.Description:              `DO NOT EDIT OR DELETE\. For TargetTrackingScaling policy arn:.*`,
		w.s.Targets()[0].ARN:       `arn:aws:application-autoscaling:us-east-1:000000000000:scalable-target/[0-9a-f]{16}`,
		w.s.Scheduled("")[0].ARN:   `arn:aws:autoscaling:us-east-1:000000000000:scheduledAction:` + uuid + `:resource/sagemaker/endpoint/tts/variant/primary:scheduledActionName/s`,
		fmt.Sprint(a.AlarmActions): regexp.QuoteMeta("[" + p.ARN + "]"),
		fmt.Sprint(a.Query.Dims):   regexp.QuoteMeta("[{EndpointName tts} {VariantName primary}]"),
	} {
		if !regexp.MustCompile(`^` + want + `$`).MatchString(got) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	before := p.Alarms
	w.run("track rate rate 50")
	if after := w.s.Policies("")[0].Alarms; !slices.Equal(before, after) {
		t.Errorf("a changed policy has other alarms: %v, %v", before, after)
	}
	if a, _ := w.s.Alarm(before[0].Name); a.Threshold != 50 {
		t.Errorf("the alarm keeps the old target: %g", a.Threshold)
	}
}

func TestUnknowns(t *testing.T) {
	var u Unknowns
	const usual = "alarm_statistic=max metric_across_instances=max tt_datapoint=last tt_rounding=ceil scale_while_updating=refuse flapping_guard=on router=random publication_delay_s=0"
	if u.String() != usual {
		t.Errorf("the zero value is %s", u)
	}
	all := u.Variations()
	if len(all) != 9 || all[0].Name != "" {
		t.Errorf("%d variations", len(all))
	}
	seen := map[string]bool{}
	for _, v := range all {
		seen[v.String()] = true
		var again Unknowns
		for _, s := range strings.Fields(v.String()) {
			if err := again.Set(s); err != nil {
				t.Error(err)
			}
		}
		if again != v.Unknowns {
			t.Errorf("%s reads back as %s", v, again)
		}
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d variations differ", len(seen), len(all))
	}
	for _, bad := range []string{"", "alarm_statistic", "alarm_statistic=median", "speed=high", "publication_delay_s=121", "publication_delay_s=-1", "publication_delay_s=x"} {
		if err := u.Set(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if u != (Unknowns{}) {
		t.Errorf("a refused setting changed something: %s", u)
	}
	if err := u.Set("publication_delay_s=45"); err != nil || u.Delay != 45*time.Second {
		t.Errorf("%v %s", err, u.Delay)
	}
}

// TestReaction: from the breach to the decision there are 30 s and the publication delay for a high-resolution metric, 180
// s and the delay for any other.
func TestReaction(t *testing.T) {
	for _, delay := range []int{0, 30, 60, 120} {
		for metric, want := range map[string]int{"fast": 30, "rate": 180} {
			w := newWorld(t)
			w.run(fmt.Sprintf("unknown publication_delay_s=%d\nfleet 2\ntarget 1 9\ntrack p %s 5\nmetric %s 4 since=1h\nrun 30m", delay, metric, metric))
			breach := w.now
			w.out.Reset()
			w.run("metric " + metric + " 8\nrun 6m")
			log := w.s.Activities(resource)
			if len(log) == 0 {
				t.Fatalf("%s with %d s: nothing happened", metric, delay)
			}
			if took := log[len(log)-1].Start.Sub(breach); took > time.Duration(want+delay)*time.Second {
				t.Errorf("%s with a delay of %d s: %s", metric, delay, took)
			}
		}
	}
}

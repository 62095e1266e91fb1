package autoscale

import (
	"slices"
	"strings"
	"time"

	"loadline/internal/alarm"
)

// PutAlarm makes an alarm, or changes one: its state stays, and is evaluated anew.
func (s *Scaler) PutAlarm(now time.Time, a alarm.Alarm) error {
	if err := a.Check(); err != nil {
		return refuse(Validation, "%s", err)
	}
	a.ARN = s.arn("cloudwatch", "alarm:"+a.Name)
	made := alarm.New(a, now, s.cfg.Unknowns.Delay)
	i, found := s.alarmAt(a.Name)
	if found {
		made.Inherit(s.alarms[i])
		s.alarms[i] = made
	} else {
		s.alarms = slices.Insert(s.alarms, i, made)
	}
	return nil
}

func (s *Scaler) alarmAt(name string) (int, bool) {
	return slices.BinarySearchFunc(s.alarms, name, func(a *alarm.Watch, n string) int { return strings.Compare(a.Name, n) })
}

func (s *Scaler) alarm(name string) *alarm.Watch {
	if i, found := s.alarmAt(name); found {
		return s.alarms[i]
	}
	return nil
}

// DeleteAlarm removes an alarm; false when there is none. A policy whose alarm is gone does nothing any more.
func (s *Scaler) DeleteAlarm(name string) bool {
	i, found := s.alarmAt(name)
	if found {
		s.alarms = slices.Delete(s.alarms, i, i+1)
	}
	return found
}

// EnableActions lets an alarm's actions be invoked, or not; an alarm that is not there is no matter.
func (s *Scaler) EnableActions(name string, on bool) {
	if a := s.alarm(name); a != nil {
		a.ActionsEnabled = on
	}
}

// Alarms are all alarms, by name.
func (s *Scaler) Alarms() []alarm.Alarm {
	out := make([]alarm.Alarm, len(s.alarms))
	for i, a := range s.alarms {
		out[i] = a.Alarm
	}
	return out
}

// Alarm is the alarm of that name.
func (s *Scaler) Alarm(name string) (alarm.Alarm, bool) {
	if a := s.alarm(name); a != nil {
		return a.Alarm, true
	}
	return alarm.Alarm{}, false
}

// Changes are the last changes of an alarm's state, oldest first.
func (s *Scaler) Changes(name string) []alarm.Change {
	if a := s.alarm(name); a != nil {
		return a.Changes()
	}
	return nil
}

// SetAlarmState puts an alarm into a state until it is next evaluated, and invokes the actions of ALARM.
func (s *Scaler) SetAlarmState(now time.Time, name string, to alarm.State, reason string) error {
	a := s.alarm(name)
	switch {
	case a == nil:
		return refuse(NotFound, "There is no alarm %q.", name)
	case to != alarm.OK && to != alarm.InAlarm && to != alarm.InsufficientData:
		return refuse(Validation, "The value %q for parameter StateValue is invalid: it must be OK, ALARM or INSUFFICIENT_DATA.", to)
	}
	a.Set(now, to, reason)
	if to == alarm.InAlarm {
		a.Acted(now)
		s.fire(now, []*alarm.Watch{a})
	}
	return nil
}

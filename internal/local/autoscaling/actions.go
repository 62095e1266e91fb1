package autoscaling

import (
	"context"
	"slices"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/local/service"
	"loadline/internal/wire"
)

type targetAction struct {
	MinCapacity *int `json:",omitempty"`
	MaxCapacity *int `json:",omitempty"`
}

type putScheduledIn struct {
	ServiceNamespace, Schedule, Timezone, ScheduledActionName, ResourceId, ScalableDimension *string
	StartTime, EndTime                                                                       *wire.Stamp
	ScalableTargetAction                                                                     *targetAction
}

func (s *Autoscaling) putScheduled(_ context.Context, in *putScheduledIn) (*service.Nothing, error) {
	id, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension)
	if err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	a := autoscale.Scheduled{Name: service.Or(in.ScheduledActionName, ""), Resource: id}
	for _, old := range s.scaler.Scheduled(id) {
		if old.Name == a.Name {
			a = old // what is not given stays
		}
	}
	a.Schedule, a.Timezone = service.Or(in.Schedule, a.Schedule), service.Or(in.Timezone, a.Timezone)
	if a.Timezone != "" {
		if a.Location, err = time.LoadLocation(a.Timezone); err != nil || a.Timezone == "Local" {
			return nil, wire.Refuse(wire.ValidationException, "The time zone %q is not known: it is a canonical name such as Europe/Berlin.", a.Timezone)
		}
	}
	if in.StartTime != nil {
		a.Start = in.StartTime.Time
	}
	if in.EndTime != nil {
		a.End = in.EndTime.Time
	}
	if in.ScalableTargetAction != nil {
		a.Min, a.Max = in.ScalableTargetAction.MinCapacity, in.ScalableTargetAction.MaxCapacity
	}
	if _, err := s.scaler.PutScheduled(s.now(), a); err != nil {
		return nil, Fault(err)
	}
	s.changed()
	return &service.Nothing{}, nil
}

type scheduledNameIn struct {
	ServiceNamespace, ScheduledActionName, ResourceId, ScalableDimension *string
}

func (s *Autoscaling) deleteScheduled(_ context.Context, in *scheduledNameIn) (*service.Nothing, error) {
	id, err := scalable(in.ServiceNamespace, in.ResourceId, in.ScalableDimension)
	if err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	return &service.Nothing{}, Fault(s.scaler.DeleteScheduled(id, service.Or(in.ScheduledActionName, "")))
}

type describeScheduledIn struct {
	ScheduledActionNames                                       []string
	ServiceNamespace, ResourceId, ScalableDimension, NextToken *string
	MaxResults                                                 *int
}

type describeScheduledOut struct {
	ScheduledActions []scheduledAction
	NextToken        string `json:",omitempty"`
}

type scheduledAction struct {
	ScheduledActionName, ScheduledActionARN, ServiceNamespace, Schedule string
	Timezone                                                            string `json:",omitempty"`
	ResourceId, ScalableDimension                                       string
	StartTime                                                           *wire.Stamp `json:",omitempty"`
	EndTime                                                             *wire.Stamp `json:",omitempty"`
	ScalableTargetAction                                                targetAction
	CreationTime                                                        wire.Stamp
}

func (s *Autoscaling) describeScheduled(_ context.Context, in *describeScheduledIn) (*describeScheduledOut, error) {
	if err := within(in.ServiceNamespace, in.ResourceId, in.ScalableDimension); err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	all := []scheduledAction{}
	for _, a := range s.scaler.Scheduled(service.Or(in.ResourceId, "")) {
		if len(in.ScheduledActionNames) > 0 && !slices.Contains(in.ScheduledActionNames, a.Name) {
			continue
		}
		r, _ := autoscale.ParseResource(a.Resource)
		all = append(all, scheduledAction{ScheduledActionName: a.Name, ScheduledActionARN: a.ARN, ServiceNamespace: sagemakerNamespace,
			Schedule: a.Schedule, Timezone: a.Timezone, ResourceId: a.Resource, ScalableDimension: r.Dimension(),
			StartTime: service.StampOf(a.Start), EndTime: service.StampOf(a.End), ScalableTargetAction: targetAction{a.Min, a.Max}, CreationTime: wire.At(a.Created)})
	}
	page, next, err := service.Page(all, in.MaxResults, in.NextToken, 50, 50, wire.InvalidNextToken)
	if err != nil {
		return nil, err
	}
	return &describeScheduledOut{page, next}, nil
}

type describeActivitiesIn struct {
	ServiceNamespace, ResourceId, ScalableDimension, NextToken *string
	MaxResults                                                 *int
	IncludeNotScaledActivities                                 *bool
}

type describeActivitiesOut struct {
	ScalingActivities []scalingActivity
	NextToken         string `json:",omitempty"`
}

type scalingActivity struct {
	ActivityId, ServiceNamespace, ResourceId, ScalableDimension, Description, Cause string
	StartTime                                                                       wire.Stamp
	EndTime                                                                         *wire.Stamp `json:",omitempty"`
	StatusCode                                                                      string
	StatusMessage                                                                   string            `json:",omitempty"`
	NotScaledReasons                                                                []notScaledReason `json:",omitempty"`
}

type notScaledReason struct {
	Code                                      string
	MaxCapacity, MinCapacity, CurrentCapacity *int `json:",omitempty"`
}

func (s *Autoscaling) describeActivities(_ context.Context, in *describeActivitiesIn) (*describeActivitiesOut, error) {
	if err := within(in.ServiceNamespace, in.ResourceId, in.ScalableDimension); err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	all := []scalingActivity{}
	for _, a := range s.scaler.Activities(service.Or(in.ResourceId, "")) {
		if a.NotScaled != "" && !service.Or(in.IncludeNotScaledActivities, false) {
			continue
		}
		r, _ := autoscale.ParseResource(a.Resource)
		out := scalingActivity{ActivityId: a.ID, ServiceNamespace: sagemakerNamespace, ResourceId: a.Resource, ScalableDimension: r.Dimension(),
			Description: a.Description, Cause: a.Cause, StartTime: wire.At(a.Start), EndTime: service.StampOf(a.End), StatusCode: string(a.Status), StatusMessage: a.Message}
		if a.NotScaled != "" {
			reason := notScaledReason{Code: a.NotScaled}
			switch a.NotScaled {
			case autoscale.AtMax:
				reason.MaxCapacity = &a.Capacity
			case autoscale.AtMin:
				reason.MinCapacity = &a.Capacity
			default:
				reason.CurrentCapacity = &a.Capacity
			}
			out.NotScaledReasons = []notScaledReason{reason}
		}
		all = append(all, out)
	}
	page, next, err := service.Page(all, in.MaxResults, in.NextToken, 50, 50, wire.InvalidNextToken)
	if err != nil {
		return nil, err
	}
	return &describeActivitiesOut{page, next}, nil
}

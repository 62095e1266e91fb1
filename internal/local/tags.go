package local

import (
	"context"
	"strings"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// Tags of CloudWatch's alarms and dashboards. SageMaker's are in sagemaker.go, those of scalable targets in
// autoscaling.go, Logs' in logs.go.

type cwTagsIn struct {
	ResourceARN *string
	Tags        []service.Tag
	TagKeys     []string
}

type cwTagsOut struct{ Tags []service.Tag }

// cwTagged is the ARN of an alarm or a dashboard that is there. l.mu is held.
func (l *Local) cwTagged(arn *string) (string, error) {
	a := service.Or(arn, "")
	exists := false
	if name, ok := strings.CutPrefix(a, l.account.ARN("cloudwatch", "alarm:")); ok {
		_, exists = l.scaler.Alarm(name)
	} else if name, ok := strings.CutPrefix(a, l.dashboardARN("")); ok {
		exists = l.dashboards[name] != nil
	}
	if !exists {
		f := wire.Refuse(wire.ResourceNotFound, "Unknown resource: %s", a)
		f.HTTP = 404
		return "", f
	}
	return a, nil
}

func (l *Local) cwTag(_ context.Context, in *cwTagsIn) (*service.Nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	arn, err := l.cwTagged(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	l.tags.Add(arn, in.Tags)
	return &service.Nothing{}, nil
}

func (l *Local) cwUntag(_ context.Context, in *cwTagsIn) (*service.Nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	arn, err := l.cwTagged(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	l.tags.Remove(arn, in.TagKeys)
	return &service.Nothing{}, nil
}

func (l *Local) cwListTags(_ context.Context, in *cwTagsIn) (*cwTagsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	arn, err := l.cwTagged(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return &cwTagsOut{service.SortedTags(l.tags.Of(arn))}, nil
}

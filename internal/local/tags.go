package local

import (
	"context"
	"strings"

	"loadline/internal/wire"
)

// Tags of CloudWatch's alarms and dashboards. SageMaker's are in sagemaker.go, those of scalable targets in
// autoscaling.go, Logs' in logs.go.

type cwTagsIn struct {
	ResourceARN *string
	Tags        []tag
	TagKeys     []string
}

type cwTagsOut struct{ Tags []tag }

// cwTagged is the tags of an alarm or a dashboard. l.mu is held.
func (l *Local) cwTagged(arn *string) (map[string]string, error) {
	a := deref(arn, "")
	exists := false
	if name, ok := strings.CutPrefix(a, l.arn("cloudwatch", "alarm:")); ok {
		_, exists = l.scaler.Alarm(name)
	} else if name, ok := strings.CutPrefix(a, l.dashboardARN("")); ok {
		exists = l.dashboards[name] != nil
	}
	if !exists {
		f := wire.Refuse(wire.ResourceNotFound, "Unknown resource: %s", a)
		f.HTTP = 404
		return nil, f
	}
	return l.tagsOf(a), nil
}

// tagsOf is the tags of a resource, whatever it is. l.mu is held.
func (l *Local) tagsOf(arn string) map[string]string {
	if l.tags[arn] == nil {
		l.tags[arn] = map[string]string{}
	}
	return l.tags[arn]
}

func (l *Local) cwTag(_ context.Context, in *cwTagsIn) (*nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := l.cwTagged(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	for _, t := range in.Tags {
		have[t.Key] = t.Value
	}
	return &nothing{}, nil
}

func (l *Local) cwUntag(_ context.Context, in *cwTagsIn) (*nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := l.cwTagged(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	for _, k := range in.TagKeys {
		delete(have, k)
	}
	return &nothing{}, nil
}

func (l *Local) cwListTags(_ context.Context, in *cwTagsIn) (*cwTagsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, err := l.cwTagged(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return &cwTagsOut{sortedTags(have)}, nil
}

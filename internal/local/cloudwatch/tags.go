package cloudwatch

import (
	"context"
	"strings"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

type tagsIn struct {
	ResourceARN *string
	Tags        []service.Tag
	TagKeys     []string
}

type tagsOut struct{ Tags []service.Tag }

// tagged is the ARN of an alarm or a dashboard that is there.
func (c *CloudWatch) tagged(arn *string) (string, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	a := service.Or(arn, "")
	exists := false
	if name, ok := strings.CutPrefix(a, c.account.ARN("cloudwatch", "alarm:")); ok {
		_, exists = c.alarms.Alarm(name)
	} else if name, ok := strings.CutPrefix(a, c.dashboardARN("")); ok {
		exists = c.dashboards[name] != nil
	}
	if !exists {
		f := wire.Refuse(wire.ResourceNotFound, "Unknown resource: %s", a)
		f.HTTP = 404
		return "", f
	}
	return a, nil
}

func (c *CloudWatch) tag(_ context.Context, in *tagsIn) (*service.Nothing, error) {
	arn, err := c.tagged(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	c.tags.Add(arn, in.Tags)
	return &service.Nothing{}, nil
}

func (c *CloudWatch) untag(_ context.Context, in *tagsIn) (*service.Nothing, error) {
	arn, err := c.tagged(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	c.tags.Remove(arn, in.TagKeys)
	return &service.Nothing{}, nil
}

func (c *CloudWatch) listTags(_ context.Context, in *tagsIn) (*tagsOut, error) {
	arn, err := c.tagged(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return &tagsOut{service.SortedTags(c.tags.Of(arn))}, nil
}

package awsfleet

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"loadline/internal/scaleout"
)

// logGroup is where SageMaker puts what the endpoint's containers print, or those of the component.
func (v *Variant) logGroup() string {
	if v.component != "" {
		return "/aws/sagemaker/InferenceComponents/" + v.component
	}
	return "/aws/sagemaker/Endpoints/" + v.endpoint
}

// Streams are the names of the variant's log streams, one an instance. A group that is not there yet has none.
func (v *Variant) Streams(ctx context.Context) ([]string, error) {
	pages := cloudwatchlogs.NewDescribeLogStreamsPaginator(v.logs, &cloudwatchlogs.DescribeLogStreamsInput{
		LogGroupName: aws.String(v.logGroup()), LogStreamNamePrefix: aws.String(v.name + "/"), OrderBy: logs.OrderByLogStreamName,
	})
	var names []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if is(err, "ResourceNotFoundException", "") {
			return nil, nil
		}
		if err != nil {
			return nil, cause(ctx, unread("list the log streams of "+v.logGroup(), err))
		}
		for _, s := range page.LogStreams {
			names = append(names, aws.ToString(s.LogStreamName))
		}
	}
	return names, nil
}

// InstanceOf is the instance that a log stream is of.
func InstanceOf(stream string) string {
	_, id, _ := strings.Cut(stream, "/")
	id, _, _ = strings.Cut(id, "/")
	return id
}

// headMost is how many lines of a log say how its container started.
const headMost = 1000

// Head is the first lines of a log stream.
func (v *Variant) Head(ctx context.Context, stream string) ([]scaleout.Event, error) {
	var out []scaleout.Event
	var next *string
	for len(out) < headMost {
		page, err := v.logs.GetLogEvents(ctx, &cloudwatchlogs.GetLogEventsInput{
			LogGroupName: aws.String(v.logGroup()), LogStreamName: &stream, StartFromHead: aws.Bool(true), NextToken: next,
			Limit: aws.Int32(headMost),
		})
		if err != nil {
			return nil, cause(ctx, unread("read the log "+stream, err))
		}
		for _, e := range page.Events {
			out = append(out, scaleout.Event{At: time.UnixMilli(aws.ToInt64(e.Timestamp)).UTC(), Text: aws.ToString(e.Message)})
		}
		if aws.ToString(page.NextForwardToken) == aws.ToString(next) { // the end leads to itself
			break
		}
		next = page.NextForwardToken
	}
	return out[:min(len(out), headMost)], nil
}

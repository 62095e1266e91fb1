package awsfleet

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"

	"loadline/internal/audit"
)

// Activity is one thing that the scaler did, or did not although it was asked to.
type Activity struct {
	At     time.Time `json:"at"`
	Status string    `json:"status"`
	What   string    `json:"what"`
	Why    string    `json:"why"`
	Failed string    `json:"failed,omitempty"` // what the service said, or the codes for which nothing was tried and what they mean
}

// Activities are the last things, at most 50, that the scaler did to a variant, the newest first.
func (a *Auditor) Activities(ctx context.Context, endpoint, variant string, most int) ([]Activity, error) {
	out, err := a.aas.DescribeScalingActivities(ctx, &applicationautoscaling.DescribeScalingActivitiesInput{
		ServiceNamespace: aas.ServiceNamespaceSagemaker, ResourceId: aws.String(audit.Resource(endpoint, variant)), ScalableDimension: instanceCount,
		MaxResults: aws.Int32(int32(min(most, 50))), IncludeNotScaledActivities: aws.Bool(true)})
	if err != nil {
		return nil, unread("read the scaling activities of "+endpoint, err)
	}
	var list []Activity
	for _, x := range out.ScalingActivities {
		act := Activity{At: aws.ToTime(x.StartTime), Status: string(x.StatusCode), What: aws.ToString(x.Description), Why: aws.ToString(x.Cause)}
		why := notScaled(x)
		for i, code := range why {
			if means, _ := audit.NotScaled(code); means != "" {
				why[i] += ", " + means
			}
		}
		if x.StatusCode != aas.ScalingActivityStatusCodeSuccessful && len(why) == 0 {
			why = append(why, aws.ToString(x.StatusMessage))
		}
		act.Failed = strings.Join(why, "; ")
		list = append(list, act)
	}
	return list, nil
}

// notScaled is the codes of the reasons for which nothing was tried.
func notScaled(a aas.ScalingActivity) []string {
	var codes []string
	for _, r := range a.NotScaledReasons {
		codes = append(codes, aws.ToString(r.Code))
	}
	return codes
}

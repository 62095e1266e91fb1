package awsfleet

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// LinkedRole says whether the role by which Application Auto Scaling changes endpoints exists. Registering a first target
// makes it, where the caller may.
func LinkedRole(ctx context.Context, cfg aws.Config) (bool, error) {
	_, err := iam.NewFromConfig(cfg).GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")})
	switch {
	case err == nil:
		return true, nil
	case is(err, "NoSuchEntity", "") || is(err, "NoSuchEntityException", ""):
		return false, nil
	}
	return false, unread("read the role of Application Auto Scaling", err)
}

package awsfleet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	types "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Denied are those of the actions that the caller may not do, by IAM's own simulation. An error says that it could not be
// asked, which is not a denial.
func Denied(ctx context.Context, cfg aws.Config, actions []string) ([]string, error) {
	who, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return nil, cause(ctx, unread("ask who is calling", err))
	}
	arn := principal(aws.ToString(who.Arn))
	if strings.HasSuffix(arn, ":root") {
		return nil, nil
	}
	slices.Sort(actions)
	actions = slices.Compact(actions)
	pages := iam.NewSimulatePrincipalPolicyPaginator(iam.NewFromConfig(cfg), &iam.SimulatePrincipalPolicyInput{PolicySourceArn: &arn, ActionNames: actions})
	var denied []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, cause(ctx, unread("simulate the permissions of "+arn, err))
		}
		for _, r := range page.EvaluationResults {
			// A policy that is limited to resources denies a simulation that names none: only an explicit deny is sure.
			if r.EvalDecision == types.PolicyEvaluationDecisionTypeExplicitDeny {
				denied = append(denied, aws.ToString(r.EvalActionName))
			}
		}
	}
	return denied, nil
}

// principal is whose policies count: of an assumed role, the role.
func principal(arn string) string {
	before, session, ok := strings.Cut(arn, ":assumed-role/")
	if !ok {
		return arn
	}
	role, _, _ := strings.Cut(session, "/")
	return fmt.Sprintf("%s:role/%s", strings.Replace(before, ":sts:", ":iam:", 1), role)
}

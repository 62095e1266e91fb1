package access

import (
	"path"
	"slices"
	"strings"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// Denied says whether the caller may not do what the action names, such as sagemaker:UpdateEndpoint. Config.Deny has
// patterns with * and ?, in any case.
func (a *Access) Denied(action string) bool {
	return slices.ContainsFunc(a.cfg.Deny, func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(action))
		return err == nil && ok
	})
}

// mayNot refuses an action that is denied.
func (a *Access) mayNot(action string) error {
	if !a.Denied(action) {
		return nil
	}
	return wire.Refuse(wire.AccessDenied, "User: %s is not authorized to perform: %s on resource: * with an explicit deny in an identity-based policy", a.cfg.Account.User(), action)
}

// dryCalls are what Application Auto Scaling tries with the caller's permissions before it registers a target or puts a
// policy.
var dryCalls = map[string][]string{
	"application-autoscaling:RegisterScalableTarget": {"sagemaker:DescribeEndpoint", "sagemaker:DescribeEndpointConfig",
		"sagemaker:UpdateEndpointWeightsAndCapacities", "cloudwatch:PutMetricAlarm", "cloudwatch:DescribeAlarms", "cloudwatch:DeleteAlarms"},
	"application-autoscaling:PutScalingPolicy": {"cloudwatch:PutMetricAlarm", "cloudwatch:DescribeAlarms", "cloudwatch:DeleteAlarms"},
}

// permitted refuses a call of a service that is denied, or that needs others which are.
func (a *Access) permitted(action string) error {
	if err := a.mayNot(action); err != nil {
		return err
	}
	var missing []string
	for _, need := range dryCalls[action] {
		if a.Denied(need) {
			missing = append(missing, need)
		}
	}
	if action == readsAlarms && a.Denied("cloudwatch:DescribeAlarms") {
		return wire.Refuse(wire.FailedAccess, "Unable to retrieve alarms for scaling policy due to reason: User: %s is not authorized to perform: cloudwatch:DescribeAlarms (Service: AmazonCloudWatch; Status Code: 403; Error Code: AccessDenied; Request ID: %s)", a.cfg.Account.User(), service.RequestID())
	}
	registers := action == "application-autoscaling:RegisterScalableTarget"
	a.mu.Lock()
	defer a.mu.Unlock()
	if registers && a.roles[linkedRole] == nil && a.Denied("iam:CreateServiceLinkedRole") {
		missing = append(missing, "iam:CreateServiceLinkedRole")
	}
	if missing != nil {
		return wire.Refuse(wire.ValidationException, "Unable to assume or create the needed permissions: the caller is not authorized to perform: %s", strings.Join(missing, ", "))
	}
	if registers {
		a.linkRole()
	}
	return nil
}

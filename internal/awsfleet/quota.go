package awsfleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	quotas "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
)

// mostQuotaPages bounds a listing of the account's quotas: there are some two thousand.
const mostQuotaPages = 40

// Quota is how many instances of a type the account may run behind its endpoints. An error says that it could not be read,
// which is not a quota of 0.
func Quota(ctx context.Context, cfg aws.Config, instanceType string) (int, error) {
	client := servicequotas.NewFromConfig(cfg)
	want := instanceType + " for endpoint usage"
	find := func(list []quotas.ServiceQuota) (int, bool) {
		for _, q := range list {
			if strings.EqualFold(aws.ToString(q.QuotaName), want) && q.Value != nil {
				return int(*q.Value), true
			}
		}
		return 0, false
	}
	pages := servicequotas.NewListServiceQuotasPaginator(client, &servicequotas.ListServiceQuotasInput{
		ServiceCode: aws.String("sagemaker"), MaxResults: aws.Int32(100)})
	for n := 0; pages.HasMorePages() && n < mostQuotaPages; n++ {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, cause(ctx, unread("read the quota of "+want, err))
		}
		if q, ok := find(page.Quotas); ok {
			return q, nil
		}
	}
	return 0, unread("read the quota of "+want, fmt.Errorf("the account lists none of that name"))
}

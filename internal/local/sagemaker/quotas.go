package sagemaker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// Quotas is Service Quotas: how many instances of each type the account may have behind its endpoints.
func (p *Platform) Quotas() service.Service {
	return service.Service{Target: "ServiceQuotasV20190624", Name: "servicequotas", Operations: service.Operations{
		"ListServiceQuotas":           service.Op(p.listQuotas),
		"ListAWSDefaultServiceQuotas": service.Op(p.listQuotas),
		"GetServiceQuota":             service.Op(p.getQuota),
		"GetAWSDefaultServiceQuota":   service.Op(p.getQuota),
		"ListServices":                service.Op(p.listServices),
	}}
}

// quotaCodes are the codes of "TYPE for endpoint usage".
var quotaCodes = map[string]string{
	"ml.g5.xlarge": "L-1928E07B", "ml.g5.2xlarge": "L-9614C779", "ml.g5.4xlarge": "L-C1B9A48D",
	"ml.g6.xlarge": "L-D0B4F2B4", "ml.c5.xlarge": "L-3D9B5E94", "ml.m5.xlarge": "L-2F737F8D",
}

type quotaIn struct {
	ServiceCode, QuotaCode, NextToken *string
	MaxResults                        *int
}

type quotaOut struct{ Quota quota }

type quota struct {
	ServiceCode, ServiceName, QuotaArn, QuotaCode, QuotaName string
	Value                                                    float64
	Unit                                                     string
	Adjustable, GlobalQuota                                  bool
	QuotaAppliedAtLevel                                      string
}

func (p *Platform) allQuotas() []quota {
	p.mu.Lock()
	types := maps.Clone(quotaCodes)
	for _, ep := range p.endpoints {
		for _, v := range ep.spec.Variants {
			if types[v.InstanceType] == "" {
				types[v.InstanceType] = fmt.Sprintf("L-%08X", uint32(service.Hash(v.InstanceType)))
			}
		}
	}
	p.mu.Unlock()
	out := []quota{}
	for _, t := range slices.Sorted(maps.Keys(types)) {
		out = append(out, quota{"sagemaker", "Amazon SageMaker", p.cfg.Account.ARN("servicequotas", "sagemaker/"+types[t]), types[t],
			t + " for endpoint usage", float64(p.cfg.Quota), "None", true, false, "ACCOUNT"})
	}
	return out
}

func (p *Platform) inQuotas(code *string) error {
	if service.Or(code, "") != "sagemaker" {
		return wire.Refuse(wire.NoSuchResource, "Service %q is not part of this local account: sagemaker is.", service.Or(code, ""))
	}
	return nil
}

type listQuotasOut struct {
	Quotas    []quota
	NextToken string `json:",omitempty"`
}

func (p *Platform) listQuotas(_ context.Context, in *quotaIn) (*listQuotasOut, error) {
	if err := p.inQuotas(in.ServiceCode); err != nil {
		return nil, err
	}
	page, next, err := service.Page(p.allQuotas(), in.MaxResults, in.NextToken, 100, 100, wire.IllegalArgument)
	return &listQuotasOut{page, next}, err
}

func (p *Platform) getQuota(_ context.Context, in *quotaIn) (*quotaOut, error) {
	if err := p.inQuotas(in.ServiceCode); err != nil {
		return nil, err
	}
	for _, q := range p.allQuotas() {
		if q.QuotaCode == service.Or(in.QuotaCode, "") {
			return &quotaOut{q}, nil
		}
	}
	return nil, wire.Refuse(wire.NoSuchResource, "The request failed because the specified quota %q does not exist.", service.Or(in.QuotaCode, ""))
}

type servicesOut struct {
	Services []serviceInfo
}

type serviceInfo struct{ ServiceCode, ServiceName string }

func (p *Platform) listServices(context.Context, *service.Nothing) (*servicesOut, error) {
	return &servicesOut{[]serviceInfo{{"sagemaker", "Amazon SageMaker"}}}, nil
}

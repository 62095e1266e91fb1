package awsfleet

import (
	"context"

	"loadline/internal/artifact"
	"loadline/internal/freeze"
)

// Fingerprint reads what the variant runs, and no more: by three calls. What could not be told of it is empty.
func (v *Variant) Fingerprint(ctx context.Context) (artifact.Fingerprint, error) {
	out, err := v.describe(ctx)
	if err != nil {
		return artifact.Fingerprint{}, cause(ctx, err)
	}
	pv, err := v.of(out)
	if err != nil {
		return artifact.Fingerprint{}, err
	}
	s := freeze.Variant{Region: v.region, Endpoint: v.endpoint, Name: v.name}
	s.Fingerprint.ImageDigest = deployedDigest(pv)
	err = v.fingerprint(ctx, &s)
	return s.Fingerprint, cause(ctx, err)
}

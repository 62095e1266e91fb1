package stack

import (
	"loadline/internal/artifact"
	"loadline/internal/gate"
	"loadline/internal/registry"
)

// Declare is what the gate is told of a model that is to be deployed to a region.
func Declare(m registry.Model, region string) gate.Declared {
	compared, _ := artifact.ContainerEnv(m.ContainerEnv)
	return gate.Declared{
		Model: m.Name, Endpoint: m.Endpoint, Variant: m.Variant, Region: region, InstanceType: m.InstanceType, ImageDigest: artifact.ImageDigest(m.Image),
		Env: compared, Min: m.MinInstances, Max: m.MaxInstances, Target: m.ScalingTargetValue, ScaleIn: m.ScaleInThreshold, QueueDepth: m.QueueMaxDepth,
		OutCooldown: m.ScaleOutCooldown, InCooldown: m.ScaleInCooldown, SLOMS: m.SLOMS, Percentile: m.Percentile, Quota: m.Quota, PlanFile: m.Plan,
	}
}

// PlanName is the plan that models.yaml names for the model.
func (m *Model) PlanName() string { return m.Model.Plan }

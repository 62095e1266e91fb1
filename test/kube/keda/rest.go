// Package v1alpha1 is KEDA's types, whose files an overlay adds where they lie in the module cache (see the test beside this folder);
// without it, only this file is here.
package v1alpha1

// What the types name of the webhooks that are left out.
type (
	ClusterTriggerAuthenticationCustomValidator struct{}
	ScaledJobCustomValidator                    struct{}
	ScaledObjectCustomValidator                 struct{}
	TriggerAuthenticationCustomValidator        struct{}
)

const cpuString, memoryString, workloadString = "cpu", "memory", "workload"

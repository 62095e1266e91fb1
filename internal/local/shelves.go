package local

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// shelves is what an account keeps that no endpoint depends on.
type shelves struct {
	identities identities
	breaker    breaker // has its own lock
	saved      []byte  // what Config.Save has; of the one goroutine that saves
}

func newShelves(faults *rand.Rand) shelves {
	return shelves{identities: newIdentities(), breaker: breaker{rng: faults}}
}

// sorted is a map's keys in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

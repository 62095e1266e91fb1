package local

import "math/rand/v2"

// shelves is what an account keeps that no endpoint depends on.
type shelves struct {
	logbook    *logbook // has its own lock
	dashboards map[string]*dashboard
	identities identities
	breaker    breaker // has its own lock
}

func newShelves(faults *rand.Rand) shelves {
	return shelves{newLogbook(), map[string]*dashboard{}, newIdentities(), breaker{rng: faults}}
}

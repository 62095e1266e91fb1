package local

// shelves is what an account keeps that no endpoint depends on.
type shelves struct {
	logbook    *logbook // has its own lock
	dashboards map[string]*dashboard
	identities identities
}

func newShelves() shelves {
	return shelves{newLogbook(), map[string]*dashboard{}, newIdentities()}
}

package artifact

// Kind is what kind of record data holds, as its schema names it (qmax, rates, ttotal, plan, simulation, …), whether
// ours or a published file. It believes no more of it than that.
func Kind(data []byte) (string, error) {
	doc, _, err := identify(data)
	return doc.kind, err
}

// Package release holds what a release promises: the same bytes whoever builds them, a list of what is in them, and a
// configuration that names what there is.
package release

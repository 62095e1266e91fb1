// Package kube prints plans for Kubernetes and has KEDA's and Kubernetes' own types decode them, strictly. It is a module of
// its own: those types bring a hundred modules along, which nothing else here needs.
//
// KEDA keeps its types in one package with its webhooks, which take minutes to compile. Only the files of the types are
// compiled here, where they lie in the module cache, as the package keda of this module, by an overlay.
package kube

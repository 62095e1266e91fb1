// Package loadline is the root of the module and holds no code: its tests hold the house together, which is who may import
// whom, what a pure package may not do, what the README lists and what the Dockerfile promises.
package loadline

// Package advisories asks the Go vulnerability database about everything that this project calls.
package advisories

//go:build tools

// Package peers pins the load generators that bench/peers builds and runs.
package peers

import (
	_ "fortio.org/fortio"
	_ "github.com/tsenart/vegeta/v12"
)

//go:build !unix

package load

import "time"

// Not known here: the canary and the lateness decide without them.
func processorTime() time.Duration { return 0 }
func descriptorLimit() uint64      { return 0 }

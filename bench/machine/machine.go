// Package machine says what machine a bench runs on, without which its figures mean nothing.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// String is its processors, the version of Go, the system and the processor's name.
func String() string {
	return fmt.Sprintf("%d processors, %s %s/%s, %s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, processor())
}

func processor() string {
	const unknown = "processor unknown"
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(b)) {
		if k, v, found := strings.Cut(line, ":"); found && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return unknown
}

// Load is how busy it is: the average of the last minute.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	return "load " + strings.Fields(string(b))[0]
}

package load

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// root is where /proc and /sys are read from; tests give readHost another.
var root = os.DirFS("/")

// host is what the kernel says of this process's share of the machine. Unknown is -1.
type host struct {
	throttled int64         // times that the control group's processor quota ran out
	stalled   time.Duration // total time in which some task waited for a processor
}

func readHost(fsys fs.FS) host {
	h := host{throttled: throttled(fsys), stalled: -1}
	if b, err := fs.ReadFile(fsys, "proc/pressure/cpu"); err == nil {
		if us, ok := field(b, "some", "total="); ok {
			h.stalled = time.Duration(us) * time.Microsecond
		}
	}
	return h
}

// descriptors is the share of the files that this process may open that are open, 0 unknown.
func descriptors(fsys fs.FS) float64 {
	open, err := fs.ReadDir(fsys, "proc/self/fd")
	if limit := descriptorLimit(); err == nil && limit > 0 {
		return float64(len(open)) / float64(limit)
	}
	return 0
}

// throttled reads nr_throttled of the control group that this process is in: version 2 and version 1 hierarchies, from
// its own group up to the mount's root, which is where a container sees its own.
func throttled(fsys fs.FS) int64 {
	groups, err := fs.ReadFile(fsys, "proc/self/cgroup")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base := "sys/fs/cgroup"
		if parts[0] != "0" {
			if !strings.Contains(","+parts[1]+",", ",cpu,") {
				continue
			}
			base += "/" + parts[1]
		}
		for path := strings.Trim(parts[2], "/"); ; path = path[:max(0, strings.LastIndexByte(path, '/'))] {
			name := base + "/" + path + "/cpu.stat"
			if path == "" {
				name = base + "/cpu.stat"
			}
			if b, err := fs.ReadFile(fsys, name); err == nil {
				if n, ok := field(b, "nr_throttled", ""); ok {
					return n
				}
			}
			if path == "" {
				break
			}
		}
	}
	return -1
}

// field is the number after a prefix, in the line that begins with a word.
func field(b []byte, word, prefix string) (int64, bool) {
	for line := range bytes.Lines(b) {
		words := strings.Fields(string(line))
		if len(words) == 0 || words[0] != word {
			continue
		}
		for _, w := range words[1:] {
			if v, ok := strings.CutPrefix(w, prefix); ok {
				n, err := strconv.ParseInt(v, 10, 64)
				return n, err == nil && n >= 0
			}
		}
	}
	return 0, false
}

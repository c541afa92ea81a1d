package hub

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// boundMemory sets the memory limit of the Go runtime, unless GOMEMLIMIT sets one. frames is the memory for frames, in bytes. The
// limit is below the unit's MemoryMax, at which the kernel would kill the hub. root is passed to unitLimit.
func boundMemory(root string, frames int64) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(min(2*frames+256<<20, unitLimit(root)/10*9))
	}
}

// unitLimit returns the memory limit of this process's control group in bytes, or math.MaxInt64 without one. root is / except in tests.
func unitLimit(root string) int64 {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // if the file cannot be read, there is no limit
	for line := range strings.Lines(string(text)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		most, _ := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", group, "memory.max"))
		if n, err := strconv.ParseInt(strings.TrimSpace(string(most)), 10, 64); err == nil {
			return n
		}
	}
	return math.MaxInt64
}

package hub

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// boundMemory has garbage collected more eagerly before the hub grows large, unless GOMEMLIMIT says from where on. What the unit's
// MemoryMax allows is not reached: the kernel would end the hub.
func boundMemory(root string, frames int64) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(min(2*frames+256<<20, unitLimit(root)/10*9))
	}
}

// unitLimit is how much memory the control group of this process may have, in bytes. root is / but in tests.
func unitLimit(root string) int64 {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // without one there is no limit
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

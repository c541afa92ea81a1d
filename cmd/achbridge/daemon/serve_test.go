package daemon

import (
	"math"
	"runtime/debug"
	"testing"

	"achbridge/bridge"
)

func TestDaemonSetsMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	BoundMemory()
	if got := debug.SetMemoryLimit(-1); got != bridge.MemoryGoal {
		t.Errorf("got a limit of %d MiB, want %d", got>>20, bridge.MemoryGoal>>20)
	}
	const theirs = 100 << 20 // bytes, the limit that GOMEMLIMIT sets
	debug.SetMemoryLimit(theirs)
	BoundMemory()
	if got := debug.SetMemoryLimit(-1); got != theirs {
		t.Errorf("with GOMEMLIMIT: got a limit of %d MiB, want it unchanged", got>>20)
	}
}

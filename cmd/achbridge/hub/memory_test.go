package hub

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestHubLimitsItsMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for most, want := range map[string]int64{"": 768 << 20, "max": 768 << 20, "1073741824": 768 << 20, "104857600": 94371840} {
		root := t.TempDir()
		for path, text := range map[string]string{"proc/self/cgroup": "1:name=systemd:/x\n0::/system.slice/achbridge-hub.service\n", "sys/fs/cgroup/system.slice/achbridge-hub.service/memory.max": most + "\n"} {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		debug.SetMemoryLimit(math.MaxInt64)
		boundMemory(root, Defaults().Memory)
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("memory.max %q: got limit %d, want %d", most, got, want)
		}
	}
	debug.SetMemoryLimit(1 << 30) // like GOMEMLIMIT
	boundMemory(t.TempDir(), Defaults().Memory)
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Errorf("with GOMEMLIMIT: got limit %d, want it unchanged", got)
	}
}

func TestHubUnitLimitsMemory(t *testing.T) {
	unit, err := os.ReadFile("../../../packaging/achbridge-hub.service")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^MemoryMax=\d+%$`).Match(unit) {
		t.Error("the unit has no MemoryMax")
	}
}

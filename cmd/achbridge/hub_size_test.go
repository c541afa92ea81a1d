package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// built builds the program with these tags, as a package has it, and returns its path.
func built(t *testing.T, tags string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "achbridge")
	if out, err := exec.Command("go", "build", "-tags", tags, "-ldflags", "-s -w", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return path
}

func TestTheHubAddsAtMost15MBAndCanBeLeftOut(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program twice: run without -short")
	}
	t.Parallel()
	size := func(path string) float64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return float64(info.Size()) / 1e6
	}
	without := built(t, "nohub")
	with := size(built(t, ""))
	t.Logf("%.1f MB with the hub, %.1f MB without", with, size(without))
	if more := with - size(without); more < 1 || more > 15 {
		t.Errorf("the hub adds %.1f MB, want 15 MB at most, and not nothing", more)
	}

	list, err := exec.Command("go", "list", "-deps", "-tags", "nohub", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(list), "github.com/nats-io") {
		t.Error("without the hub it is linked with NATS all the same")
	}
	out, err := exec.Command(without, "hub", "--dir", "hub").CombinedOutput()
	if want := "achbridge: hub: this program was built without the hub, with the tag nohub\n"; err == nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("without the hub: got %q, %v, want %q", out, err, want)
	}
}

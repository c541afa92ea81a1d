package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestBuildLinksProgramOnce(t *testing.T) {
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	kept, err := programCache()
	if err != nil {
		t.Fatal(err)
	}
	linked := func() (at os.FileInfo) {
		t.Helper()
		dir := t.TempDir()
		if err := Build(dir, "achbridge/testnet/hosts/testdata/tiny"); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(filepath.Join(dir, "tiny")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		at, err := os.Stat(filepath.Join(kept, "tiny"))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if first := linked(); !os.SameFile(first, linked()) { // Go replaces the file when it links
		t.Error("linked twice, want once")
	}
}

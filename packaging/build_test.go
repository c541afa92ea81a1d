package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildWith runs build.sh with gcc as the only compiler, and with a go command that only prints
// the architecture of this machine.
func buildWith(t *testing.T, args ...string) (out string, exit int) {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"bash", "sed", "dirname", "git", "mktemp", "rm", "cat"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	fakes := map[string]string{"gcc": "", "go": `[ "$1" = env ] && echo amd64 && exit; echo "go is asked for: $*"; exit 9`}
	for name, text := range fakes {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("bash", append([]string{"build.sh"}, args...)...)
	cmd.Env = []string{"PATH=" + bin, "HOME=" + t.TempDir()}
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

func TestBuildNamesMissingCompiler(t *testing.T) {
	const missing = "there is no aarch64-linux-gnu-gcc: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross\n"
	if out, exit := buildWith(t); !strings.HasPrefix(out, "no package for arm64: "+missing+"go is asked for: build ") || exit != 9 {
		t.Errorf("without arguments: got %q and exit %d, want a build of amd64 without arm64", out, exit)
	}
	if out, exit := buildWith(t, "arm64"); out != "FAILED: "+missing || exit != 1 {
		t.Errorf("arm64: got %q and exit %d, want the package to install", out, exit)
	}
	if out, exit := buildWith(t, "mips"); out != "no package for mips; there are amd64 and arm64\n" || exit != 1 {
		t.Errorf("mips: got %q and exit %d, want the supported architectures", out, exit)
	}
}

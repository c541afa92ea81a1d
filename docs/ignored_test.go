package docs_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// leaves matches the files that a lab leaves in its working directory: keys, logs, configurations.
var leaves = regexp.MustCompile(`(?:--key |2>|--config )([\w.-]+)`)

func TestGitIgnoresFilesOfLab(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git: apt-get install git")
	}
	if err := exec.Command("git", "-C", "..", "rev-parse").Run(); err != nil {
		t.Skip("this is no clone: a tree of files without git")
	}
	left := map[string]string{}
	for _, path := range documents(t) {
		for _, s := range stepsOf(t, path) {
			for _, m := range leaves.FindAllStringSubmatch(s.line, -1) {
				if s.host == "lab" {
					left[m[1]] = s.at
				}
			}
		}
	}
	for name, at := range left {
		if err := exec.Command("git", "-C", "..", "check-ignore", "-q", name).Run(); err != nil {
			t.Errorf("%s: git does not ignore %s", at, filepath.Join("/", name))
		}
	}
	if len(left) < 5 {
		t.Errorf("files of the lab: got %v, want keys, logs and configurations", left)
	}
}

package hosts

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Build puts the programs of the packages into dir. It keeps them in the user's cache, in
// a folder for this copy of the repository, so that the tests of several packages link an
// unchanged program only once. Processes that call it at the same time take turns.
func Build(dir string, packages ...string) error {
	kept, err := programCache()
	if err != nil {
		return err
	}
	turn, err := os.Open(kept)
	if err != nil {
		return err
	}
	defer turn.Close()
	if err := unix.Flock(int(turn.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", kept, err)
	}
	// Go does not write a file that is up to date.
	if out, err := exec.Command("go", append([]string{"build", "-o", kept + "/"}, packages...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	for _, name := range packages {
		program, err := os.ReadFile(filepath.Join(kept, path.Base(name)))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, path.Base(name)), program, 0o755)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxUnused is how long the cache keeps the programs of a copy of the repository after the last build.
const maxUnused = 7 * 24 * time.Hour

// programCache returns the folder for the programs of this copy of the repository. With one
// folder for all copies, two copies whose tests run at once would link their programs again
// and again. It also removes unused folders.
func programCache() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := root; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			root = dir
			break
		}
	}
	all := filepath.Join(cache, "achbridge-tests")
	kept := filepath.Join(all, fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16])
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return "", err
	}
	now := time.Now()
	if err := os.Chtimes(kept, now, now); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(all)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > maxUnused {
			os.RemoveAll(filepath.Join(all, e.Name()))
		}
	}
	return kept, err
}

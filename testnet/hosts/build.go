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

// Build puts the programs of these packages into dir. It keeps what it built in the
// user's cache, in a folder for this copy of the repository, so that the tests of several
// packages link an unchanged program once. Several processes may build at once: they take
// turns.
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
	// Go leaves a file alone that is what it would make.
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

// maxUnused is how long the programs of a copy of the repository are kept that nobody builds.
const maxUnused = 7 * 24 * time.Hour

// programCache is the folder for the programs of this copy of the repository: two copies whose
// tests run at once would else link them again and again. It removes folders that are no longer
// used.
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

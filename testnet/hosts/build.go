package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Build puts the programs of these packages into dir. It keeps what it built in the
// user's cache, so that the tests of several packages link an unchanged program once.
// Several processes may build at once: they take turns.
func Build(dir string, packages ...string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	kept := filepath.Join(cache, "achbridge-tests")
	if err := os.MkdirAll(kept, 0o700); err != nil {
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

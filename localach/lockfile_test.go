package localach_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"achbridge/localach"
)

func TestLockFileHasOneOwner(t *testing.T) {
	dir := localach.Dir(t.TempDir())
	first, err := dir.LockFile(".owner", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.LockFile(".owner", 0o600); !errors.Is(err, localach.ErrLocked) {
		t.Errorf("LockFile of a locked file = %v, want %v", err, localach.ErrLocked)
	}
	first.Close()
	second, err := dir.LockFile(".owner", 0o600)
	if err != nil {
		t.Fatalf("LockFile after the owner's end = %v, want the lock", err)
	}
	second.Close()
}

func TestLockFileFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, filepath.Join(dir, ".owner")); err != nil {
		t.Fatal(err)
	}
	if _, err := localach.Dir(dir).LockFile(".owner", 0o600); err == nil {
		t.Error("LockFile of a symbolic link = nil, want an error")
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("LockFile created the target of a symbolic link")
	}
}

// An owner may remove the file at its end while other processes open it.
func TestRemovedLockFileHasOneOwner(t *testing.T) {
	dir := localach.Dir(t.TempDir())
	var removed atomic.Int32
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 2000 {
				f, err := dir.LockFile(".owner", 0o600)
				if err != nil {
					continue
				}
				locked, _ := f.Stat()
				if named, err := os.Lstat(f.Name()); err != nil || !os.SameFile(locked, named) {
					removed.Add(1)
				}
				os.Remove(f.Name())
				f.Close()
			}
		})
	}
	work.Wait()
	if n := removed.Load(); n > 0 {
		t.Errorf("LockFile locked %d files that another owner had removed, want none", n)
	}
}

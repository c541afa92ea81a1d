package hub

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"achbridge/testnet/need"
)

const nobody = 65534

// directory returns a new hub directory.
func directory(t *testing.T) Directory {
	t.Helper()
	d := Directory(filepath.Join(t.TempDir(), "hub"))
	if _, err := d.Init("hub.example.com"); err != nil {
		t.Fatal(err)
	}
	return d
}

// A process of the hub's user, which is exposed to the internet, replaces a file by a symbolic link while root adds hosts. Root must
// not give that user a file outside of the directory.
func TestRootFollowsNoSymlinkOfHubUser(t *testing.T) {
	if os.Getuid() != 0 {
		need.Missing(t, "root: run it with sudo")
	}
	d, victim := directory(t), filepath.Join(t.TempDir(), "victim")
	err := errors.Join(os.WriteFile(victim, []byte("secret"), 0o600), os.Chown(string(d), nobody, nobody))
	if err != nil {
		t.Fatal(err)
	}
	stop, swapped := make(chan struct{}), make(chan int)
	go func() {
		count := 0
		for {
			select {
			case <-stop:
				swapped <- count
				return
			default:
			}
			link := filepath.Join(string(d), "link")
			if os.Symlink(victim, link) == nil && os.Rename(link, d.hosts()) == nil {
				count++
			}
		}
	}()
	for range need.LongOr(2000, 200) {
		if err := d.replace(d.hosts(), hostsHead); err != nil {
			t.Errorf("replace: %v", err)
			break
		}
	}
	close(stop)
	if n := <-swapped; n == 0 {
		t.Error("root never found a symbolic link: the test did not test anything")
	}
	info, err := os.Stat(victim)
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 {
		t.Errorf("owner of a file outside of the directory = %d, want 0 as before", uid)
	}
}

func TestHubFilesAreNotReadThroughSymlinks(t *testing.T) {
	d, secret := directory(t), filepath.Join(t.TempDir(), "secret")
	for _, path := range []string{d.address(), d.certificate(), d.key(), d.hosts()} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(secret, []byte("password"), 0o600), os.Remove(path), os.Symlink(secret, path)); err != nil {
			t.Fatal(err)
		}
		_, err = d.Identity()
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "a link") || strings.Contains(err.Error(), "password") {
			t.Errorf("%s is a symbolic link: got error %v, want one about the link", filepath.Base(path), err)
		}
		if err := errors.Join(os.Remove(path), os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// A process of the hub's user can hold the lock of the directory without limit.
func TestAddFailsIfLockIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := directory(t)
		lock, err := os.Open(string(d))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		credentials := filepath.Join(t.TempDir(), "robot.creds")
		if err := d.Add("robot", credentials); err == nil || !strings.Contains(err.Error(), "lock is held") {
			t.Errorf("Add: got %v, want an error about the lock", err)
		}
		if _, err := os.Stat(credentials); err == nil {
			t.Error("got credentials of a host that was not added, want none")
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
		if err := d.Add("robot", credentials); err != nil {
			t.Errorf("Add after the lock was released: got %v, want no error", err)
		}
	})
}

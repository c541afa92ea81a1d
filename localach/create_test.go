package localach

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"achbridge/testnet/need"
)

// A user that could open the draft for a moment would keep access through the open file.
func TestDraftIsNeverMoreAccessibleThanChannel(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	d := tempDir(t)
	done, open := make(chan struct{}), make(chan fs.FileMode, 1)
	go func() {
		defer close(open)
		for {
			select {
			case <-done:
				return
			default:
			}
			drafts, _ := filepath.Glob(filepath.Join(string(d), ".achbridge-*"))
			for _, draft := range drafts {
				if st, err := os.Lstat(draft); err == nil && st.Mode().Perm()&0o077 != 0 {
					open <- st.Mode()
					return
				}
			}
		}
	}()
	like, err := d.Create("like", CreateConfig{Geometry: Geometry{1, 64}, Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	defer like.Close()
	for i := range need.LongOr(2000, 100) {
		cfg := CreateConfig{Geometry: Geometry{1, 64}, Mode: 0o600, Replace: true}
		if i%2 == 0 {
			cfg.Mode, cfg.Like = 0, like
		}
		c, err := d.Create("imu", cfg)
		if err != nil {
			t.Error(err)
			break
		}
		c.Close()
	}
	close(done)
	if mode, seen := <-open; seen {
		t.Errorf("got a draft of mode %v, want none that group or others may open", mode)
	}
}

func TestCreateAnnouncesFileBeforeItsName(t *testing.T) {
	d := tempDir(t)
	var announced uint64
	c, err := d.Create("imu", CreateConfig{Announce: func(inode uint64) error {
		if _, err := os.Lstat(d.Path("imu")); err == nil {
			t.Error("the channel has its name already")
		}
		announced = inode
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if info, err := d.Info(c.Name()); err != nil || info.Inode != announced {
		t.Errorf("Announce got inode %d, want %d (%v)", announced, info.Inode, err)
	}
	if _, err := d.Create("joints", CreateConfig{Announce: func(uint64) error { return fs.ErrInvalid }}); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Create = %v, want the error of Announce", err)
	}
	if _, err := os.Lstat(d.Path("joints")); err == nil {
		t.Error("the channel exists after an error of Announce")
	}
}

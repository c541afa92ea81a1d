package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"achbridge/bridge/layout"
	"achbridge/localach"
)

var publishedKind = &layout.Layout{Name: "test_data", Size: 8, Fields: []layout.Field{{Name: "count", Type: layout.Uint64}}}

// published creates a channel with a publisher's file, and returns the file's path.
func published(t *testing.T) (dir localach.Dir, path string) {
	t.Helper()
	dir = localach.Dir(t.TempDir())
	path = filepath.Join(string(dir), PublishedFile("imu"))
	channel, err := dir.Create("imu", localach.CreateConfig{Announce: func(inode uint64) error {
		text, err := Published{Inode: inode, PID: 7, Layout: publishedKind}.Text()
		if err != nil {
			return err
		}
		return os.WriteFile(path, text, 0o600)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { channel.Close() })
	return dir, path
}

func TestPublishedLayoutIsFound(t *testing.T) {
	dir, _ := published(t)
	if l := PublishedLayout(dir, "imu"); l == nil || !l.Same(publishedKind) {
		t.Errorf("PublishedLayout = %+v, want %+v", l, publishedKind)
	}
	if p, err := ReadPublished(dir, "imu"); err != nil || p.PID != 7 {
		t.Errorf("ReadPublished = %+v, %v, want process 7", p, err)
	}
	if l := PublishedLayout(dir, "joints"); l != nil {
		t.Errorf("PublishedLayout of a channel without a file = %+v, want nil", l)
	}
}

func TestBadPublishedFileIsIgnored(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir localach.Dir, path string) error{
		"of a channel that was replaced": func(_ *testing.T, dir localach.Dir, _ string) error {
			c, err := dir.Create("imu", localach.CreateConfig{Replace: true})
			if err == nil {
				c.Close()
			}
			return err
		},
		"of a channel that was removed": func(_ *testing.T, dir localach.Dir, _ string) error { return dir.Unlink("imu") },
		"empty":                         func(_ *testing.T, _ localach.Dir, path string) error { return os.Truncate(path, 0) },
		"cut":                           func(_ *testing.T, _ localach.Dir, path string) error { return os.Truncate(path, 100) },
		"huge": func(_ *testing.T, _ localach.Dir, path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, append(text, strings.Repeat("# more\n", layout.MaxText)...), 0o600)
		},
		"a pipe": func(_ *testing.T, _ localach.Dir, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return unix.Mkfifo(path, 0o600)
		},
		"a link": func(_ *testing.T, _ localach.Dir, path string) error {
			if err := os.Rename(path, path+"-2"); err != nil {
				return err
			}
			return os.Symlink(path+"-2", path)
		},
		"of another user": func(t *testing.T, _ localach.Dir, path string) error {
			if os.Geteuid() != 0 {
				t.Skip("needs root: run the test with sudo")
			}
			return os.Chown(path, 12345, -1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := published(t)
			if err := damage(t, dir, path); err != nil {
				t.Fatal(err)
			}
			if l := PublishedLayout(dir, "imu"); l != nil {
				t.Errorf("PublishedLayout = %+v, want nil", l)
			}
		})
	}
}

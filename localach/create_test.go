package localach

import (
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

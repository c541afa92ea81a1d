package recording

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A channel whose file bears other permissions is the same one: it is read on, and no frame twice.
func TestOtherPermissionsDoNotEndARecording(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write whatever the permissions are: run it as another user")
	}
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	imu := create(t, dir, "imu", 16, 64)
	end := record(t, Config{Dir: dir, Files: Files{Path: path}})
	create(t, dir, "begun", 16, 64).put(1)
	there(t, path, "begun", 1)
	imu.put(1)
	imu.put(2)
	there(t, path, "imu", 2)
	if err := unix.Chmod(dir.Path("imu"), 0o444); err != nil {
		t.Fatal(err)
	}
	create(t, dir, "other", 16, 64).put(1)
	there(t, path, "other", 1) // events come in order
	imu.put(3)
	there(t, path, "imu", 3)
	if report, err := end(); err != nil || report.Frames != 5 || report.Missed != 0 {
		t.Errorf("got %+v, %v, want 5 frames", report, err)
	}
}

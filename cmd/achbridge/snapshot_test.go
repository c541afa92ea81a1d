package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/api"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// The disk of a robot is full when a trigger fires: the daemon reports it and goes on, and writes the next snapshot when
// there is room again.
func TestFullDiskIsReportedAndSurvived(t *testing.T) {
	need.Processes(t)
	if os.Geteuid() != 0 {
		t.Skip("mounts a file system: run as root")
	}
	dir := memory(t)
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		need.Missing(t, "no tmpfs can be mounted: "+err.Error())
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	ballast := filepath.Join(disk, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 2<<20), 0o600) // fails when the disk is full
	write(t, filepath.Join(dir, "robot.yaml"), "name: robot\nlisten: 127.0.0.1:0\ndiscovery: off\n"+
		"record: {keep: 5s, dir: disk, after: 0s, hold: 0s, when: {channel: imu, field: sine, above: 0.5}}\n")
	succeeds(t, dir, "key", "new", "--key", "key")
	stays(t, dir, "publish", "imu:100:64")
	daemon := stays(t, dir, "run", "--config", "robot.yaml", "--key", "key")
	recorder := func() (r api.Recorder) {
		var s api.StatusReply
		if out, code := run(t, dir, "status", "--json"); code != 0 || json.Unmarshal([]byte(out), &s) != nil || s.Recorder == nil {
			return r
		}
		return *s.Recorder
	}
	await.True(t, "the error in the status", func() bool {
		last := recorder().Last
		return last != nil && strings.Contains(last.Error, syscall.ENOSPC.Error())
	})
	for _, c := range [][]string{{"status"}, {"status", "-v"}, {"events", "--kind", "snapshot_failed"}} {
		if out := succeeds(t, dir, c...); !strings.Contains(out, "no space left on device") {
			t.Errorf("%v prints\n%s\nwant the full disk", c, out)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	await.True(t, "a snapshot", func() bool { r := recorder(); return r.Snapshots > 0 && r.Last.Error == "" })
	if out := succeeds(t, dir, "rec", "info", recorder().Last.File); !strings.Contains(out, "properly") {
		t.Errorf("the snapshot is\n%s\nwant a complete file", out)
	}
	if err := daemon.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the daemon has ended: %v", err)
	}
}

package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

func TestHalfCreatedChannelsDoNotBlockNode(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		for i := range 26 {
			if err := os.WriteFile(filepath.Join(string(robot.dir), fmt.Sprintf("achshm-c%d", i)), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		robot.run(Config{})
		time.Sleep(5 * time.Second)
		worst := time.Duration(0)
		for range 20 {
			begin := time.Now()
			robot.node.Status()
			worst = max(worst, time.Since(begin))
			time.Sleep(130 * time.Millisecond)
		}
		if worst > 0 {
			t.Errorf("the node was busy for %v, want it to wait for nothing", worst)
		}
	})
}

func TestMirrorIsNotOfferedWithoutRelay(t *testing.T) {
	for what, adopt := range map[string][]string{"our file": nil, "adopted": {"robot.imu"}} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc, other := w.host("robot", wire10ms), w.host("pc", wire10ms), w.host("other", wire10ms)
				robot.run(Config{})
				robot.channel("imu", 4, 64).put(1, 64)
				if adopt != nil {
					pc.channel("robot.imu", 4, 64)
				}
				request := rule.Mirror{Host: "robot", Channel: "imu"}
				pc.run(Config{Mirrors: []rule.Mirror{request}, Adopt: adopt}, robot)
				pc.follows("robot.imu", 1, time.Second)
				other.run(Config{}, pc)
				w.within(time.Second, "link", func() bool { return len(other.node.Status().Links) == 1 })
				time.Sleep(time.Second)
				if list := other.node.Channels(); len(list) != 0 {
					t.Errorf("the PC offers %+v, want nothing", list)
				}
				if err := pc.node.Unmirror(request, Keep); err != nil {
					t.Fatal(err)
				}
				w.within(time.Second, "the adopted channel is the PC's own again", func() bool { return adopt == nil || len(other.node.Channels()) == 1 })
			})
		})
	}
}

// A sparse file has a mirror's name, but is not a mirror.
func TestForeignSparseFileStaysSparse(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		pc.channel("robot.imu", 1, 8<<20)
		path := pc.dir.Path("robot.imu")
		if err := unix.Fallocate(fileOf(t, path), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 64<<10, 7<<20); err != nil {
			t.Fatal(err)
		}
		blocks := func() int64 {
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err != nil {
				t.Fatal(err)
			}
			return st.Blocks
		}
		before := blocks()
		pc.run(allOfTheRobot)
		pc.node.SetPeers([]Peer{robot.asPeer("")})
		robot.channel("imu", 4, 64).put(1, 64)
		w.within(5*time.Second, "the refusal", func() bool { return pc.mirror("robot.imu").State == status.MirrorRefused })
		if now := blocks(); now != before {
			t.Errorf("the file takes %d blocks, %d before", now, before)
		}
	})
}

// fileOf returns a file descriptor, which is closed at the end of the test.
func fileOf(t *testing.T, path string) int {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

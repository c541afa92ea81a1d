package recording

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
)

// ringOf returns the files of a recorder in folder, the oldest first, and the numbers of the frames in all of them.
func ringOf(t *testing.T, folder, pattern string) (files []string, frames []uint64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		list, _ := all(t, path)
		frames = append(frames, numbers(list, "imu")...)
	}
	return files, frames
}

// killedAt copies folder as it is when a recorder with files is killed after a time.
func killedAt(t *testing.T, after time.Duration) (folder string) {
	t.Helper()
	running, folder := t.TempDir(), t.TempDir()
	inVirtualTime(t, running, config.Recorder{Files: true, Keep: 10 * time.Second}, func(c *recorderTest) {
		c.feed(after)
		if err := os.CopyFS(folder, os.DirFS(running)); err != nil {
			c.t.Fatal(err)
		}
	})
	return folder
}

func TestKilledRecorderLosesAtMostOpenSecond(t *testing.T) {
	for _, after := range []time.Duration{700 * time.Millisecond, 5 * time.Second, 10500 * time.Millisecond, 34500 * time.Millisecond} {
		folder := killedAt(t, after)
		if files, _ := ringOf(t, folder, ringPattern); len(files) > 2 {
			t.Errorf("after %v there are files %v, want two at most", after, files)
		}
		inVirtualTime(t, folder, config.Recorder{Files: true, Keep: 10 * time.Second}, func(c *recorderTest) {
			_, frames := ringOf(c.t, folder, snapshotPattern)
			last := at(after) - 1
			switch {
			case len(frames) == 0:
				if after > chunkEvery {
					c.t.Errorf("after %v no frame is left", after)
				}
			case !slices.Equal(frames, upTo(frames[0], frames[len(frames)-1])):
				c.t.Errorf("after %v there are gaps in %v", after, frames)
			case frames[0] > max(1, last-uint64(10*time.Second/framePeriod)) || frames[len(frames)-1] < last-uint64((chunkEvery+settle)/framePeriod):
				c.t.Errorf("after %v frames %d to %d are left of %d, want the last 10 s without the open second", after, frames[0], frames[len(frames)-1], last)
			}
			if len(c.results) == 0 || c.results[0].Reason != killedReason || c.results[0].Err != nil {
				c.t.Errorf("got reports %+v, want those of the files", c.results)
			}
		})
	}
}

// The files of a daemon that ended properly are left until its next start has newer ones.
func TestFilesOfProperEndAreNoSnapshots(t *testing.T) {
	folder := t.TempDir()
	rules := config.Recorder{Files: true, Keep: 10 * time.Second}
	inVirtualTime(t, folder, rules, func(c *recorderTest) { c.feed(25 * time.Second) })
	before, frames := ringOf(t, folder, ringPattern)
	if len(before) != 2 || !slices.Equal(frames, upTo(frames[0], at(25*time.Second)-1)) || frames[0] > at(15*time.Second) {
		t.Errorf("files %v have %d frames, want all of the last 10 s", before, len(frames))
	}
	inVirtualTime(t, folder, rules, func(c *recorderTest) { c.feed(15 * time.Second) })
	after, _ := ringOf(t, folder, ringPattern)
	if len(after) != 2 || slices.Contains(before, after[0]) {
		t.Errorf("a later daemon leaves %v, want two files other than %v", after, before)
	}
	if snapshots, _ := ringOf(t, folder, snapshotPattern); snapshots != nil {
		t.Errorf("there are snapshots %v, want none", snapshots)
	}
}

// The disk is full for a while: the problem is reported once, and then the files are written again.
func TestFullDiskInterruptsFiles(t *testing.T) {
	folder := fullDisk(t)
	ballast := filepath.Join(folder, "ballast")
	_ = os.WriteFile(ballast, bytes.Repeat([]byte{1}, 2<<20), 0o600) // what fits
	inVirtualTime(t, folder, config.Recorder{Files: true, Keep: 10 * time.Second, On: []string{"link_down"}}, func(c *recorderTest) {
		c.feed(25 * time.Second)
		if len(c.results) != 1 || c.results[0].Err == nil {
			c.t.Errorf("got reports %+v, want one error", c.results)
		}
		if p := c.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "no space left") {
			c.t.Errorf("the problems are %q, want the full disk", p)
		}
		if err := os.Remove(ballast); err != nil {
			c.t.Fatal(err)
		}
		c.feed(25 * time.Second)
		if p := c.Status().Problems; p != nil {
			c.t.Errorf("with room again, the problems are %q", p)
		}
		if _, frames := ringOf(c.t, folder, ringPattern); len(frames) == 0 {
			c.t.Error("with room again, no frame is in the files")
		}
		c.event(status.EventLinkDown)
		c.feed(20 * time.Second)
		if s := c.results[len(c.results)-1]; s.Err != nil || s.Frames == 0 {
			c.t.Errorf("got %+v, want a snapshot", s)
		}
	})
}

// Files count in the quota: snapshots make room for them.
func TestFilesAreBelowQuota(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"snapshot-000001-20260101T000000Z.mcap", "snapshot-000002-20260101T000000Z.mcap"} {
		if err := os.WriteFile(filepath.Join(folder, name), make([]byte, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const quota = 8 << 20
	inVirtualTime(t, folder, config.Recorder{Files: true, Quota: quota}, func(c *recorderTest) {
		c.feed(70 * time.Second)
		sum := int64(0)
		_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, _ error) error {
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				sum += info.Size()
			}
			return nil
		})
		if left, _ := filepath.Glob(filepath.Join(folder, snapshotPattern)); sum > quota || len(left) != 1 {
			c.t.Errorf("the files have %d bytes, and snapshots %v are left, want %d at most and the newest snapshot", sum, left, int64(quota))
		}
	})
}

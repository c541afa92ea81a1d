package localach_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Readers without the lock need this: before the bytes of a frame are reused, its entry is zero.
func TestPutZeroesEntryBeforeReusingItsBytes(t *testing.T) {
	bin := orderProgram(t)
	for _, size := range []int{8, 512, 20_000} {
		if got := putInOrder(t, bin, size, size); got["early"] != 0 || got["got"] != 40 {
			t.Errorf("frames of %d bytes: got %v, want no bytes reused early and 40 frames whole", size, got)
		}
	}
}

// Our buffers are paged in before the lock is taken.
func TestNoPageFaultUnderLock(t *testing.T) {
	bin := orderProgram(t)
	for _, size := range []int{64, 20_000, 300_000} {
		if got := putInOrder(t, bin, size, size); got["faults"] != 0 || got["got"] != 40 {
			t.Errorf("frames of %d bytes: got %v, want no page fault under the lock", size, got)
		}
	}
}

// If frames are so large that libach's memcpy may bypass the caches, a reader takes the lock once for each frame.
func TestLargeFramesTakeLockOnce(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("every read takes the lock here")
	}
	bin := orderProgram(t)
	for _, c := range []struct {
		size, len int
		locks     float64
	}{{512, 512, 0}, {16_384, 16_384, 0}, {16_400, 16_400, 40}, {100_000, 100_000, 40}, {100_000, 100, 40}, {8000, 20_000, 40}} {
		if got := putInOrder(t, bin, c.size, c.len); got["locks"] != c.locks || got["waited"] != 0 || got["got"] != 40 || got["stale"] != 0 || got["depth"] != 0 || got["word"] != 0 {
			t.Errorf("%d bytes in a channel for %d: got %v, want %v locks taken, none waited for, all given back, nothing stale", c.len, c.size, got, c.locks)
		}
	}
}

// lseek waits for programs that allocate or free memory of the channel's file, which any program with write permission can do.
func TestNoHoleCheckUnderLock(t *testing.T) {
	bin := orderProgram(t)
	const (
		missed = 6  // ACH_MISSED
		busy   = 32 // ACH_BUSY
	)
	for _, size := range []int{20_000, 300_000} {
		got := putInOrder(t, bin, size, size)
		if got["looks"] != 80 || got["under"] != 0 || got["got"] != 40 {
			t.Errorf("frames of %d bytes: got %v, want one look for each of 80 gets, none under the lock", size, got)
		}
		if got["replaced"] != missed || got["chased"] != busy || got["word"] != 0 {
			t.Errorf("frames of %d bytes: got %v, want %d for a frame in the place of the one looked at, %d if that never ends", size, got, missed, busy)
		}
	}
	if got := putInOrder(t, bin, 512, 512); got["looks"] != 0 {
		t.Errorf("small frames: got %v, want no look", got)
	}
}

func orderProgram(t *testing.T) string {
	t.Helper()
	sources, err := filepath.Glob("*.c")
	if err != nil {
		t.Fatal(err)
	}
	return built(t, "cc", "order", append(sources, "-fno-builtin-memcpy", "-Wl,--wrap=memcpy,--wrap=ach_lock,--wrap=ach_unlock,--wrap=lseek", "testdata/order.c")...)
}

func putInOrder(t *testing.T, bin string, size, length int) map[string]float64 {
	t.Helper()
	d := privateDir(t)
	createIn(t, d, "imu", 4, size)
	return start(t, exec.Command(bin, pathOf(d, "imu"), "4", fmt.Sprint(size), fmt.Sprint(length))).result()
}

// The effect of a missing fence cannot be reproduced reliably, so the test checks the compiled code of put.
func TestPutFencesCopyOfLargeFrame(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("x86-64 alone reads without the lock")
	}
	text, err := os.ReadFile(built(t, "cc", "put.s", "-S", "put.c"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "sfence" {
			return
		}
	}
	t.Error("no sfence in put.c: a large copy may be seen before the entries it overwrites are zeroed")
}

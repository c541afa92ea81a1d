package bridge

import (
	"os"
	"testing"
	"time"

	"achbridge/localach"
)

func testDir(t testing.TB) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "bridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}

func eventually(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

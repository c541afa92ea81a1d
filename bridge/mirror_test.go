package bridge

import (
	"encoding/binary"
	"os"
	"path/filepath"
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

// takeLock plays a process that stopped inside put or get.
func takeLock(t *testing.T, dir localach.Dir, name string) {
	poke(t, dir, name, lockWord, binary.NativeEndian.AppendUint32(nil, uint32(os.Getpid())))
}

func freeLock(t *testing.T, dir localach.Dir, name string) {
	poke(t, dir, name, lockWord, make([]byte, 4))
}

// makeDirty plays a process that died inside put.
func makeDirty(t *testing.T, dir localach.Dir, name string) {
	poke(t, dir, name, dirtyWord, []byte{1})
}

// Of a channel's header, see ach-abi.
const (
	lockWord  = 216 // pthread_mutex_t, its first word
	dirtyWord = 304
)

func poke(t *testing.T, dir localach.Dir, name string, at int64, b []byte) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(string(dir), "achshm-"+name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

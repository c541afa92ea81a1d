// Package damage changes a channel's file like a program that was stopped or killed inside put or
// get. It is for tests of packages that use channels.
//
//	damage.TakeLock(t, dir, "imu") // puts and gets of other programs now wait
package damage

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"achbridge/localach"
)

// Offsets of words in a channel's header, see ach-abi.md.
const (
	lockWord  = 216 // first word of the pthread_mutex_t
	DirtyWord = 304 // not 0 during a put
)

// TakeLock takes the channel's lock, like a process that was stopped inside put or get.
func TakeLock(t testing.TB, dir localach.Dir, name string) {
	t.Helper()
	Write(t, dir, name, lockWord, binary.NativeEndian.AppendUint32(nil, uint32(os.Getpid())))
}

// FreeLock releases the lock.
func FreeLock(t testing.TB, dir localach.Dir, name string) {
	t.Helper()
	Write(t, dir, name, lockWord, make([]byte, 4))
}

// MakeDirty makes the channel dirty, like a process that was killed inside put.
func MakeDirty(t testing.TB, dir localach.Dir, name string) {
	t.Helper()
	Write(t, dir, name, DirtyWord, []byte{1})
}

// Write writes b to the file at offset at.
func Write(t testing.TB, dir localach.Dir, name string, at int64, b []byte) {
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

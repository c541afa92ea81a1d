// Package damage does to a channel's file what a program does that stops or dies in the middle
// of its work. It is for tests of packages that use channels.
//
//	damage.TakeLock(t, dir, "imu") // every put and get of others waits from now on
package damage

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"achbridge/localach"
)

// Where words of a channel's header stand, see ach-abi.
const (
	lockWord  = 216 // the first of the pthread_mutex_t
	DirtyWord = 304 // not 0 while a put is at it
)

// TakeLock plays a process that stopped inside put or get.
func TakeLock(t testing.TB, dir localach.Dir, name string) {
	t.Helper()
	Write(t, dir, name, lockWord, binary.NativeEndian.AppendUint32(nil, uint32(os.Getpid())))
}

// FreeLock has it go on.
func FreeLock(t testing.TB, dir localach.Dir, name string) {
	t.Helper()
	Write(t, dir, name, lockWord, make([]byte, 4))
}

// MakeDirty plays a process that died inside put.
func MakeDirty(t testing.TB, dir localach.Dir, name string) {
	t.Helper()
	Write(t, dir, name, DirtyWord, []byte{1})
}

// Write changes bytes of the file.
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

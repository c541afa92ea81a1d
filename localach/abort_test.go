package localach_test

import (
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// A program that may write the file fakes waiting readers and another broadcast in progress, and truncates the file while we
// wait for that broadcast. The futex call then fails, in which case glibc's pthread_cond_broadcast aborts the process.
func TestTruncationDuringBroadcastDoesNotEndProcess(t *testing.T) {
	d := privateDir(t)
	victim := startOurs(t, d, "put", "imu").ready()
	for round := range need.LongOr(2000, 30) {
		c, err := d.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}, Replace: true})
		if err != nil {
			t.Fatal(err)
		}
		fakeWaiters(t, d, c, time.Duration(50+round%200)*time.Microsecond)
		if err := os.Truncate(pathOf(d, "imu"), 0); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if victim.exited() {
			victim.wait()
			t.Fatalf("round %d: the process that puts has ended: %v", round, victim.cmd.ProcessState)
		}
	}
}

// fakeWaiters makes the condition variable look as if it had waiters and its inner lock were contended, for some time after the
// victim's put.
func fakeWaiters(t *testing.T, d localach.Dir, c *localach.Channel, last time.Duration) {
	t.Helper()
	file, err := os.OpenFile(pathOf(d, c.Name()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	word := func(i int) *uint32 { return (*uint32)(unsafe.Pointer(&memory[localach.CondAt+4*i])) }
	wrefs, lock := word(9), word(8) // glibc up to 2.40
	if *wrefs != 3 {
		wrefs, lock = word(7), word(6)
	}
	for end := await.Deadline(); c.LastSeq() == 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Microsecond)
	}
	atomic.StoreUint32(wrefs, 3+8)
	for n, end := uint32(0), time.Now().Add(last); time.Now().Before(end); n++ {
		atomic.StoreUint32(lock, n<<2|1)
	}
}

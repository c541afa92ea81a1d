package mirror

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// Operations of futex(2) that a put needs only while another process wants the lock, or has died holding it.
const (
	futexLockPI    = 6
	futexUnlockPI  = 7
	futexTryLockPI = 8
	ownerDied      = 0x40000000
)

const seqStep = 10

// The recorded frame is the newest in the file, wherever in a put the daemon is killed. An older record would
// put a frame twice, a newer one would lose a frame. Our own file has a tag; an adopted one has a put record.
// The kernel kills the process in the given system call.
func TestRecordedFrameIsNewestAfterKilledPut(t *testing.T) {
	for name, c := range map[string]struct {
		op      int
		put     bool
		adopted bool
	}{
		"before the frame is there": {futexTryLockPI, false, false}, "as soon as it is there": {futexUnlockPI, true, false},
		"before the frame is there, adopted": {futexTryLockPI, false, true}, "as soon as it is there, adopted": {futexUnlockPI, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := testDir(t)
			if c.adopted {
				anothersChannel(t, dir, "robot.imu")
			}
			cmd := exec.Command(os.Args[0], string(dir), fmt.Sprint(c.op), fmt.Sprint(c.adopted))
			cmd.Env = append(os.Environ(), "MIRROR_CHILD=killed-put")
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var ended atomic.Bool
			go func() { cmd.Wait(); ended.Store(true) }()
			wantLock(t, dir, c.op, &ended)

			ch, err := dir.Open("robot.imu")
			if err != nil {
				t.Fatal(err)
			}
			defer ch.Close()
			frame := make([]byte, 64)
			if _, err := ch.Reader().Last(frame); err != nil {
				t.Fatal(err)
			}
			newest, reported := binary.NativeEndian.Uint64(frame), ch.Tag().Seq
			if c.adopted {
				record, err := openPutRecord(dir, "robot.imu")
				if err != nil {
					t.Fatal(err)
				}
				defer record.close()
				tag, _ := record.recall(ch)
				reported = tag.Seq
			}
			if newest != seqStep*ch.LastSeq() {
				t.Fatalf("invalid test: got frame %d at position %d", newest, ch.LastSeq())
			}
			if c.put && reported != newest || !c.put && (reported < newest || reported >= newest+seqStep) {
				t.Errorf("newest frame in the file: %d of the origin; recorded: %d; want the same", newest, reported)
			}
		})
	}
}

// wantLock makes the child use operation op until the child has ended. It either queues for the lock, or leaves
// the lock like a process that died holding it.
func wantLock(t *testing.T, dir localach.Dir, op int, ended *atomic.Bool) {
	t.Helper()
	var ch *localach.Channel
	eventually(t, "the child has put some frames", 10*time.Second, func() bool {
		if ch == nil {
			ch, _ = dir.Open("robot.imu")
		}
		return ch != nil && ch.LastSeq() > 100
	})
	defer ch.Close()
	file, err := os.OpenFile(dir.Path("robot.imu"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	word := (*uint32)(unsafe.Pointer(&memory[216]))
	runtime.LockOSThread() // the thread owns the lock
	defer runtime.UnlockOSThread()
	eventually(t, "the child is killed", 20*time.Second, func() bool {
		if op == futexTryLockPI {
			atomic.CompareAndSwapUint32(word, 0, ownerDied)
			return ended.Load()
		}
		for range 100 {
			futex(word, futexLockPI)
			futex(word, futexUnlockPI)
		}
		return ended.Load()
	})
}

func futex(word *uint32, op int) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), uintptr(op), 0, 0, 0, 0)
}

// killedPutRole puts every tenth frame of an origin into a mirror, until the kernel kills the process in the
// given futex operation.
func killedPutRole(args []string) error {
	var op int
	if _, err := fmt.Sscan(args[1], &op); err != nil {
		return err
	}
	time.AfterFunc(time.Minute, func() { os.Exit(1) }) // in case the parent has died
	m, err := bareAdopted(localach.Dir(args[0]), "robot.imu", args[2] == "true")
	if err != nil {
		return err
	}
	m.mu.Lock()
	if err := dieInFutex(op); err != nil {
		return err
	}
	frame := make([]byte, 64)
	for seq := uint64(seqStep); ; {
		binary.NativeEndian.PutUint64(frame, seq)
		err := m.write(incoming{seq: seq, data: frame})
		if err != nil && !IsBusy(err) {
			return err
		}
		if err == nil {
			seq += seqStep
		}
	}
}

// dieInFutex makes the kernel kill this process when one of its threads makes that system call.
func dieInFutex(op int) error {
	const load, mask, equal, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // number of the system call
		{Code: equal, K: unix.SYS_FUTEX, Jf: 4},
		{Code: load, K: 24}, // second argument of the system call
		{Code: mask, K: 127},
		{Code: equal, K: uint32(op), Jf: 1},
		{Code: end, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: end, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
	"achbridge/testnet/await"
)

// copied is a mirror in shared memory and its copy in the kernel.
type copied struct {
	t        *testing.T
	channels *Channels
	file     *localach.Channel
	w        *localach.Writer
	copy     *Copy
	count    int
}

const copiedName = "krang.imu"

// startCopy copies a new mirror. Its kernel channel is removed at the end of the test.
func startCopy(t *testing.T, m world) *copied {
	t.Helper()
	c := m.channels()
	watched(t, c)
	file, err := c.shm.Create(copiedName, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 8, FrameSize: 64}})
	do(t, err)
	k := &copied{t: t, channels: c, file: file, w: file.Writer(), copy: c.Copy(file, false)}
	t.Cleanup(func() {
		k.copy.Close()
		k.w.Close()
		k.file.Close()
		_ = m.Unlink(copiedName)
	})
	return k
}

// put puts a frame into the mirror.
func (k *copied) put() (frame string) {
	k.t.Helper()
	k.count++
	frame = fmt.Sprintf("frame %d", k.count)
	_, err := k.w.Put([]byte(frame))
	do(k.t, err)
	k.copy.Wake()
	return frame
}

// restart closes the copy and starts another one, as the next daemon does.
func (k *copied) restart() {
	k.copy.Close()
	k.copy = k.channels.Copy(k.file, false)
}

// awaitWritten waits until the copy has written a number of frames.
func (k *copied) awaitWritten(want uint64) {
	k.t.Helper()
	await.NoError(k.t, func() error {
		if counts, err := k.copy.State(); err != nil || counts.Written != want {
			return fmt.Errorf("State() = %+v, %v, want %d written", counts, err, want)
		}
		return nil
	})
}

// awaitError waits until the copy reports an error that contains a text.
func (k *copied) awaitError(want string) {
	k.t.Helper()
	await.NoError(k.t, func() error {
		if counts, err := k.copy.State(); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("State() = %+v, %v, want an error with %q", counts, err, want)
		}
		return nil
	})
}

// read opens the kernel channel as another program does.
func read(t *testing.T, m world, name string) *localach.Channel {
	t.Helper()
	c := m.channels()
	watched(t, c)
	return opened(t, c, name)
}

// exists reports whether the kernel channel has a device.
func (k *copied) exists() bool {
	_, err := nodeAt(k.channels.path(copiedName))
	return err == nil
}

func TestCopyGetsEachFrame(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		k := startCopy(t, m)
		first := k.put()
		k.awaitWritten(1)
		r := read(t, m, copiedName).Reader()
		wantNext(t, r, first)
		for range 20 {
			wantNext(t, r, k.put())
		}
		if k.channels.Opens(copiedName) {
			t.Error("Opens is true for a copy: it would be exported")
		}
	})
}

func TestCopyOfEveryFrameSkipsNone(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		k := startCopy(t, m)
		k.copy.Close()
		for range 8 {
			k.put()
		}
		k.copy = k.channels.Copy(k.file, true)
		k.awaitWritten(8)
	})
}

func TestRestartedCopyWritesNoFrameTwice(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		k := startCopy(t, m)
		k.put()
		k.awaitWritten(1)
		k.restart()
		last := k.put()
		k.awaitWritten(1)
		k.copy.Close()

		// A daemon that was killed before it wrote a frame.
		r, err := openRecord(k.channels.shm, copiedName)
		do(t, err)
		do(t, r.writes(k.file.Epoch(), 2, 2))
		k.copy = k.channels.Copy(k.file, false)
		k.awaitWritten(1)
		k.copy.Close()

		// A daemon that was killed after it wrote a frame.
		do(t, r.writes(k.file.Epoch(), 2, 1))
		r.close()
		k.copy = k.channels.Copy(k.file, false)
		ring := read(t, m, copiedName)
		wantNext(t, ring.Reader(), last)
		next := k.put()
		k.awaitWritten(1)
		r2 := ring.Reader()
		await.True(t, "the next frame", func() bool {
			var buf [64]byte
			n, err := r2.Next(buf[:], time.Second)
			return err == nil && string(buf[:n]) == next
		})
	})
}

func TestKilledCreationIsOurs(t *testing.T) {
	m := newEmulated(t)
	c := m.channels()
	r, err := openRecord(c.shm, copiedName)
	do(t, err)
	defer r.close()
	do(t, r.begin())
	if r.owns(m.path(copiedName)) {
		t.Error("a record without a device owns one")
	}
	do(t, m.Create(copiedName, 4, 64))
	if !r.owns(m.path(copiedName)) {
		t.Error("a channel that was made after the daemon began to make it is not ours")
	}
	for _, since := range []time.Duration{time.Hour, -time.Hour} {
		do(t, r.set(recordNote{StartedAt: time.Now().Add(since).UnixNano()}))
		if r.owns(m.path(copiedName)) {
			t.Errorf("a channel is ours although the daemon began to make one %v later", since)
		}
	}
}

func TestForeignKernelChannelIsLeft(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		do(t, m.Create(copiedName, 4, 64))
		do(t, m.Put(copiedName, []byte("theirs")))
		k := startCopy(t, m)
		k.put()
		k.awaitError("another program made this kernel channel")
		k.copy.Close()
		do(t, k.channels.Remove(copiedName))
		wantNext(t, read(t, m, copiedName).Reader(), "theirs")
	})
}

func TestLargeMirrorIsNotInKernel(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		watched(t, c)
		file, err := c.shm.Create(copiedName, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: MaxMirrorBytes / 4}})
		do(t, err)
		defer file.Close()
		k := &copied{t: t, channels: c, copy: c.Copy(file, false)}
		defer k.copy.Close()
		k.awaitError("too large for the kernel: it would have 256 KiB, at most 256 are made")
		if k.exists() {
			t.Error("there is a kernel channel, want none")
		}
	})
}

func TestFrameLargerThanKernelChannelIsSkipped(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		k := startCopy(t, m)
		k.put()
		k.awaitWritten(1)
		k.copy.Close()
		larger, err := k.channels.shm.Create(copiedName, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 8, FrameSize: 1000}, Replace: true})
		do(t, err)
		k.w.Close()
		k.file.Close()
		k.file, k.w, k.copy = larger, larger.Writer(), k.channels.Copy(larger, false)
		_, err = k.w.Put(make([]byte, 1000))
		do(t, err)
		k.copy.Wake()
		k.awaitError("a frame of 1000 bytes does not fit into the kernel channel")
		k.put()
		k.awaitWritten(1)
	})
}

func TestRemovedCopyIsReported(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		k := startCopy(t, m)
		k.put()
		k.awaitWritten(1)
		before := m.Faults()
		m.see(true)
		do(t, m.Unlink(copiedName))
		k.awaitError("removed")
		time.Sleep(2 * firstRetry)
		if k.awaitError("only root sees that"); k.exists() {
			t.Error("the kernel channel was made again, although a program may have the removed one open")
		}
		if got := m.Faults() - before; got != 0 {
			t.Errorf("%d descriptors closed too late, want 0", got)
		}
		k.copy.Close()
		m.see(false)
		k.copy = k.channels.Copy(k.file, false)
		k.awaitWritten(1) // the new kernel channel lacks the newest frame
	})
}

func TestCopyIsRemovedUnlessOpen(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		k := startCopy(t, m)
		k.put()
		k.awaitWritten(1)
		if err := k.channels.Remove(copiedName); err == nil || !strings.Contains(err.Error(), "the daemon still uses it") {
			t.Errorf("Remove of an open copy = %v, want that the daemon uses it", err)
		}
		k.copy.Close()
		for _, c := range []struct {
			pids       []int
			isComplete bool
			want       string
		}{{[]int{7}, true, "process 7 has it open"}, {nil, false, "only root sees"}} {
			m.see(!c.isComplete, c.pids...)
			if err := k.channels.Remove(copiedName); err == nil || !strings.Contains(err.Error(), c.want) || !k.exists() {
				t.Errorf("Remove() = %v, want an error with %q", err, c.want)
			}
		}
		m.see(false)
		if list := k.channels.RemoveAll(); len(list) > 0 || k.exists() {
			t.Errorf("RemoveAll() = %v, want that the kernel channel is removed", list)
		}
		if _, err := readRecord(k.channels.shm, copiedName); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the record stays: %v", err)
		}
		k.copy = k.channels.Copy(k.file, false)
		k.awaitWritten(1) // the new kernel channel lacks the newest frame
	})
}

func TestNothingIsMadeWhileRemovedChannelIsOpen(t *testing.T) {
	m := newEmulated(t)
	w := world{m, &sight{}, m.channels, 0}
	w.see(false, 7)
	k := startCopy(t, w)
	k.awaitError("process 7 has a removed kernel channel open")
}

func TestFailedWriteIsReportedAndRepaired(t *testing.T) {
	for _, failure := range []error{unix.EIO, unix.ENOSPC, unix.ENODEV, unix.EAGAIN} {
		m := newEmulated(t)
		k := startCopy(t, world{m, &sight{}, m.channels, 0})
		k.put()
		k.awaitWritten(1)
		m.mu.Lock()
		m.writeErr = failure
		m.mu.Unlock()
		k.put()
		k.awaitError(failure.Error())
		m.mu.Lock()
		m.writeErr = nil
		m.mu.Unlock()
		k.awaitWritten(2) // the frame that could not be written
	}
}

// A program that holds the lock of a kernel channel delays nothing but the copy.
func TestStuckWriteDelaysOnlyTheCopy(t *testing.T) {
	m := newEmulated(t)
	k := startCopy(t, world{m, &sight{}, m.channels, 0})
	k.put()
	k.awaitWritten(1)
	stuck := make(chan struct{})
	m.mu.Lock()
	m.stuck = stuck
	m.mu.Unlock()
	k.put()
	k.awaitError("the kernel's Ach module does not answer")
	do(t, m.Create("imu", 4, 64))
	do(t, m.Unlink(copiedName)) // Watch closes the device now
	begin := time.Now()
	opened(t, k.channels, "imu")
	k.copy.Close()
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("opening another channel and closing the copy took %v, want at most the limits of both", took)
	}
	retried := k.channels.Copy(k.file, false)
	defer retried.Close()
	await.True(t, "nothing is made meanwhile", func() bool {
		_, err := retried.State()
		return err != nil && strings.Contains(err.Error(), "a call of this daemon on a removed kernel channel does not return")
	})
	m.mu.Lock()
	m.stuck = nil
	m.mu.Unlock()
	close(stuck)
	<-k.copy.hasEnded
	await.True(t, "the channel is made then", k.exists)
}

// A creation that fails leaves a broken slot, and the module does not survive the next one.
func TestFailedCreationIsTheLast(t *testing.T) {
	m := newEmulated(t)
	m.isFull = true
	k := startCopy(t, world{m, &sight{}, m.channels, 0})
	k.awaitError("cannot allocate memory")
	k.awaitError("does not survive another attempt")
	next := m.channels() // those of the next daemon, after the memory is there again
	next.shm = k.channels.shm
	k.copy.Close()
	m.isFull = false
	watched(t, next)
	k.copy = next.Copy(k.file, false)
	k.awaitError("does not survive another attempt")
	if m.Faults() != 0 {
		t.Errorf("%d creations after one that failed, want 0", m.Faults())
	}
}

// The module of Ach crashes there. Its replacements in tests must notice that.
func TestCreationAfterFailureIsCounted(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		before := m.Faults()
		if err := m.Create("huge", 2, 64<<20); !errors.Is(err, unix.ENOMEM) {
			t.Errorf("Create(huge) = %v, want %v", err, unix.ENOMEM)
		}
		do(t, m.Create("imu", 4, 64))
		do(t, m.Create("joints", 4, 64))
		if got := m.Faults() - before; got != 1 {
			t.Errorf("%d faults, want 1", got)
		}
	})
}

func TestHoldersOfOpenFile(t *testing.T) {
	path := t.TempDir() + "/ach-imu"
	file, err := os.Create(path)
	do(t, err)
	defer file.Close()
	isPath := func(open string) bool { return open == path }
	if pids, _ := holdersOf(isPath); len(pids) > 0 {
		t.Errorf("holdersOf() = %v, want none: this process does not count", pids)
	}
	holder := exec.Command("sleep", "1000")
	holder.ExtraFiles = []*os.File{file}
	do(t, holder.Start())
	defer func() { holder.Process.Kill(); holder.Wait() }()
	if pids, _ := holdersOf(isPath); !slices.Equal(pids, []int{holder.Process.Pid}) {
		t.Errorf("holdersOf() = %v, want %d", pids, holder.Process.Pid)
	}
}

func TestForeignFramesAreCounted(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		k := startCopy(t, m)
		k.copy.Close()
		do(t, k.channels.Remove(copiedName))
		c := k.channels
		w, err := c.openWriter(copiedName, k.file.Geometry())
		do(t, err)
		defer c.endWriter(copiedName, w)
		w.statusEvery = time.Nanosecond
		do(t, m.Put(copiedName, []byte("theirs")))
		for i, want := range []uint64{1, 0} {
			if foreign, err := w.write(k.file.Epoch(), uint64(i+1), []byte("ours")); err != nil || foreign != want {
				t.Errorf("write() = %d foreign frames, %v, want %d", foreign, err, want)
			}
		}
	})
}

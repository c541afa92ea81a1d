package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// MaxMirrorBytes is the size of the largest kernel channel that Copy makes, with its header. The module survives no creation for
// which it gets no memory: the next one stops the kernel.
const MaxMirrorBytes = 256 << 10

// ErrTooLarge means that a mirror is too large for the kernel.
var ErrTooLarge = errors.New("too large for the kernel")

var (
	errForeign  = errors.New("another program made this kernel channel, so it is neither written nor removed")
	errNoModule = errors.New("the kernel's Ach module is not loaded")
)

// channelBytes returns the size of a kernel channel. The header has about 350 bytes.
func channelBytes(g localach.Geometry) int64 { return 512 + int64(g.FrameCount)*int64(g.FrameSize+24) }

// create makes a kernel channel. There must be no device of that name. c.making must be held.
func (c *Channels) create(name string, g localach.Geometry, r *record) error {
	if size := channelBytes(g); size > MaxMirrorBytes {
		return fmt.Errorf("%w: it would have %d KiB, at most %d are made", ErrTooLarge, size>>10, MaxMirrorBytes>>10)
	}
	control, err := c.openControl()
	if err != nil {
		return err
	}
	defer unix.Close(control)
	if err := c.mayCreate(name); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	arg := creation{frames: uint64(g.FrameCount), size: uint64(g.FrameSize), clock: unix.CLOCK_MONOTONIC, name: nameArgument(name)}
	err = c.calls.ioctl(control, createChannel, unsafe.Pointer(&arg))
	if err != nil {
		if !errors.Is(err, unix.EEXIST) {
			c.markBroken()
		}
		_ = r.remove()
		return fmt.Errorf("%s: cannot be made: %w", c.path(name), err)
	}
	at, err := nodeAt(c.path(name))
	if err != nil {
		return err
	}
	return r.made(at)
}

// mayCreate returns an error if the kernel would not survive a new channel, as far as this process can see.
func (c *Channels) mayCreate(name string) error {
	if c.isBroken() {
		return errors.New("a channel could not be made in the kernel, which does not survive another attempt: reboot, or load the module again")
	}
	if c.hasOrphan() {
		return errors.New("not made, since a call of this daemon on a removed kernel channel does not return, and its close would then crash the kernel")
	}
	c.mu.Lock()
	isRemoved := c.isRemoved[name]
	c.mu.Unlock()
	holders, isComplete := c.holders(func(path string) bool {
		return strings.HasPrefix(path, c.path("")) && strings.HasSuffix(path, " (deleted)")
	})
	switch {
	case len(holders) > 0:
		return fmt.Errorf("not made, since process %d has a removed kernel channel open, and its close would then crash the kernel: end that process", holders[0])
	case isRemoved && !isComplete:
		return errors.New("it was removed, and is not made again: a program may still have the removed one open, and its close would then crash the kernel (only root sees that); end its programs and restart the daemon")
	}
	return nil
}

// openControl opens the control device.
func (c *Channels) openControl() (fd int, err error) {
	fd, err = c.calls.open(c.controlPath(), unix.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		err = errNoModule
	}
	return fd, withFix(err, "read and write")
}

func (c *Channels) controlPath() string { return filepath.Join(c.dir, "achctrl") }

// brokenPath returns the path of the file that records a failed creation. No record of a channel has such a name.
func (c *Channels) brokenPath() string {
	return filepath.Join(string(c.shm), ".achbridge.kernel.broken")
}

// markBroken records that the module must create no channel any more. For another daemon that ends when the module is loaded
// again, since its control device is another one then.
func (c *Channels) markBroken() {
	c.hasFailed.Store(true)
	if at, err := nodeAt(c.controlPath()); err == nil {
		_ = os.WriteFile(c.brokenPath(), []byte(at.String()), 0o600) // for the next daemon
	}
}

func (c *Channels) isBroken() bool {
	if c.hasFailed.Load() {
		return true
	}
	text, err := os.ReadFile(c.brokenPath())
	if err != nil {
		return false
	}
	at, err := nodeAt(c.controlPath())
	return err == nil && string(text) == at.String()
}

// Remove removes a kernel channel that Copy made. It does nothing if there is none. The copy must be closed. A channel that
// a program may have open stays, and Remove returns why, since its close could crash the kernel. Remove can block.
func (c *Channels) Remove(name string) error {
	c.making.Lock()
	defer c.making.Unlock()
	path := c.path(name)
	r, err := readRecord(c.shm, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !r.owns(path) {
		return r.remove()
	}
	c.mu.Lock()
	isOpen := c.writers[name] != nil
	c.mu.Unlock()
	if isOpen {
		return fmt.Errorf("%s stays, since the daemon still uses it", path)
	}
	holders, isComplete := c.holders(func(open string) bool { return open == path })
	switch {
	case len(holders) > 0:
		return fmt.Errorf("%s stays, since process %d has it open, and its close could crash the kernel later: end that process", path, holders[0])
	case !isComplete:
		return fmt.Errorf("%s stays, since a program may have it open, and its close could crash the kernel later; only root sees whether one has", path)
	}
	control, err := c.openControl()
	if err != nil {
		return fmt.Errorf("%s stays: %w", path, err)
	}
	defer unix.Close(control)
	arg := nameArgument(name)
	if err := c.calls.ioctl(control, unlinkChannel, unsafe.Pointer(&arg)); err != nil {
		return fmt.Errorf("%s stays: %w", path, err)
	}
	return r.remove()
}

// RemoveAll removes all kernel channels that Copy made, for a daemon that makes no copies. It returns why channels stay.
func (c *Channels) RemoveAll() (list []error) {
	paths, _ := filepath.Glob(localach.DeviceCopyRecord(c.shm, "*"))
	for _, path := range paths {
		name := strings.TrimPrefix(path, localach.DeviceCopyRecord(c.shm, ""))
		if localach.CheckName(name) != nil {
			continue
		}
		if err := c.Remove(name); err != nil {
			list = append(list, err)
		}
	}
	return list
}

// firstPIDNamespace is the PID namespace that has all processes, PROC_PID_INIT_INO of the kernel.
const firstPIDNamespace = "pid:[4026531836]"

// holdersOf returns the other processes that have a file open whose path matches. isComplete is false if there may be more, in
// processes that this one cannot see.
func holdersOf(matches func(path string) bool) (pids []int, isComplete bool) {
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	isComplete = os.Geteuid() == 0 && namespace == firstPIDNamespace
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		isHolder, err := holds(pid, matches)
		if isHolder {
			pids = append(pids, pid)
		}
		isComplete = isComplete && (err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH))
	}
	return pids, isComplete
}

// holds reports whether a process has a file open whose path matches.
func holds(pid int, matches func(path string) bool) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if path, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && matches(path) {
			return true, nil
		}
	}
	return false, nil
}

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// retryAfter is the time after a failure of a device during which the device is not opened again.
const retryAfter = 10 * time.Second

// Channels are the channels of the kernel's module on this host. Safe for concurrent use.
type Channels struct {
	shm      localach.Dir
	dir      string      // directory of the device nodes
	nodeType fs.FileMode // type of the device nodes
	calls    calls

	// holders returns the other processes that have a file open whose path matches, and whether those are all.
	holders func(matches func(path string) bool) (pids []int, isComplete bool)

	hasFailed atomic.Bool // a channel could not be made, so no other may be

	making sync.Mutex // held while a channel is made or removed, which may block

	mu        sync.Mutex
	isWatched bool               // Watch runs, so removed nodes are noticed
	readers   map[string]*reader // the last reader of each name that was opened
	writers   map[string]*writer // the last writer of each name that was opened
	isRemoved map[string]bool    // names of which a device with a writer was removed
	orphans   []*device          // removed devices whose descriptors the kernel did not release at once
}

// New returns the channels of the kernel. shm is the directory of the channels in shared memory. It opens no device.
func New(shm localach.Dir) *Channels {
	return &Channels{
		shm: shm, dir: "/dev", nodeType: fs.ModeDevice | fs.ModeCharDevice, calls: systemCalls{}, holders: holdersOf,
		readers: map[string]*reader{}, writers: map[string]*writer{}, isRemoved: map[string]bool{},
	}
}

func (c *Channels) path(name string) string { return localach.DevicePath(c.dir, name) }

// Opens reports whether a program of this process's user that is linked with libach opens the kernel's channel of a name, and
// not the one in shared memory. It opens nothing. If there is no channel in shared memory, permission to read is enough. It
// returns false for kernel channels that Copy made.
func (c *Channels) Opens(name string) bool {
	info, err := os.Lstat(c.path(name))
	if err != nil || info.Mode().Type() != c.nodeType {
		return false
	}
	if r, err := readRecord(c.shm, name); err == nil && r.owns(c.path(name)) {
		return false
	}
	if unix.Faccessat(unix.AT_FDCWD, c.path(name), unix.R_OK|unix.W_OK, unix.AT_EACCESS) == nil {
		return true
	}
	_, err = os.Lstat(c.shm.Path(name))
	return errors.Is(err, fs.ErrNotExist)
}

// TryOpen opens a kernel channel as a private channel, which gets the frames from then on, beginning with the newest one. Its
// Check returns localach.ErrUnlinked or localach.ErrReplaced when the device is gone. If the channel is open, TryOpen returns
// the same *localach.Channel. A device that has failed is not opened again for 10 s. Close the channel before Watch ends.
func (c *Channels) TryOpen(name string) (*localach.Channel, error) {
	if err := localach.CheckName(name); err != nil {
		return nil, err
	}
	d, ring, err := c.openToRead(name)
	if err != nil || ring != nil {
		return ring, err
	}
	if ring, err = c.makeRing(name, d); err != nil {
		return nil, d.fail(err)
	}
	return ring, nil
}

// openToRead opens the device of a name. ring is that of the device if it was open. openToRead holds the lock meanwhile, so that
// Watch closes the device if its node is removed from now on.
func (c *Channels) openToRead(name string) (d *reader, ring *localach.Channel, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkWatched(name); err != nil {
		return nil, nil, err
	}
	at, err := nodeAt(c.path(name))
	if err != nil {
		return nil, nil, err
	}
	if old := c.readers[name]; old != nil && old.node == at {
		if err := old.failure(retryAfter); err != nil {
			return nil, nil, err
		}
		if old.ring != nil && old.check() == nil {
			return old, old.ring, nil
		}
	}
	d, err = openReader(c.calls, c.path(name), at)
	if d != nil {
		c.readers[name] = d
	}
	return d, nil, withFix(err, "read")
}

// checkWatched returns an error if removed devices would not be noticed. c.mu must be held.
func (c *Channels) checkWatched(name string) error {
	if !c.isWatched {
		return fmt.Errorf("kernel channel %s: not opened, since inotify does not report removed devices", name)
	}
	return nil
}

// withFix adds to err what the user can do.
func withFix(err error, what string) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; let the daemon's user %s it, with the group of the device (usually ach)", err, what)
	}
	return err
}

// makeRing makes the private channel of an open device and starts to fill it.
func (c *Channels) makeRing(name string, d *reader) (*localach.Channel, error) {
	info, err := os.Lstat(d.path)
	if err != nil {
		return nil, err
	}
	ring, err := c.shm.Private(name, localach.PrivateConfig{
		Geometry: localach.Geometry{FrameCount: ringFrames, FrameSize: (d.limit + ringFrames - 1) / ringFrames},
		Mode:     info.Mode().Perm(), Owner: info.Sys().(*syscall.Stat_t).Uid, Inode: d.node.inode,
		Missed: d.missed.Load, Check: d.check, Close: d.stop,
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	d.ring = ring
	c.mu.Unlock()
	if err := d.start(); err != nil {
		ring.Close()
		return nil, err
	}
	return ring, nil
}

// Watch calls f with Appeared for each kernel channel, and then with each change, until ctx ends (it returns ctx.Err()) or the
// directory cannot be watched. f is called from the caller's goroutine. Several changes of one name may be merged. When a node is
// removed, Watch closes the descriptors of its device at once, even while f runs. It closes all devices when it ends.
//
// It uses inotify itself: fsnotify would also ask for writes, and so get an event for each byte that any program writes into
// a device such as /dev/null.
func (c *Channels) Watch(ctx context.Context, f func(localach.Event)) error {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("watch %s: %w", c.dir, os.NewSyscallError("inotify_init1", err))
	}
	notify := os.NewFile(uintptr(fd), "inotify")
	const events = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(fd, c.dir, events); err != nil {
		notify.Close()
		return fmt.Errorf("watch %s: %w", c.dir, os.NewSyscallError("inotify_add_watch", err))
	}
	q := newQueue()
	failed := make(chan error, 1)
	c.setWatched(true)
	go func() { failed <- c.readEvents(notify, q) }()
	defer func() {
		notify.Close()
		<-failed
	}()
	defer c.setWatched(false)
	if err := c.list(q); err != nil {
		return err
	}
	for {
		for _, name := range q.take() {
			f(c.event(name))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			failed <- err
			return fmt.Errorf("watch %s: %w", c.dir, err)
		case <-q.isFilled:
		}
	}
}

// event returns the event for the current state of a name.
func (c *Channels) event(name string) localach.Event {
	if _, err := os.Lstat(c.path(name)); err != nil {
		return localach.Event{Kind: localach.Vanished, Name: name}
	}
	return localach.Event{Kind: localach.Appeared, Name: name}
}

// setWatched records whether Watch runs. At its end it closes all devices.
func (c *Channels) setWatched(isWatched bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isWatched = isWatched
	if isWatched {
		return
	}
	for name := range c.names() {
		c.closeDevices(name, func(*device) bool { return true }, errors.New("kernel channels are not watched any more"))
	}
}

// list queues the names of all device nodes.
func (c *Channels) list(q *queue) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("watch %s: %w", c.dir, err)
	}
	for _, e := range entries {
		if name, ok := localach.DeviceChannel(e.Name()); ok && e.Type() == c.nodeType {
			q.add(name)
		}
	}
	return nil
}

// readEvents handles events until notify is closed or fails.
func (c *Channels) readEvents(notify *os.File, q *queue) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := notify.Read(buf)
		if err != nil {
			return err
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(unsafe.SliceData(rest)))
			node := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:][:e.Len]), "\x00")
			rest = rest[unix.SizeofInotifyEvent+int(e.Len):]
			if e.Mask&unix.IN_Q_OVERFLOW != 0 {
				c.closeGone()
				if err := c.list(q); err != nil {
					return err
				}
			} else if name, ok := localach.DeviceChannel(node); ok {
				c.changed(name, e.Mask)
				q.add(name)
			}
		}
	}
}

// changed closes a device whose node was removed.
func (c *Channels) changed(name string, mask uint32) {
	if mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeDevices(name, func(d *device) bool { return !d.hasNode() }, fmt.Errorf("%s: %w", c.path(name), localach.ErrUnlinked))
}

// closeDevices closes the devices of a name that must be closed. c.mu must be held.
func (c *Channels) closeDevices(name string, must func(*device) bool, why error) {
	end := func(d *device) {
		if d.close(why); d.isOrphan() {
			c.orphans = append(c.orphans, d)
		}
	}
	if d := c.readers[name]; d != nil && must(&d.device) {
		end(&d.device)
		delete(c.readers, name)
	}
	if d := c.writers[name]; d != nil && must(&d.device) {
		end(&d.device)
		delete(c.writers, name)
		c.isRemoved[name] = !d.hasNode()
	}
}

// hasOrphan reports whether this process still has a removed device open.
func (c *Channels) hasOrphan() bool {
	c.closeGone()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orphans = slices.DeleteFunc(c.orphans, func(d *device) bool { return !d.isOrphan() })
	return len(c.orphans) > 0
}

// closeGone closes all devices that have no node any more.
func (c *Channels) closeGone() {
	c.mu.Lock()
	names := c.names()
	c.mu.Unlock()
	for name := range names {
		c.changed(name, unix.IN_DELETE)
	}
}

// names returns the names of the devices that were opened. c.mu must be held.
func (c *Channels) names() map[string]bool {
	names := map[string]bool{}
	for name := range c.readers {
		names[name] = true
	}
	for name := range c.writers {
		names[name] = true
	}
	return names
}

// queue is a set of names that have changed.
type queue struct {
	isFilled chan struct{} // has a token after add

	mu    sync.Mutex
	names map[string]bool
}

func newQueue() *queue { return &queue{isFilled: make(chan struct{}, 1), names: map[string]bool{}} }

func (q *queue) add(name string) {
	q.mu.Lock()
	q.names[name] = true
	q.mu.Unlock()
	select {
	case q.isFilled <- struct{}{}:
	default:
	}
}

// take returns the names, sorted, and empties the queue.
func (q *queue) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	names := slices.Sorted(maps.Keys(q.names))
	clear(q.names)
	return names
}

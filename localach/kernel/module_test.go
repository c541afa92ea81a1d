package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/localach"
	"achbridge/testnet/kernelmodule"
	"achbridge/testnet/need"
)

// module is the kernel's module, or an emulated one.
type module interface {
	Create(name string, frames, size int) error
	Unlink(name string) error
	Put(name string, frame []byte) error
	Faults() int // number of descriptors that were closed too late for the module of Ach
	Ioctls() int // number of ioctls on channels
}

// world is a module and what a test needs with it.
type world struct {
	module
	*sight
	newChannels func() *Channels
	cycles      int // how often to remove a channel
}

func (w world) channels() *Channels {
	c := w.newChannels()
	if w.sight != nil {
		c.holders = w.sight.holders
	}
	return c
}

// sight is what is known about other processes. The zero value means that none has a kernel channel open.
type sight struct {
	mu       sync.Mutex
	pids     []int // processes that have the channel in question open
	isHidden bool  // there may be others
}

func (s *sight) see(isHidden bool, pids ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isHidden, s.pids = isHidden, pids
}

func (s *sight) holders(func(path string) bool) ([]int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pids, !s.isHidden
}

// eachModule runs a test with the emulated module, and with testnet/kmod if that is loaded.
func eachModule(t *testing.T, test func(t *testing.T, w world)) {
	t.Run("emulated", func(t *testing.T) {
		s := newEmulated(t)
		test(t, world{s, &sight{}, s.channels, 10})
	})
	t.Run("module", func(t *testing.T) {
		m := kernelmodule.Loaded(t)
		test(t, world{m, &sight{}, func() *Channels { return New(localach.Dir(t.TempDir())) }, need.LongOr(1000, 20)})
	})
}

// emulated is a module in this process. Its devices are named pipes that nobody opens; a descriptor is one end of a pair of
// sockets that keep the bounds of messages.
type emulated struct {
	t   *testing.T
	dir string

	mu       sync.Mutex
	devices  map[node]*emulatedDevice
	controls map[int]bool // descriptors of the control device
	isBroken bool         // a channel could not be made for its size
	faulty   int
	requests int
	writeErr error         // error of all writes; nil means that they succeed
	isFull   bool          // there is no memory for another channel
	stuck    chan struct{} // writes wait until it is closed; nil means that they do not
}

type emulatedDevice struct {
	isRemoved bool
	total     int64
	largest   int // size of the largest frame, bytes
	newest    []byte
	lastSeq   uint64
	readers   []*emulatedReader
}

// emulatedReader is one descriptor. put writes the newest frame into far, and takes back the frame before.
type emulatedReader struct {
	fd, far int
	isSet   bool // SET_MODE was called
	isLate  bool // open after its device was removed and another one created
}

func newEmulated(t *testing.T) *emulated {
	s := &emulated{t: t, dir: t.TempDir(), devices: map[node]*emulatedDevice{}, controls: map[int]bool{}}
	t.Cleanup(s.end)
	if err := unix.Mkfifo(filepath.Join(s.dir, "achctrl"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *emulated) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		for _, r := range d.readers {
			unix.Close(r.far)
		}
	}
}

func (s *emulated) channels() *Channels {
	c := New(localach.Dir(s.t.TempDir()))
	c.dir, c.nodeType, c.calls = s.dir, fs.ModeNamedPipe, s
	return c
}

func (s *emulated) path(name string) string { return localach.DevicePath(s.dir, name) }

func (s *emulated) Create(name string, frames, size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.create(name, frames, size)
}

// create creates a channel. s.mu must be held.
func (s *emulated) create(name string, frames, size int) error {
	if _, err := nodeAt(s.path(name)); err == nil {
		return unix.EEXIST
	}
	if s.isBroken {
		s.faulty++
	}
	if s.isBroken = s.isFull || frames*size > 64<<20; s.isBroken {
		return unix.ENOMEM
	}
	for _, d := range s.devices {
		for _, r := range d.openReaders() {
			if d.isRemoved && !r.isLate {
				r.isLate = true
				s.faulty++
			}
		}
	}
	if err := unix.Mkfifo(s.path(name), 0o660); err != nil {
		return err
	}
	at, err := nodeAt(s.path(name))
	if err != nil {
		return err
	}
	s.devices[at] = &emulatedDevice{total: int64(352 + frames*(24+size)), largest: frames * size}
	return nil
}

func (s *emulated) Unlink(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unlink(name)
}

// unlink removes a channel. s.mu must be held.
func (s *emulated) unlink(name string) error {
	d, err := s.device(s.path(name))
	if err != nil {
		return err
	}
	d.isRemoved = true
	return os.Remove(s.path(name))
}

func (s *emulated) Put(name string, frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.device(s.path(name))
	if err != nil {
		return err
	}
	return d.put(frame)
}

// put puts a frame.
func (d *emulatedDevice) put(frame []byte) error {
	switch {
	case len(frame) == 0:
		return unix.EINVAL
	case len(frame) > d.largest:
		return unix.EMSGSIZE
	}
	d.newest, d.lastSeq = slices.Clone(frame), d.lastSeq+1
	for _, r := range d.openReaders() {
		r.drain()
		if err := unix.Send(r.far, frame, unix.MSG_NOSIGNAL); err != nil && !errors.Is(err, unix.EPIPE) {
			return err
		}
	}
	return nil
}

func (s *emulated) Faults() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faulty
}

func (s *emulated) Ioctls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// device returns the device that has a node now. s.mu must be held.
func (s *emulated) device(path string) (*emulatedDevice, error) {
	at, err := nodeAt(path)
	if err != nil {
		return nil, err
	}
	return s.devices[at], nil
}

// openReaders returns the descriptors that are open.
func (d *emulatedDevice) openReaders() []*emulatedReader {
	d.readers = slices.DeleteFunc(d.readers, func(r *emulatedReader) bool {
		poll := []unix.PollFd{{Fd: int32(r.far), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 0); err != nil || poll[0].Revents&unix.POLLHUP == 0 {
			return false
		}
		unix.Close(r.far)
		return true
	})
	return d.readers
}

// drain removes the frames that were not read.
func (r *emulatedReader) drain() {
	var b [1]byte
	for {
		if _, _, err := unix.Recvfrom(r.fd, b[:], unix.MSG_DONTWAIT); err != nil {
			return
		}
	}
}

func (s *emulated) open(path string, _ int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if filepath.Base(path) == "achctrl" {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		s.controls[fd] = true
		return fd, err
	}
	d, err := s.device(path)
	if err != nil {
		return -1, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for _, end := range pair {
		if err := unix.SetsockoptInt(end, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20); err != nil {
			return -1, err
		}
	}
	d.readers = append(d.readers, &emulatedReader{fd: pair[0], far: pair[1]})
	if d.newest != nil {
		err = unix.Send(pair[1], d.newest, 0)
	}
	return pair[0], err
}

// reader returns an open descriptor. s.mu must be held.
func (s *emulated) reader(fd int) (*emulatedDevice, *emulatedReader) {
	for _, d := range s.devices {
		for _, r := range d.openReaders() {
			if r.fd == fd {
				return d, r
			}
		}
	}
	return nil, nil
}

func (s *emulated) ioctl(fd int, request uint, arg unsafe.Pointer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case request == createChannel && s.controls[fd]:
		a := (*creation)(arg)
		return s.create(unix.ByteSliceToString(a.name[:]), int(a.frames), int(a.size))
	case request == unlinkChannel && s.controls[fd]:
		return s.unlink(unix.ByteSliceToString((*channelName)(arg)[:]))
	}
	s.requests++
	d, r := s.reader(fd)
	switch {
	case r == nil:
		return unix.EBADF
	case request == setMode:
		r.isSet = (*mode)(arg).options == newestOnly
	case request == getStatus:
		*(*deviceStatus)(arg) = deviceStatus{bytes: d.total, lastSeq: d.lastSeq}
		r.drain() // as in the module
	default:
		return unix.ENOSYS
	}
	return nil
}

func (s *emulated) transfer(call uintptr, fd int, buf []byte) (int, error) {
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if call == unix.SYS_WRITE && stuck != nil {
		<-stuck
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, r := s.reader(fd)
	switch {
	case r == nil:
		return 0, unix.EBADF
	case call == unix.SYS_WRITE && s.writeErr != nil:
		return 0, s.writeErr
	case call == unix.SYS_WRITE:
		return len(buf), d.put(buf)
	}
	if !r.isSet {
		s.t.Error("read before SET_MODE: the module would wait")
	}
	n, _, err := unix.Recvfrom(fd, buf, unix.MSG_PEEK|unix.MSG_TRUNC)
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, unix.EBADF
	case n > len(buf):
		return 0, unix.EMSGSIZE
	}
	return unix.Read(fd, buf)
}

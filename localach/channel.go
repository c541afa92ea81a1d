package localach

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Channel is a mapping of a channel's file. It is safe for concurrent use by any number of Readers and Writers. Close
// unmaps the file when the last call in progress has returned.
type Channel struct {
	dir     Dir
	name    string
	geom    Geometry
	kind    kind
	toRead  bool // opened by OpenToRead or TryOpenToRead
	file    fileID
	reinits int // how often this file was found initialised again before this handle was opened
	epoch   uint64
	private *PrivateConfig // nil for a channel that has a file

	memory      []byte
	filled      int64 // bytes of memory that were filled when the file was mapped
	m           mapping
	users       atomic.Int64 // the opener and each call in progress; unmapped at 0
	closed      atomic.Bool
	maxSeq      atomic.Uint64 // largest last_seq seen
	holesFD     atomic.Int32  // descriptor of the file for hole checks, or -1 before the first
	finalStatus atomic.Int32  // statusFault or statusReinit once the channel is lost, else 0

	mu   sync.Mutex
	errs map[status]error // each created once, so that repeated failures allocate nothing
}

// Name returns the channel's name, without the prefix of its file.
func (c *Channel) Name() string { return c.name }

// Owner returns the user id of the file's owner when the channel was opened.
func (c *Channel) Owner() uint32 { return c.file.owner }

// Geometry returns the geometry found when the channel was opened. It never changes.
func (c *Channel) Geometry() Geometry { return c.geom }

// IsAch1x reports whether a program made the channel with Ach 1.x, so that it can only be read. It never changes.
func (c *Channel) IsAch1x() bool { return c.kind.ach1x }

// readOnly returns the error of calls that would write into a channel of Ach 1.x.
func (c *Channel) readOnly() error { return describeFailure(c.name, ErrReadOnly) }

// Epoch identifies this instance of the channel. Two files have different epochs. So has one file before and after it was
// initialised again, if the handle that noticed this was reopened by Reopen. Epochs have no order. Neither an epoch nor its
// low 32 bits are 0.
func (c *Channel) Epoch() uint64 { return c.epoch }

// LastSeq returns the number of the newest frame, or 0 if there is none. It never blocks. If the memory is gone it returns
// the largest number seen before.
func (c *Channel) LastSeq() uint64 {
	if c.enter() != nil {
		return c.maxSeq.Load()
	}
	defer c.release()
	seq, s := c.m.lastSeq()
	if s != statusOK {
		c.fail(s)
		return c.maxSeq.Load()
	}
	c.noteSeq(seq)
	return seq
}

// Reader returns a new reader, which has seen no frames.
func (c *Channel) Reader() *Reader { return &Reader{c: c, at: newPosition()} }

// ReaderAfter returns a new reader that has seen the frames up to seq. NextOldest continues with the next frame, or the
// oldest one in the ring. A seq above LastSeq gives ErrReinitialised.
func (c *Channel) ReaderAfter(seq uint64) *Reader { return &Reader{c: c, at: positionAfter(seq)} }

// Writer returns a new writer. Close it before the channel.
func (c *Channel) Writer() *Writer { return &Writer{c: c} }

// Tag returns the Tag of a mirror. The zero Tag means that the channel is no mirror, or cannot be read.
func (c *Channel) Tag() Tag {
	if c.enter() != nil {
		return Tag{}
	}
	defer c.release()
	tag, s := c.m.tag()
	if s != statusOK {
		c.fail(s)
	}
	return tag
}

// OwnTag returns Tag if our user owns the file, else the zero Tag, since any program that may write a file can write a tag.
func (c *Channel) OwnTag() Tag {
	if int(c.file.owner) != os.Geteuid() {
		return Tag{}
	}
	return c.Tag()
}

// SetTag stores the Tag of a mirror. tag.Seq is the origin's number of the frame that will be the newest after puts more
// puts. Only one goroutine at a time may call it. It allocates nothing. If another field than Seq changes, SetTag first sets
// Seq to 0, so that neither a reader nor a daemon after a crash sees a Seq with the wrong Epoch.
func (c *Channel) SetTag(tag Tag, puts uint64) error {
	if err := c.enterToWrite(); err != nil {
		return err
	}
	defer c.release()
	return c.fail(c.m.setTag(tag, puts))
}

// Poison makes the file unusable for all programs that have it open: their calls return ACH_CORRUPT. It wakes programs that
// wait on the file's condition variable or hang in a broadcast. Use it for the old file of a mirror that was replaced. It
// blocks for about 40 ms, and for up to 100 ms more while another process holds the lock.
func (c *Channel) Poison() error {
	if err := c.enterToWrite(); err != nil {
		return err
	}
	defer c.release()
	return c.fail(c.m.poison())
}

// Close closes the channel. It does not wait for calls in progress. Later calls return os.ErrClosed, except Close itself.
func (c *Channel) Close() error {
	if !c.closed.Swap(true) {
		if c.private != nil && c.private.Close != nil {
			c.private.Close()
		}
		c.release()
	}
	return nil
}

// retain keeps the memory mapped until release. ok is false if the channel is closed.
func (c *Channel) retain() (base unsafe.Pointer, ok bool) {
	for !c.closed.Load() {
		users := c.users.Load()
		if users == 0 {
			break
		}
		if c.users.CompareAndSwap(users, users+1) {
			return unsafe.Pointer(unsafe.SliceData(c.memory)), true
		}
	}
	return nil, false
}

func (c *Channel) release() {
	if c.users.Add(-1) == 0 {
		if fd := c.holesFD.Load(); fd >= 0 {
			unix.Close(int(fd))
		}
		filledAll.Add(-c.filled)
		if err := unix.Munmap(c.memory); err != nil {
			panic(fmt.Sprintf("munmap %s: %v", c.name, err)) // only a bug of ours can cause this
		}
	}
}

// enter calls retain, and fails if the channel is closed or lost.
func (c *Channel) enter() error {
	if lost := c.finalStatus.Load(); lost != 0 {
		return c.err(status(lost))
	}
	if _, ok := c.retain(); !ok {
		return os.ErrClosed
	}
	return nil
}

// enterToWrite is enter for calls that write. It fails if the channel can only be read.
func (c *Channel) enterToWrite() error {
	if c.kind.ach1x {
		return c.readOnly()
	}
	return c.enter()
}

func (c *Channel) noteSeq(seq uint64) {
	for {
		seen := c.maxSeq.Load()
		if seq <= seen || c.maxSeq.CompareAndSwap(seen, seq) {
			return
		}
	}
}

// fail returns the error for s, or nil for success. If s means that the channel is lost, later calls fail too.
func (c *Channel) fail(s status) error {
	switch s.code() {
	case statusOK, statusMissed:
		return nil
	case statusFault:
		c.finalStatus.Store(int32(s)) // also replaces the status of a partly lost header
	case statusReinit:
		c.finalStatus.CompareAndSwap(0, int32(s))
	}
	return c.err(s)
}

func (c *Channel) err(s status) error {
	switch s.code() {
	case statusStale:
		return os.ErrDeadlineExceeded
	case statusBusy:
		return ErrBusy
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.errs[s]
	if err == nil {
		err = c.describe(s)
		if c.kind.ach1x && errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrReinitialised) {
			err = fmt.Errorf("%w (%w)", err, ErrAch1x) // ErrAch1x keeps callers from advising to remove the channel
		}
		if c.errs == nil {
			c.errs = map[status]error{}
		}
		c.errs[s] = err
	}
	return err
}

func (c *Channel) describe(s status) error {
	if s == statusShrunk {
		return fmt.Errorf("channel %s: %w (%w)", c.name, ErrReinitialised, ErrTruncated)
	}
	switch s.code() {
	case statusHole:
		return fmt.Errorf("channel %s: %w", c.name, ErrHole)
	case statusNoFile:
		return fmt.Errorf("channel %s: cannot open its file, to check whether a large frame lies in a hole", c.name)
	case statusMoved:
		return fmt.Errorf("channel %s: %w", c.name, ErrMoved)
	case statusEmpty:
		return fmt.Errorf("channel %s: %w", c.name, errEmpty)
	case statusOverflow:
		return fmt.Errorf("channel %s: %w: at most %d bytes", c.name, ErrTooLarge, c.geom.FrameCount*c.geom.FrameSize)
	case statusDirty:
		return fmt.Errorf("channel %s: %w", c.name, ErrDirty)
	case statusReinit:
		return fmt.Errorf("channel %s: %w", c.name, ErrReinitialised)
	case statusForeign:
		return fmt.Errorf("channel %s: %w", c.name, cmp.Or(c.whyForeign(), ErrOtherLibc))
	case statusFault:
		return fmt.Errorf("channel %s: %w", c.name, ErrTruncated)
	case statusWedged:
		return fmt.Errorf("channel %s: %w", c.name, ErrWedged)
	}
	return fmt.Errorf("channel %s: %w: wrong %s", c.name, ErrCorrupt, s.badField())
}

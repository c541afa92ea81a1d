package localach

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Stat is a channel's condition at one moment. The words of the header are read one by one without the lock: under a busy
// writer they belong to neighbouring moments.
type Stat struct {
	Geometry    Geometry
	Bytes       int64 // length of the file
	Mode        fs.FileMode
	Inode       uint64
	LastSeq     uint64
	Frames      int  // frames in the ring
	Dirty       bool // a writer is inside put, or died there
	LockOwner   int  // thread id of who holds the lock; 0: nobody
	Waiters     int  // how many wait on the condition variable, as far as it can be known
	ForeignCond bool // laid out by another C library: its waiters cannot be woken, reading goes on
	Tag         Tag
}

// Stat reads the channel's condition. It never blocks. Mode, Inode and Bytes are those of the mapped file as it was opened.
func (c *Channel) Stat() (Stat, error) {
	if err := c.enter(); err != nil {
		return Stat{}, err
	}
	defer c.release()
	stat, s := c.m.stat()
	if s != statusOK {
		return Stat{}, c.fail(s)
	}
	c.saw(stat.LastSeq)
	stat.Geometry, stat.Bytes = c.geom, int64(c.geom.bytes())
	stat.Mode, stat.Inode = c.file.mode, c.file.inode
	tag, s := c.m.tag()
	stat.Tag = tag
	return stat, c.fail(s)
}

// Check says what is wrong with the channel, if anything: ErrUnlinked, ErrReplaced, ErrReinitialised, ErrTruncated, ErrDirty,
// ErrForeign or ErrCorrupt. One system call and a look at the header, without the lock: cheap enough for ten times a second.
func (c *Channel) Check() error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.release()
	if err := c.checkFile(); err != nil {
		return err
	}
	if err := c.fail(c.m.check()); err != nil {
		return err
	}
	seen := c.seen.Load() // before last_seq: frames that come meanwhile are not a step back
	seq, s := c.m.lastSeq()
	if s == statusOK && seq < seen {
		s = statusReinit
	}
	c.saw(seq)
	return c.fail(s)
}

// checkFile compares what lies under the channel's name with the file that is mapped.
func (c *Channel) checkFile() error {
	var st unix.Stat_t
	switch err := unix.Stat(c.dir.path(c.name), &st); {
	case err == unix.ENOENT:
		return fmt.Errorf("channel %s: %w", c.name, ErrUnlinked)
	case err != nil:
		return &fs.PathError{Op: "stat", Path: c.dir.path(c.name), Err: err}
	}
	switch now := fileIDOf(&st); {
	case now.device != c.file.device || now.inode != c.file.inode:
		return fmt.Errorf("channel %s: %w", c.name, ErrReplaced)
	case uint64(st.Size) < c.geom.bytes():
		return c.fail(statusFault)
	case now.modified != c.file.modified && c.file.memory:
		return c.fail(statusReinit)
	}
	return nil
}

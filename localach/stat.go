package localach

import (
	"io/fs"
	"time"
)

// Stat is the state of a channel. The words of the header are read one by one without the lock, so with a busy writer they may
// be from slightly different times.
type Stat struct {
	Geometry    Geometry
	Bytes       int64 // length of the file
	Mode        fs.FileMode
	Inode       uint64
	LastSeq     uint64
	Frames      int  // frames in the ring
	Dirty       bool // a writer is inside put, or died there
	LockOwner   int  // id of the thread that holds the lock, or 0
	Waiters     int  // number of readers that wait on the condition variable, if its layout is known
	Waking      bool // a put is waking readers, if the layout is known; if this lasts, the put hangs (see WakeHangs)
	ForeignCond bool // the condition variable has another C library's layout, so its waiters cannot be woken
	Tag         Tag
	Missed      uint64 // only of a private channel: number of frames of its source that were never put
}

// LargestFrame returns the size in bytes of the largest of the newest 256 frames, or 0 if there is none. It reads the index
// without the lock, so it may miss a frame that is put or replaced meanwhile. It never blocks.
func (c *Channel) LargestFrame() int {
	if c.enter() != nil {
		return 0
	}
	defer c.release()
	bytes, s := c.m.largest()
	c.fail(s)
	return bytes
}

// WakeHangs reports whether a put hangs while it wakes readers, because one of these was killed or stopped while it waited. If a put
// is waking readers, WakeHangs blocks for up to 100 ms, and returns true if the put is still doing so. Otherwise it returns false at
// once. It also returns false if the channel cannot be read.
func (c *Channel) WakeHangs() bool {
	const samples, period = 10, 10 * time.Millisecond
	first, err := c.Stat()
	for i := 0; err == nil && first.Waking && i < samples; i++ {
		time.Sleep(period)
		var now Stat
		if now, err = c.Stat(); !now.Waking || now.LastSeq != first.LastSeq {
			return false
		}
	}
	return err == nil && first.Waking
}

// Stat returns the state of the channel. It never blocks. Mode, Inode and Bytes are those of the file when it was opened.
func (c *Channel) Stat() (Stat, error) {
	if err := c.enter(); err != nil {
		return Stat{}, err
	}
	defer c.release()
	stat, s := c.m.stat()
	if s != statusOK {
		return Stat{}, c.fail(s)
	}
	c.noteSeq(stat.LastSeq)
	stat.Geometry, stat.Bytes = c.geom, int64(c.geom.bytes())
	stat.Mode, stat.Inode = c.file.mode, c.file.inode
	if c.private != nil {
		stat.Missed = c.private.Missed()
	}
	tag, s := c.m.tag()
	stat.Tag = tag
	return stat, c.fail(s)
}

package localach

import (
	"io/fs"
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
	LockOwner   int  // id of the thread that holds the lock; 0: none
	Waiters     int  // number of readers that wait on the condition variable, as far as known
	ForeignCond bool // the condition variable has another C library's layout: its waiters cannot be woken
	Tag         Tag
}

// LargestFrame returns the size in bytes of the largest frame among the newest 256 of the ring, 0 when there is none. It reads
// the index without the lock: while somebody puts, it may miss the frame that comes or goes. It never blocks.
func (c *Channel) LargestFrame() int {
	if c.enter() != nil {
		return 0
	}
	defer c.release()
	bytes, s := c.m.largest()
	c.fail(s)
	return bytes
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
	c.noteSeq(stat.LastSeq)
	stat.Geometry, stat.Bytes = c.geom, int64(c.geom.bytes())
	stat.Mode, stat.Inode = c.file.mode, c.file.inode
	tag, s := c.m.tag()
	stat.Tag = tag
	return stat, c.fail(s)
}

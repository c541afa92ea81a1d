package localach

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Whoever may write a channel's file can claim in it that a frame of any size is there. A page of shared memory that nobody
// wrote has no memory, and gets some when it is read through a mapping. So a frame of 16 KiB or more is looked up in the file
// before it is copied: one in a hole was never put (ErrHole). TryNext with an empty buffer returns size and hole before memory
// is taken for the frame.
//
// The look is a system call that waits for whoever changes the file's memory, so it comes before the lock is taken. Under the
// lock a frame other than the one looked at is not copied but looked at in its turn; after four of them the result is ErrBusy.

// get is the mapping's get. The first large frame has it open the channel's file once more, so that each can be looked up
// there: a frame in a hole was never put, and to read a hole through a mapping of shared memory fills it.
func (c *Channel) get(at *position, buf []byte, options int32) status {
	s := c.m.get(at, buf, options, c.holes.Load())
	if s == statusNoFile && c.openForHoles() == nil {
		s = c.m.get(at, buf, options, c.holes.Load())
	}
	return s
}

// openForHoles keeps a descriptor of the file until the channel is unmapped.
func (c *Channel) openForHoles() error {
	file, err := c.dir.openFile(c.name)
	if err != nil {
		return err
	}
	defer file.Close()
	id, _, err := identify(file)
	if err != nil {
		return err
	}
	if !id.sameFile(c.file) {
		return fmt.Errorf("channel %s: %w", c.name, ErrReplaced)
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if !c.holes.CompareAndSwap(-1, int32(fd)) {
		unix.Close(fd) // somebody else was first
	}
	return nil
}

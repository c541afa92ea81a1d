package localach

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A program that may write a channel's file can claim that there is a frame of any size. A page of shared memory that was never
// written uses no memory until it is read through a mapping. So before copying a frame of 16 KiB or more we check that it is
// not in a hole of the file, since such a frame was never put (ErrHole). TryNext with an empty buffer returns the size, or
// ErrHole, before the caller allocates memory for the frame.
//
// The check is a system call that may wait for programs that change the file's memory, so we do it before taking the lock. If
// under the lock the frame is not the one that was checked, we unlock and check the new one. After four such frames the result
// is ErrBusy.

// get calls mapping.get with checks for holes. At the first large frame it opens the channel's file again for the checks.
func (c *Channel) get(at *position, buf []byte, options int32) status {
	s := c.m.get(at, buf, options, c.holesFD.Load())
	if s == statusNoFile && c.openForHoles() == nil {
		s = c.m.get(at, buf, options, c.holesFD.Load())
	}
	return s
}

// openForHoles opens the file for hole checks, unless it is open. It stays open until the channel is unmapped.
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
	if !c.holesFD.CompareAndSwap(-1, int32(fd)) {
		unix.Close(fd) // another call has opened it
	}
	return nil
}

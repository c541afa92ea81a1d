package localach

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Check returns nil if the channel is usable, else ErrUnlinked, ErrReplaced, ErrReinitialised, ErrTruncated, ErrDirty,
// ErrForeign or ErrCorrupt. It makes one system call and reads the header without the lock, so it is cheap enough for ten
// calls a second.
func (c *Channel) Check() error {
	if c.closed.Load() {
		return os.ErrClosed
	}
	if err := c.checkFile(); err != nil { // first, since its error explains invalid content
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.release()
	if err := c.fail(c.m.check()); err != nil {
		return err
	}
	seen := c.maxSeq.Load() // read before last_seq, so that frames put meanwhile are not a step back
	seq, s := c.m.lastSeq()
	if s == statusOK && seq < seen {
		s = statusReinit
	}
	c.noteSeq(seq)
	return c.fail(s)
}

// checkFile compares the file under the channel's name with the mapped one. A symbolic link counts as another file.
func (c *Channel) checkFile() error {
	if c.private != nil {
		return c.private.Check()
	}
	var st unix.Stat_t
	switch err := unix.Lstat(c.dir.Path(c.name), &st); {
	case err == unix.ENOENT:
		return fmt.Errorf("channel %s: %w", c.name, ErrUnlinked)
	case err != nil:
		return &fs.PathError{Op: "stat", Path: c.dir.Path(c.name), Err: err}
	}
	switch now := fileIDOf(&st); {
	case !now.sameFile(c.file):
		return fmt.Errorf("channel %s: %w", c.name, ErrReplaced)
	case uint64(st.Size) < c.geom.bytes():
		return c.fail(c.dir.whyShort(c.name))
	}
	return nil
}

// whyShort returns statusShrunk if the file, which became shorter than our mapping, is a complete channel of a smaller geometry.
func (d Dir) whyShort(name string) status {
	file, err := d.openFile(name)
	if err != nil {
		return statusFault
	}
	defer file.Close()
	if _, _, err := readHeader(file, name); err != nil {
		return statusFault
	}
	return statusShrunk
}

package localach

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Check returns an error if something is wrong with the channel: ErrUnlinked, ErrReplaced, ErrReinitialised, ErrTruncated,
// ErrDirty, ErrForeign or ErrCorrupt. It makes one system call and reads the header without the lock, so it is cheap enough
// for ten calls a second.
func (c *Channel) Check() error {
	if c.closed.Load() {
		return os.ErrClosed
	}
	if err := c.checkFile(); err != nil { // first: it tells why the content makes no sense
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.release()
	if err := c.fail(c.m.check()); err != nil {
		return err
	}
	seen := c.maxSeq.Load() // before last_seq: frames that come meanwhile are not a step back
	seq, s := c.m.lastSeq()
	if s == statusOK && seq < seen {
		s = statusReinit
	}
	c.noteSeq(seq)
	return c.fail(s)
}

// checkFile compares what lies under the channel's name with the file that is mapped. A link is another file, wherever it leads.
func (c *Channel) checkFile() error {
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

// whyShort is statusShrunk if the file, which became shorter than our mapping, is a whole channel of a smaller geometry.
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

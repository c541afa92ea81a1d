package localach

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CreateConfig says how a channel is made; its zero value is libach's default.
type CreateConfig struct {
	Geometry Geometry    // zero: 16 frames of 512 bytes
	Mode     fs.FileMode // permission bits; 0: 0666 less the umask
	Like     *Channel    // take the permission bits and the group from its file instead, as they are now; nil: none
	Replace  bool        // take the name from an existing channel, whose users keep the old file
	Tag      Tag
}

// Create makes a channel and opens it. It builds the file under another name in the same directory and then links it, so that
// nobody ever sees it half made. An existing channel gives fs.ErrExist unless cfg says to replace it. Create reserves the
// memory at once, so that a full /dev/shm is an error here and not a SIGBUS later.
func (d Dir) Create(name string, cfg CreateConfig) (*Channel, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if cfg.Geometry == (Geometry{}) {
		cfg.Geometry = defaultGeometry()
	}
	if err := cfg.Geometry.Check(); err != nil {
		return nil, describeFailure(name, err)
	}
	draft := filepath.Join(string(d), fmt.Sprintf(".achbridge-%s-%016x", name, rand.Uint64()))
	mode := fs.FileMode(0o666)
	switch { // from the first moment: whoever opens the draft keeps it
	case cfg.Like != nil:
		mode = 0o600
	case cfg.Mode != 0:
		mode = cfg.Mode.Perm()
	}
	file, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	defer os.Remove(draft) // after Replace there is none left
	c, err := d.build(name, cfg, file)
	if err != nil {
		return nil, describeFailure(name, err)
	}
	publish := linkNew
	if cfg.Replace {
		publish = os.Rename
	}
	if err := publish(draft, d.Path(name)); err != nil {
		c.Close()
		return nil, describeFailure(name, err)
	}
	return c, nil
}

func (d Dir) build(name string, cfg CreateConfig, file *os.File) (*Channel, error) {
	if err := cfg.permit(file); err != nil {
		return nil, err
	}
	if err := d.reserve(file, cfg.Geometry); err != nil {
		return nil, err
	}
	c, err := d.mapFile(name, cfg.Geometry, file)
	if err != nil {
		return nil, err
	}
	s := c.m.init(name)
	if s == statusOK && cfg.Tag != (Tag{}) {
		s = c.m.setTag(cfg.Tag, 0)
	}
	if s != statusOK {
		c.Close()
		return nil, c.err(s)
	}
	return c, nil
}

// permit sets who may use a draft. Where we may not give it the group that it should have, its own group gets no more
// than everybody.
func (cfg CreateConfig) permit(file *os.File) error {
	if cfg.Like == nil {
		if cfg.Mode == 0 {
			return nil
		}
		return file.Chmod(cfg.Mode.Perm())
	}
	mode, group := cfg.Like.access()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return err
	}
	if int(st.Gid) != group && file.Chown(-1, group) != nil { // a service may not be allowed to
		mode &= 0o707 | mode&7<<3
	}
	return file.Chmod(mode)
}

// access returns the permission bits and the group id of the channel's file: as they are now, or as they were when it was
// opened if its name is gone.
func (c *Channel) access() (mode fs.FileMode, group int) {
	id := c.file
	var st unix.Stat_t
	if unix.Stat(c.dir.Path(c.name), &st) == nil && fileIDOf(&st).sameFile(id) {
		id = fileIDOf(&st)
	}
	return id.mode, int(id.group)
}

// reserve takes the memory of all of a channel's file, whose content stays.
func (d Dir) reserve(file *os.File, g Geometry) error {
	size := int64(g.bytes())
	err := unix.Fallocate(int(file.Fd()), 0, 0, size)
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("no room in %s for %d bytes: %w (remove channels, or enlarge it: mount -o remount,size=…)", d, size, err)
	}
	if err != nil {
		return &fs.PathError{Op: "fallocate", Path: file.Name(), Err: err}
	}
	return nil
}

// Reserve takes memory for the holes of the channel's file. A file that was copied, or made by a program that only set its
// size, gets memory when it is first written to, and when there is none left the put that needs it fails half-way and leaves the
// channel dirty. For those who are about to write into a channel that they have not created. It does not block.
func (c *Channel) Reserve() error {
	file, err := c.dir.openFile(c.name)
	if err != nil {
		return err
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	switch {
	case !fileIDOf(&st).sameFile(c.file):
		return fmt.Errorf("channel %s: %w", c.name, ErrReplaced)
	case st.Blocks*512 >= st.Size:
		return nil
	}
	if err := c.dir.reserve(file, c.geom); err != nil {
		return describeFailure(c.name, err)
	}
	return nil
}

// linkNew gives the draft its name, which must not be there.
func linkNew(draft, path string) error {
	err := os.Link(draft, path)
	if errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	return err
}

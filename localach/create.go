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

// CreateConfig configures Create. The zero value gives libach's defaults.
type CreateConfig struct {
	Geometry Geometry    // the zero Geometry means 16 frames of 512 bytes
	Mode     fs.FileMode // permission bits; 0 means 0666 without the bits of the umask
	Group    *int        // group id of the file; nil means the process's group
	Like     *Channel    // if set, use the current permission bits and group of its file
	Replace  bool        // replace an existing channel, whose users keep the old file
	Tag      Tag
	First    []byte // frame that is put before any program sees the channel; nil means no frame
	// Announce, unless nil, is called with the inode of the channel's file before any program sees the channel. Its error is
	// returned by Create, and no channel is created.
	Announce func(inode uint64) error
}

// Create creates a channel and opens it. It writes the file under another name in the same directory and then links it, so
// that no program sees it half created. If the channel exists it returns fs.ErrExist, unless cfg.Replace is set. Create
// reserves the memory at once, so that a full /dev/shm is an error here and not a SIGBUS later.
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
	switch { // set the mode from the beginning, since a program that opens the draft keeps its handle
	case cfg.Like != nil, cfg.Group != nil && cfg.Mode != 0: // permit sets the group, and then the mode
		mode = 0o600
	case cfg.Mode != 0:
		mode = cfg.Mode.Perm()
	}
	file, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	defer os.Remove(draft) // does nothing after Replace, which renames the draft
	c, err := d.build(name, cfg, file)
	if err != nil {
		return nil, describeFailure(name, err)
	}
	if cfg.Announce != nil {
		if err := cfg.Announce(c.file.inode); err != nil {
			c.Close()
			return nil, describeFailure(name, err)
		}
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
	c, err := d.mapFile(name, cfg.Geometry, file, kind{})
	if err != nil {
		return nil, err
	}
	s := c.m.init(name)
	if s == statusOK && cfg.Tag != (Tag{}) {
		s = c.m.setTag(cfg.Tag, 0)
	}
	if s == statusOK && cfg.First != nil {
		s = c.m.put(new(putResult), cfg.First, lockLimit)
	}
	if s != statusOK {
		c.Close()
		return nil, c.err(s)
	}
	return c, nil
}

// permit sets the mode and group of a draft, a file that is not renamed to the channel's name yet. If this process may not set the
// group of Like, the draft's group gets no more rights than all other users.
func (cfg CreateConfig) permit(file *os.File) error {
	if cfg.Group != nil {
		if err := file.Chown(-1, *cfg.Group); err != nil {
			return err
		}
	}
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

// access returns the current permission bits and group id of the channel's file, or those at the time of opening if the file
// was removed.
func (c *Channel) access() (mode fs.FileMode, group int) {
	id := c.file
	var st unix.Stat_t
	if unix.Stat(c.dir.Path(c.name), &st) == nil && fileIDOf(&st).sameFile(id) {
		id = fileIDOf(&st)
	}
	return id.mode, int(id.group)
}

// reserve allocates memory for the whole file of a channel, without changing its content.
func (d Dir) reserve(file *os.File, g Geometry) error {
	size := int64(g.bytes())
	err := unix.Fallocate(int(file.Fd()), 0, 0, size)
	for err == unix.EINTR { // the Go runtime interrupts its threads by signals
		err = unix.Fallocate(int(file.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("no room in %s for %d bytes: %w (remove channels, or enlarge it: mount -o remount,size=…)", d, size, err)
	}
	if err != nil {
		return &fs.PathError{Op: "fallocate", Path: file.Name(), Err: err}
	}
	return nil
}

// Reserve allocates memory for the holes of the channel's file. Call it before writing into a channel that another program
// has created. A file that was copied, or made by a program that only set its size, gets memory when it is first written. If
// there is none left, a put fails half-way and leaves the channel dirty. Reserve does not block.
func (c *Channel) Reserve() error {
	if c.kind.ach1x {
		return c.readOnly()
	}
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

// linkNew gives the draft its name. It fails if the name exists.
func linkNew(draft, path string) error {
	err := os.Link(draft, path)
	if errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	return err
}

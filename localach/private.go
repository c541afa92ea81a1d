package localach

import (
	"io/fs"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// PrivateConfig configures Private.
type PrivateConfig struct {
	Geometry Geometry
	Mode     fs.FileMode   // permission bits of the source of the frames, for Channel.Stat
	Inode    uint64        // inode of the source, for Channel.Stat
	Owner    uint32        // user id of the source's owner, for Channel.Owner
	Missed   func() uint64 // returns the number of frames of the source that were never put, for Channel.Stat
	Check    func() error  // called by Channel.Check in place of its check of the file
	Close    func()        // called once, by Channel.Close; it may block
}

// Private creates a channel in the memory of this process. It has no file in d, so no other program can open it. Use it for frames
// from another source, such as a device, so that code that reads channels can read them. Each private channel has its own epoch.
func (d Dir) Private(name string, cfg PrivateConfig) (*Channel, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := cfg.Geometry.checkLimits(); err != nil {
		return nil, describeFailure(name, err)
	}
	fd, err := unix.MemfdCreate(filePrefix+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, describeFailure(name, os.NewSyscallError("memfd_create", err))
	}
	file := os.NewFile(uintptr(fd), filePrefix+name)
	defer file.Close()
	c, err := d.build(name, CreateConfig{Geometry: cfg.Geometry}, file)
	if err != nil {
		return nil, describeFailure(name, err)
	}
	holes, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		c.Close()
		return nil, describeFailure(name, os.NewSyscallError("fcntl", err))
	}
	c.holesFD.Store(int32(holes))
	c.file.mode, c.file.owner, c.file.inode = cfg.Mode, cfg.Owner, cfg.Inode
	c.epoch, c.private = rand.Uint64()|1, &cfg
	return c, nil
}

// IsPrivate reports whether the channel was made by Private.
func (c *Channel) IsPrivate() bool { return c.private != nil }

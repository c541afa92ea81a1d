package localach

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// channelName returns the channel of a file name. It returns false for other files, such as drafts, which begin with a dot.
func channelName(file string) (string, bool) {
	name, ok := strings.CutPrefix(file, filePrefix)
	return name, ok && CheckName(name) == nil
}

// facts are the properties of a file that are known without opening it.
type facts struct {
	inode, size           uint64
	createdAt, modifiedAt int64 // in ns
	mode                  uint16
	owner, group          uint32
}

// mayBecome reports whether the file can become a channel without a change of mode and size.
func (f facts) mayBecome() bool { return f.mode&unix.S_IFMT == unix.S_IFREG && f.size >= headerBytes }

func (d Dir) facts(name string) (facts, error) {
	const want = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, d.Path(name), unix.AT_SYMLINK_NOFOLLOW, want, &st); err != nil {
		return facts{}, err
	}
	return facts{
		inode: st.Ino, size: st.Size, createdAt: st.Btime.Sec*1e9 + int64(st.Btime.Nsec), modifiedAt: st.Mtime.Sec*1e9 + int64(st.Mtime.Nsec),
		mode: st.Mode, owner: st.Uid, group: st.Gid,
	}, nil
}

// inspect opens the file with a name and returns its identity, with an error if it is not a complete channel. It uses read(2)
// and no mapping, so it cannot fault.
func (d Dir) inspect(name string, f facts) (identity, error) {
	if f.mode&unix.S_IFMT == unix.S_IFREG && !d.hasMagic(name) {
		return identity{inode: f.inode}, ErrHalfCreated
	}
	file, err := d.openFile(name)
	if errors.Is(err, fs.ErrPermission) {
		return d.inspectByStat(name)
	}
	if err != nil {
		id, outside := d.inspectByStat(name)
		return id, cmp.Or(outside, err) // return both, since an error such as "too many open files" is not about the file
	}
	defer file.Close()
	id, size, err := identify(file)
	if err != nil {
		return identity{}, err
	}
	if _, _, err = readHeader(file, name); errors.Is(err, ErrForeign) {
		err = nil // the channel is complete; Open returns why it is unusable
	}
	return identity{id.inode, id.createdAt, size, true}, err
}

// hasMagic is a cheap check that finds most files that are no channels. It also returns true if the file cannot be read.
func (d Dir) hasMagic(name string) bool {
	fd, err := unix.Open(d.Path(name), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	var b [4]byte
	n, err := unix.Pread(fd, b[:], 0)
	return err != nil || n == len(b) && isMagic(b)
}

func (d Dir) inspectByStat(name string) (identity, error) {
	var st unix.Stat_t
	if err := unix.Lstat(d.Path(name), &st); err != nil {
		return identity{}, err
	}
	return identity{inode: st.Ino, size: st.Size}, nil
}

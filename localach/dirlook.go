package localach

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// channelName is the channel that a file name stands for. Temporary names begin with a dot and stand for none.
func channelName(file string) (string, bool) {
	name, ok := strings.CutPrefix(file, filePrefix)
	return name, ok && CheckName(name) == nil
}

// facts are what can be told of a file without opening it.
type facts struct {
	inode, size    uint64
	born, modified int64 // ns
	mode           uint16
	owner, group   uint32
}

// mayBecome reports whether the file can become a channel without a change of its facts.
func (f facts) mayBecome() bool { return f.mode&unix.S_IFMT == unix.S_IFREG && f.size >= headerBytes }

func (d Dir) facts(name string) (facts, error) {
	const want = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, d.Path(name), unix.AT_SYMLINK_NOFOLLOW, want, &st); err != nil {
		return facts{}, err
	}
	return facts{
		inode: st.Ino, size: st.Size, born: st.Btime.Sec*1e9 + int64(st.Btime.Nsec), modified: st.Mtime.Sec*1e9 + int64(st.Mtime.Nsec),
		mode: st.Mode, owner: st.Uid, group: st.Gid,
	}, nil
}

// look opens the file under a name and says which one it is, and with an error that it is not a complete channel.
// It reads through the file, not through a mapping: nothing can fault.
func (d Dir) look(name string, f facts) (identity, error) {
	if f.mode&unix.S_IFMT == unix.S_IFREG && !d.hasMagic(name) {
		return identity{inode: f.inode}, ErrHalfCreated
	}
	file, err := d.openFile(name)
	if errors.Is(err, fs.ErrPermission) {
		return d.lookFromOutside(name)
	}
	if err != nil {
		id, outside := d.lookFromOutside(name)
		return id, cmp.Or(outside, err) // no descriptor left, say, tells nothing about the file
	}
	defer file.Close()
	id, size, err := identify(file)
	if err != nil {
		return identity{}, err
	}
	_, _, err = readHeader(file)
	return identity{id.inode, id.born, size, true}, err
}

// hasMagic is a cheap way to tell most of what is no channel: it is false only for a file that was read.
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

func (d Dir) lookFromOutside(name string) (identity, error) {
	var st unix.Stat_t
	if err := unix.Lstat(d.Path(name), &st); err != nil {
		return identity{}, err
	}
	return identity{inode: st.Ino, size: st.Size}, nil
}

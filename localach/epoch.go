package localach

import (
	"crypto/sha256"
	"encoding/binary"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileID identifies a channel's file.
type fileID struct {
	device, inode uint64
	createdAt     int64 // in ns; 0 if the kernel does not report it
	mode          fs.FileMode
	owner, group  uint32 // user id and group id
}

func fileIDOf(st *unix.Stat_t) fileID {
	return fileID{device: st.Dev, inode: st.Ino, mode: fs.FileMode(st.Mode & 0o777), owner: st.Uid, group: st.Gid}
}

// identify returns a file's identity and its length in bytes.
func identify(file *os.File) (fileID, int64, error) {
	fd := int(file.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileID{}, 0, &fs.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	id := fileIDOf(&st)
	var ext unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &ext) == nil && ext.Mask&unix.STATX_BTIME != 0 {
		id.createdAt = ext.Btime.Sec*1e9 + int64(ext.Btime.Nsec)
	}
	return id, st.Size, nil
}

func (id fileID) sameFile(other fileID) bool {
	return id.device == other.device && id.inode == other.inode && (id.createdAt == other.createdAt || id.createdAt == 0 || other.createdAt == 0)
}

// epoch returns a hash of the file's identity and the boot id, since inode numbers of a tmpfs are reused after each boot.
// reinits is how often the file was found initialised again in place, which no property of the file shows: its times change
// with every page fault.
func (id fileID) epoch(reinits int) uint64 {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // empty without /proc
	b := binary.BigEndian.AppendUint64(boot, id.device)
	b = binary.BigEndian.AppendUint64(b, id.inode)
	b = binary.BigEndian.AppendUint64(b, uint64(id.createdAt))
	b = binary.BigEndian.AppendUint64(b, uint64(reinits))
	sum := sha256.Sum256(b)
	epoch := binary.BigEndian.Uint64(sum[:])
	if uint32(epoch) == 0 {
		epoch |= 1
	}
	return epoch
}

func inodeOf(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ino
	}
	return 0
}

package localach

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// procFile reads small files of /proc. It uses raw system calls, which the Go scheduler does not notice: reading /proc never blocks.
type procFile struct {
	name []byte // path of the file, with a terminating 0
}

// read reads the beginning of a file into room and returns it, or nothing if the file cannot be read.
func (p *procFile) read(path string, room []byte) []byte {
	here := unix.AT_FDCWD
	p.name = append(append(p.name[:0], path...), 0)
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), uintptr(unsafe.Pointer(&p.name[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return nil
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&room[0])), uintptr(len(room)))
	unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	if errno != 0 {
		return nil
	}
	return room[:n]
}

package kernel

import (
	"os"

	"golang.org/x/sys/unix"
)

// resident is a buffer for frames. Its pages are in memory, since the module copies frames from and into it under a lock that
// other programs need. They stay in memory if the process may lock memory.
type resident []byte

// grow replaces the buffer by a larger one, without its content.
func (b *resident) grow(size int) error {
	larger, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	_ = unix.Mlock(larger)
	b.free()
	*b = larger
	return nil
}

func (b *resident) free() {
	if *b != nil {
		_ = unix.Munmap(*b)
		*b = nil
	}
}

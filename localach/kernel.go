package localach

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Device is a channel of the kernel's Ach module (Ach in the kernel, 2016). A program linked with libach that may open it for
// reading and writing uses it instead of the channel of that name in shared memory; other programs use shared memory.
type Device struct {
	Path     string
	Mode     fs.FileMode // permission bits
	UID, GID int
}

// KernelDevice returns the kernel's channel of a name; false if there is none, or d is not where libach looks. It only calls
// stat: to open a device that is about to be removed can crash the kernel (ach-kernel.md).
func (d Dir) KernelDevice(name string) (Device, bool) {
	if d != Shm || CheckName(name) != nil {
		return Device{}, false
	}
	return kernelDevice("/dev", name)
}

func kernelDevice(devices, name string) (Device, bool) {
	path := filepath.Join(devices, "ach-"+name)
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		return Device{}, false
	}
	st := info.Sys().(*syscall.Stat_t)
	return Device{Path: path, Mode: info.Mode().Perm(), UID: int(st.Uid), GID: int(st.Gid)}, true
}

package localach

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Device is a channel of the kernel's Ach module (Ach in the kernel, 2016). A program linked with libach uses it instead of the
// channel of that name in shared memory, if it may open the device for reading and writing.
type Device struct {
	Path     string
	Mode     fs.FileMode // permission bits
	UID, GID int
}

// KernelDevice returns the kernel's channel with a name. It returns false if there is none, or if d is not libach's directory.
// It only calls stat, since opening a device that is being removed can crash the kernel (ach-kernel.md).
func (d Dir) KernelDevice(name string) (Device, bool) {
	if d != Shm || CheckName(name) != nil {
		return Device{}, false
	}
	return kernelDevice("/dev", name)
}

// KernelDevices returns the names of all channels of the kernel, sorted. It returns none if d is not libach's directory.
func (d Dir) KernelDevices() (names []string) {
	if d != Shm {
		return nil
	}
	return kernelDevices("/dev")
}

func kernelDevices(devices string) (names []string) {
	paths, _ := filepath.Glob(filepath.Join(devices, "ach-*")) // sorted
	for _, path := range paths {
		name := strings.TrimPrefix(filepath.Base(path), "ach-")
		if _, ok := kernelDevice(devices, name); ok && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names
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

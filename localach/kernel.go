package localach

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Device is a channel of the kernel's Ach module (Ach in the kernel, 2016). A program linked with libach uses it instead of the
// channel of that name in shared memory, if it may open the device for reading and writing.
type Device struct {
	Name     string // name of the channel
	Path     string
	Mode     fs.FileMode // permission bits
	UID, GID int
	// IsCopy reports that achbridge made the device, and copies the frames of the channel in shared memory into it.
	IsCopy bool
}

// devicePrefix begins the names of the devices.
const devicePrefix = "ach-"

// DevicePath returns the path of a kernel channel's device in a directory of devices, which is /dev except in tests.
func DevicePath(devices, name string) string { return filepath.Join(devices, devicePrefix+name) }

// DeviceChannel returns the channel of a device file. It returns false if the file does not have the name of a channel's device.
func DeviceChannel(file string) (name string, ok bool) {
	name, ok = strings.CutPrefix(file, devicePrefix)
	return name, ok && CheckName(name) == nil
}

// KernelDevice returns the kernel's channel with a name. It returns false if there is none, or if d is not libach's directory.
// It only calls stat, since opening a device that is being removed can crash the kernel (ach-kernel.md).
func (d Dir) KernelDevice(name string) (Device, bool) {
	if d != Shm || CheckName(name) != nil {
		return Device{}, false
	}
	device, ok := kernelDevice("/dev", name)
	device.IsCopy = ok && d.isCopied(name)
	return device, ok
}

// DeviceCopyRecord returns the path of the record of a device that achbridge made. No channel in shared memory has such a file.
func DeviceCopyRecord(d Dir, name string) string {
	return filepath.Join(string(d), ".achbridge.kernel-"+name)
}

// isCopied reports whether the owner of a channel in shared memory has recorded that a device has a copy.
func (d Dir) isCopied(name string) bool {
	var ring, record unix.Stat_t
	return unix.Lstat(d.Path(name), &ring) == nil && unix.Lstat(DeviceCopyRecord(d, name), &record) == nil && ring.Uid == record.Uid
}

// KernelDevices returns all channels of the kernel, sorted by name. It returns none if d is not libach's directory.
func (d Dir) KernelDevices() (list []Device) {
	if d != Shm {
		return nil
	}
	list = kernelDevices("/dev")
	for i := range list {
		list[i].IsCopy = d.isCopied(list[i].Name)
	}
	return list
}

func kernelDevices(devices string) (list []Device) {
	paths, _ := filepath.Glob(DevicePath(devices, "*")) // sorted
	for _, path := range paths {
		name, ok := DeviceChannel(filepath.Base(path))
		if !ok {
			continue
		}
		if d, ok := kernelDevice(devices, name); ok {
			list = append(list, d)
		}
	}
	return list
}

func kernelDevice(devices, name string) (Device, bool) {
	path := DevicePath(devices, name)
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		return Device{}, false
	}
	st := info.Sys().(*syscall.Stat_t)
	return Device{Name: name, Path: path, Mode: info.Mode().Perm(), UID: int(st.Uid), GID: int(st.Gid)}, true
}

package localach

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"achbridge/testnet/need"
)

func TestKernelDeviceIsFoundByStat(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ach-imu")
	if err := unix.Mknod(path, unix.S_IFCHR|0o660, int(unix.Mkdev(1, 3))); err != nil {
		need.Missing(t, "a device cannot be made: "+err.Error()+"; run as root")
	}
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ach-file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	want := Device{Name: "imu", Path: path, Mode: 0o660, UID: os.Geteuid(), GID: os.Getegid()}
	if got, ok := kernelDevice(dir, "imu"); !ok || got != want {
		t.Errorf("kernelDevice(imu) = %+v, %v, want %+v", got, ok, want)
	}
	if got := kernelDevices(dir); !slices.Equal(got, []Device{want}) {
		t.Errorf("kernelDevices() = %+v, want %+v", got, want)
	}
	for _, name := range []string{"file", "none"} {
		if got, ok := kernelDevice(dir, name); ok {
			t.Errorf("kernelDevice(%s) = %+v, want none", name, got)
		}
	}
}

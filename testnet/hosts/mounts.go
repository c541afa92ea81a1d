package hosts

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"achbridge/testnet"
)

// mountPrivate gives this mount namespace its own /dev/shm, /run and /proc, and
// its own changes to /etc and /var/lib. They are in memory and end with the
// namespace.
func mountPrivate() error {
	type mount struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}
	layers := func(dir string) string {
		return fmt.Sprintf("lowerdir=%[1]s,upperdir=/run%[1]s/upper,workdir=/run%[1]s/work", dir)
	}
	for _, m := range []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"shm", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		// The layers are on a tmpfs that the host's own /run then hides.
		{"layers", "/run", "tmpfs", 0, "mode=700"},
		{"etc", "/etc", "overlay", 0, layers("/etc")},
		{"lib", "/var/lib", "overlay", 0, layers("/var/lib")},
		{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
	} {
		if m.kind == "overlay" {
			for _, part := range []string{"/upper", "/work"} {
				if err := os.MkdirAll("/run"+m.target+part, 0o755); err != nil {
					return err
				}
			}
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s %s: %w", m.kind, m.target, err)
		}
	}
	if err := os.Mkdir("/run/lock", 0o777); err != nil {
		return err
	}
	return os.Chmod("/run/lock", 0o1777|os.ModeSticky)
}

// writeNames writes the hosts' names to /etc/hosts. There is no name server, so other
// names fail at once.
func writeNames(s setup) error {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
	for i, name := range s.Hosts {
		fmt.Fprintf(&b, "%v %s\n%v %s\n", testnet.HostAddr4(i), name, testnet.HostAddr6(i), name)
	}
	for path, text := range map[string]string{
		"/etc/hosts":       b.String(),
		"/etc/hostname":    s.Hosts[s.Number] + "\n",
		"/etc/resolv.conf": "# no name server in a lab\n",
	} {
		os.Remove(path) // it may be a symbolic link into the hidden /run
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

func TestTmpfilesRulesThatCleanShmAreFound(t *testing.T) {
	const rule = "d /dev/shm 1777 root root 10d\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":            {nil, ""},
		"other directory": {map[string]string{"usr/lib/tmpfiles.d/tmp.conf": "q /tmp 1777 root root 10d\nD /dev/shm/other - - - 1d\n"}, ""},
		"no age":          {map[string]string{"usr/lib/tmpfiles.d/a.conf": "d /dev/shm 1777 root root -\nd /dev/shm\n"}, ""},
		"comment":         {map[string]string{"usr/lib/tmpfiles.d/a.conf": "# " + rule}, ""},
		"age":             {map[string]string{"etc/tmpfiles.d/a.conf": "\n" + rule}, "/etc/tmpfiles.d/a.conf: d /dev/shm 1777 root root 10d"},
		"pattern":         {map[string]string{"usr/lib/tmpfiles.d/a.conf": "e! /dev/s* - - - 1d"}, "/usr/lib/tmpfiles.d/a.conf: e! /dev/s* - - - 1d"},
		"replaced":        {map[string]string{"usr/lib/tmpfiles.d/a.conf": rule, "etc/tmpfiles.d/a.conf": ""}, ""},
		"excluded":        {map[string]string{"usr/lib/tmpfiles.d/a.conf": rule, "etc/tmpfiles.d/ach.conf": "x /dev/shm/achshm-*\n"}, ""},
		"other excluded":  {map[string]string{"usr/lib/tmpfiles.d/a.conf": rule, "etc/tmpfiles.d/ach.conf": "x /dev/shm/other-*\n"}, "/usr/lib/tmpfiles.d/a.conf: d /dev/shm 1777 root root 10d"},
	} {
		if got := cleanedBy(tree(t, c.files)); got != c.want {
			t.Errorf("%s: cleanedBy: got %q, want %q", name, got, c.want)
		}
	}
}

// Pipes, devices, large files and control characters must not block the scan, take long, or reach the terminal.
func TestOtherFilesAreNoScripts(t *testing.T) {
	root := tree(t, map[string]string{
		"etc/cron.d/a": "\x1b[2J; rm -rf /dev/shm/*\n",
		"etc/cron.d/b": strings.Repeat("rm ", 1000) + "; rm -rf /dev/shm/*\n",
		"etc/cron.d/c": strings.Repeat("\n", 256<<10) + "rm -rf /dev/shm/*\n",
	})
	for _, dir := range []string{"etc/cron.d", "etc/tmpfiles.d", "usr/local/bin"} {
		path := filepath.Join(root, dir, "fifo.conf")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/zero", filepath.Join(root, "usr/local/bin/zero")); err != nil {
		t.Fatal(err)
	}
	var got []string
	await.Return(t, "the scan ends", func() { got = append(scriptsThatRemove(root), cleanedBy(root)) })
	if want := "/etc/cron.d/a:1:  [2J; rm -rf /dev/shm/*\n"; strings.Join(got, "\n") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScriptsThatEmptyShmAreFound(t *testing.T) {
	for line, want := range map[string]bool{
		"rm -f /dev/shm/ach*":                           true,
		"sudo rm -rf /dev/shm/*":                        true,
		"rm /dev/shm/achshm-*; start":                   true,
		"ExecStartPre=/bin/sh -c 'rm -f /dev/shm/ach*'": true,
		"@reboot root rm -f \"/dev/shm/\"ach*":          false, // quoted in a way that is not recognized, since scripts do not use it
		"cd / && rm -rf /dev/shm":                       true,
		"find /dev/shm -name 'ach*' -delete":            true,
		"# rm -f /dev/shm/ach*":                         false,
		"rm -f /dev/shm/achshm-imu":                     false,
		"rm -f /dev/shm/other*":                         false,
		"rm -f /tmp/*; ls /dev/shm/ach*":                false,
		"farm /dev/shm/ach*":                            false,
		"find /dev/shm -name 'ach*'":                    false,
	} {
		root := tree(t, map[string]string{"etc/rc.local": "#!/bin/sh\n" + line + "\n", "usr/local/bin/robot/sub": "rm -f /dev/shm/ach*"})
		got := scriptsThatRemove(root)
		if (len(got) == 1) != want || want && got[0] != "/etc/rc.local:2: "+line {
			t.Errorf("%s: got %q, want it found: %v", line, got, want)
		}
	}
}

func TestContainerShmIsDetectedByItsSize(t *testing.T) {
	for mounts, want := range map[string]bool{
		"":                                       false,
		"tmpfs /dev/shm tmpfs rw,relatime 0 0\n": false,
		"shm /dev/shm tmpfs rw,nosuid,size=65536k,inode64 0 0\n":                                            true,
		"shm /dev/shm tmpfs rw,size=262144k 0 0\n":                                                          false,
		"tmpfs /run tmpfs rw,size=65536k 0 0\n":                                                             false,
		"shm /dev/shm tmpfs rw,size=65536k 0 0\ntmpfs /dev/shm tmpfs rw,size=262144k 0 0\n":                 false,
		"shm /dev/shm tmpfs rw,size=262144k 0 0\nshm /dev/shm tmpfs rw,nosuid,nodev,noexec,size=65536k 0 0": true,
	} {
		if got := isContainerShm(tree(t, map[string]string{"proc/self/mounts": mounts})); got != want {
			t.Errorf("%q: isContainerShm: got %v, want %v", mounts, got, want)
		}
	}
	root := tree(t, map[string]string{"proc/self/mounts": "shm /dev/shm tmpfs rw,size=65536k 0 0\n"})
	r, _ := roomIn(localach.Shm, root)
	expect(t, r, doubt, "--shm-size=1g")
}

func TestRemoversNameTheirFixes(t *testing.T) {
	root := tree(t, map[string]string{"etc/rc.local": "rm -f /dev/shm/ach*\n", "etc/tmpfiles.d/a.conf": "d /dev/shm 1777 root root 10d\n"})
	var texts []string
	for _, r := range removersOf(localach.Shm, root) {
		texts = append(texts, r.text+": "+r.fix)
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{"systemd-tmpfiles removes channels by their age (/etc/tmpfiles.d/a.conf: ", "x /dev/shm/achshm-*", "/etc/rc.local:1: rm -f", "Before=achbridge.service"} {
		if !strings.Contains(all, want) {
			t.Errorf("got %q, want %q in it", all, want)
		}
	}
	if got := removersOf(localach.Dir(t.TempDir()), root); got != nil {
		t.Errorf("of another directory: got %v, want none", got)
	}
}

func TestFullShmFails(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Missing(t, "not root: no file system can be mounted")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	_ = os.WriteFile(filepath.Join(dir, "fills"), make([]byte, 1<<20), 0o600) // writes as much as fits
	r, _ := roomIn(localach.Dir(dir), "/")
	expect(t, r, failing, "it is full")
	if text := ShmProblem(localach.Dir(dir)); !strings.Contains(text, "it is full: remove what fills it, or mount -o remount,size=") {
		t.Errorf("ShmProblem: got %q, want that it is full, and the fix", text)
	}
}

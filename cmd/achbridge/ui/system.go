package ui

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ModeText is a file's permission bits and owners.
func ModeText(info fs.FileInfo) string {
	text := fmt.Sprintf("mode %04o", info.Mode().Perm())
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		text += ", owner " + UserText(int(stat.Uid), int(stat.Gid))
	}
	return text
}

// UserText is NAME:GROUP, by numbers where there are no names.
func UserText(uid, gid int) string {
	name, group := strconv.Itoa(uid), strconv.Itoa(gid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	return name + ":" + group
}

// ProcessName is the name of a process or thread, "" when it cannot be read.
func ProcessName(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}

// FreeText says how much room a directory has, by its file system.
func FreeText(dir string, st *unix.Statfs_t) string {
	return fmt.Sprintf("%s of %s are free in %s", AboutBytes(int(st.Bavail)*int(st.Bsize)), AboutBytes(int(st.Blocks)*int(st.Bsize)), dir)
}

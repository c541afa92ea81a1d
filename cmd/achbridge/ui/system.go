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

// ModeText formats a file's permission bits and owners.
func ModeText(info fs.FileInfo) string {
	text := fmt.Sprintf("mode %04o", info.Mode().Perm())
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		text += ", owner " + UserText(int(stat.Uid), int(stat.Gid))
	}
	return text
}

// UserText formats a user and a group as NAME:GROUP, with numbers instead of unknown names.
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

// WhoMayOpen describes whose programs may open a file for reading and writing, by its permission bits: "programs of root
// and of group ach".
func WhoMayOpen(mode fs.FileMode, uid, gid int) string {
	user, group, _ := strings.Cut(UserText(uid, gid), ":")
	who := []string{"programs of root"}
	switch {
	case mode&0o006 == 0o006:
		return "all programs"
	case mode&0o600 == 0o600 && uid != 0:
		who = append(who, "of "+user)
	}
	if mode&0o060 == 0o060 {
		who = append(who, "of group "+group)
	}
	return AndList(who)
}

// ProcessName returns the name of a process or thread, "" if it cannot be read.
func ProcessName(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}

// FreeText describes the free space of a directory's file system.
func FreeText(dir string, st *unix.Statfs_t) string {
	return fmt.Sprintf("%s of %s are free in %s", AboutBytes(int(st.Bavail)*int(st.Bsize)), AboutBytes(int(st.Blocks)*int(st.Bsize)), dir)
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

const (
	fullShare = 0.9      // share of the channel directory from which it counts as full
	leastFree = 16 << 20 // bytes
)

// checkShm checks the directory of the channels.
func checkShm(_ context.Context, p *patient) result {
	r, st := roomIn(p.Dir, "/")
	if st == nil {
		return r
	}
	text := ui.FreeText(string(p.Dir), st)
	switch who := p.credentials(); {
	case st.Flags&unix.ST_RDONLY != 0:
		return result{State: failing, Text: text + ", and it is mounted read-only", Fix: remount + "rw " + string(p.Dir)}
	case !who.mayWrite(string(p.Dir)):
		return result{State: failing, Text: text + ", and the daemon, " + ui.UserText(who.uid, who.gid) + ", may not make files there", Fix: "chmod 1777 " + string(p.Dir)}
	case r.State == fit && st.Type != unix.TMPFS_MAGIC:
		return result{State: doubt, Text: text + ", and it is no tmpfs: puts may wait for a disk", Fix: "mount -t tmpfs -o mode=1777 tmpfs " + string(p.Dir)}
	}
	return r
}

const remount = "mount -o remount,"

// ShmProblem returns why the directory of the channels has too little room, with the fix, or "".
func ShmProblem(dir localach.Dir) string {
	r, _ := roomIn(dir, "/")
	if r.State == fit {
		return ""
	}
	return r.Text + ": " + r.Fix
}

// roomIn checks the room in the directory of the channels. It also returns the result of statfs(2), nil after an error. root is
// the host's root directory.
func roomIn(dir localach.Dir, root string) (result, *unix.Statfs_t) {
	var st unix.Statfs_t
	if err := unix.Statfs(string(dir), &st); err != nil {
		return result{State: failing, Text: string(dir) + ": " + err.Error(), Fix: "mount -t tmpfs -o mode=1777 tmpfs " + string(dir)}, nil
	}
	text := ui.FreeText(string(dir), &st)
	used := 1 - float64(st.Bavail)/float64(max(st.Blocks, 1))
	free := int64(st.Bavail) * int64(st.Bsize)
	isContainer := dir == localach.Shm && isContainerShm(root)
	fix := "remove what fills it, or " + remount + "size=… " + string(dir)
	if isContainer {
		text += ", the default of container engines"
		fix = "give the container more shared memory: --shm-size=1g, or shm_size: 1g in a Compose file; or use the host's channels: --ipc=host"
	}
	switch {
	case st.Bavail == 0 || st.Files > 0 && st.Ffree == 0:
		return result{State: failing, Text: text + ": it is full", Fix: fix}, &st
	case used > fullShare || free < leastFree:
		return result{State: doubt, Text: text + ": mirrors may take half of what is free", Fix: fix}, &st
	case isContainer:
		return result{State: doubt, Text: text, Fix: fix}, &st
	}
	return result{State: fit, Text: text}, &st
}

// mayWrite reports whether an account may make files in a directory, or open a file for
// reading and writing, by its permission bits.
func (who credentials) mayWrite(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	need := fs.FileMode(0o6) // others, to read and write
	if info.IsDir() {
		need = 0o3 // to write and search
	}
	switch {
	case who.uid == 0:
		return true
	case int(stat.Uid) == who.uid:
		need <<= 6
	case int(stat.Gid) == who.gid || slices.Contains(who.groups, int(stat.Gid)):
		need <<= 3
	}
	return info.Mode().Perm()&need == need
}

// checkChannels checks that the daemon may use the channels of this host, and that their
// files are intact.
func checkChannels(_ context.Context, p *patient) result {
	infos, err := p.Dir.List()
	if err != nil {
		return result{State: failing, Text: err.Error(), Fix: "see shared memory"}
	}
	r := result{State: fit}
	var list []string
	add := func(state fitness, name, text, fix string) {
		r.worsen(state, fix)
		list = append(list, name+": "+text)
	}
	who, mirrors, ach1x := p.credentials(), 0, 0
	for _, c := range infos {
		if hidden := diagnose.HiddenBy(p.Dir.KernelDevice(c.Name)); hidden != "" {
			add(doubt, c.Name, hidden, "have its programs use shared memory, or another name; a mirror: --as NAME")
		}
		if c.Mirror {
			mirrors++
		}
		if c.IsAch1x {
			ach1x++
		}
		if !who.mayWrite(p.Dir.Path(c.Name)) {
			mode := ""
			if info, err := os.Stat(p.Dir.Path(c.Name)); err == nil {
				mode = ui.ModeText(info)
			}
			add(doubt, c.Name, "the daemon, "+ui.UserText(who.uid, who.gid)+", may not use it: "+mode,
				fmt.Sprintf("chmod 0660 %s, and a group that the daemon is in", p.Dir.Path(c.Name)))
			continue
		}
		if state, text, fix := p.checkChannel(c); state != fit {
			add(state, c.Name, text, fix)
		}
	}
	if len(list) == 0 {
		r.Text = fmt.Sprintf("%d channels, %d of them mirrors, all of them good", len(infos), mirrors)
		if ach1x > 0 {
			r.Text += fmt.Sprintf("; %d %s", ach1x, diagnose.Ach1xNote)
		}
		return r
	}
	const most = 5
	if len(list) > most {
		list = append(list[:most], fmt.Sprintf("and %d more", len(list)-most))
	}
	r.Text = strings.Join(list, "; ")
	return r
}

// checkChannel opens a channel and returns its problem with the fix.
func (p *patient) checkChannel(c localach.Info) (state fitness, text, fix string) {
	if errors.Is(c.Err, fs.ErrPermission) {
		return doubt, "it cannot be opened by " + ui.UserText(os.Geteuid(), os.Getegid()), "run doctor as root; or " + ui.Fix(p.ChannelError(c.Name, c.Err))
	}
	remove := "end the programs that use it, then achbridge channel rm " + c.Name + ": its publisher creates it again"
	ch, err := p.Dir.OpenToRead(c.Name)
	if errors.Is(err, localach.ErrForeign) {
		return doubt, err.Error(), "leave it to its own programs; the achd that belongs to its Ach serves it: achbridge mirror achd://HOST/" + c.Name + " on other hosts"
	}
	if err != nil {
		return failing, err.Error(), remove
	}
	defer ch.Close()
	if c.IsAch1x {
		remove = "end the programs that use it, and have their own start script make it again"
	}
	if err := ch.Check(); err != nil {
		return failing, err.Error(), remove
	}
	if err := ch.Geometry().Check(); err != nil {
		return doubt, err.Error(), "have its publisher create it with another geometry"
	}
	stat, err := ch.Stat()
	switch {
	case err != nil:
		return failing, err.Error(), remove
	case ch.WakeHangs():
		f := diagnose.HangingPut(c.Name, c.IsAch1x)
		return failing, f.Text, f.Fix
	case hasKilledReaders(ch, p.Dir.Path(c.Name)):
		f := diagnose.KilledReader(c.Name, c.IsAch1x)
		return failing, f.Text, f.Fix
	case stat.ForeignCond:
		return doubt, "made with another C library: readers that wait in it are never woken", "have its creator use the C library of this host"
	}
	return fit, "", ""
}

package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// orphan is a process that goes on with a channel whose file was removed: nobody else finds what it puts.
type orphan struct {
	sharer
	Channel string
}

func (o orphan) String() string {
	return o.Owned() + " goes on with " + o.Channel + ", which was removed"
}

// OrphansOf returns the processes, other than achbridge, that have removed channels of dir open. It omits processes that this
// user may not examine.
func OrphansOf(dir localach.Dir) (list []orphan) {
	eachProcess(func(pid int, mapped map[fileID]string) {
		for _, name := range removedIn(dir, mapped) {
			if s := (sharer{PID: pid, name: ui.ProcessName(pid)}); !s.IsAchbridge() {
				list = append(list, orphan{s, name})
			}
		}
	})
	slices.SortFunc(list, func(a, b orphan) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.PID, b.PID))
	})
	return list
}

// removedIn returns the removed channels of dir among the files that a process has mapped.
func removedIn(dir localach.Dir, mapped map[fileID]string) (names []string) {
	const deleted = " (deleted)" // ends the path of a removed file: proc_pid_maps(5)
	for _, path := range mapped {
		path, removed := strings.CutSuffix(path, deleted)
		name, isChannel := strings.CutPrefix(path, dir.Path(""))
		if removed && isChannel && localach.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

// RemovedFix returns the fix for a program whose channel was removed.
func RemovedFix() string {
	fix := "restart the program, so that it makes the channel again"
	if removesIPC("/") {
		fix += "; systemd-logind removes the channels of a user who logs out: RemoveIPC=no in /etc/systemd/logind.conf, or loginctl enable-linger USER"
	}
	return fix
}

// checkRemoved looks for programs whose channels were removed, and for settings and scripts that remove channels.
func checkRemoved(_ context.Context, p *patient) result {
	r := result{State: fit}
	var list []string
	orphans := OrphansOf(p.Dir)
	for _, o := range orphans {
		r.worsen(failing, RemovedFix())
		list = append(list, o.String())
	}
	for _, m := range removersOf(p.Dir, "/") {
		r.worsen(doubt, m.fix)
		list = append(list, m.text)
	}
	if r.Text = strings.Join(list, "; "); r.Text == "" {
		r.Text = "no program has lost a channel that it has open"
	}
	return r
}

// ownersWhoLogOut returns the users whose channels systemd-logind removes when they log out. root is where the host's files are.
func ownersWhoLogOut(dir localach.Dir, root string) (users []string) {
	const firstOrdinary = 1000 // logind's default for the lowest uid of an ordinary user
	if !removesIPC(root) {
		return nil
	}
	infos, _ := dir.List()
	for _, c := range infos {
		info, err := os.Stat(dir.Path(c.Name))
		if err != nil {
			continue
		}
		st := info.Sys().(*syscall.Stat_t)
		user, _, _ := strings.Cut(ui.UserText(int(st.Uid), int(st.Gid)), ":")
		if st.Uid < firstOrdinary || user == "nobody" || slices.Contains(users, user) {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "var/lib/systemd/linger", user)); err != nil {
			users = append(users, user)
		}
	}
	return users
}

// removesIPC reports whether systemd-logind runs and removes what users leave in shared memory, as it does unless RemoveIPC=no.
func removesIPC(root string) bool {
	if _, err := os.Stat(filepath.Join(root, "run/systemd/users")); err != nil {
		return false
	}
	var parts []string // one text per name, for all directories
	for _, dir := range []string{"usr/lib", "run", "etc"} {
		found, _ := filepath.Glob(filepath.Join(root, dir, "systemd/logind.conf.d/*.conf"))
		parts = append(parts, found...)
	}
	slices.SortStableFunc(parts, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
	removes := true
	for _, file := range append([]string{filepath.Join(root, "etc/systemd/logind.conf")}, parts...) {
		text, _ := os.ReadFile(file)
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if value, ok := strings.CutPrefix(strings.ReplaceAll(lines.Text(), " ", ""), "RemoveIPC="); ok {
				removes = !slices.Contains([]string{"no", "false", "off", "0", "n", "f"}, strings.ToLower(value))
			}
		}
	}
	return removes
}

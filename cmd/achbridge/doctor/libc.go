package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// sharer is a process that has a channel of this host open.
type sharer struct {
	PID       int
	name      string
	libc      string // for people: glibc 2.36, musl, or none
	layout    string // layout of its condition variables, which must be equal in processes that share a channel
	namespace string // namespace of its process ids
}

func (s sharer) String() string { return fmt.Sprintf("%s (pid %d)", s.name, s.PID) }

// Owned names the process and its user.
func (s sharer) Owned() string {
	owner := "unknown user"
	if info, err := os.Stat(fmt.Sprintf("/proc/%d", s.PID)); err == nil {
		st := info.Sys().(*syscall.Stat_t)
		owner, _, _ = strings.Cut(ui.UserText(int(st.Uid), int(st.Gid)), ":")
	}
	return fmt.Sprintf("%s (pid %d, %s)", s.name, s.PID, owner)
}

// IsAchbridge reports whether the process is a daemon or command of achbridge, by its name.
func (s sharer) IsAchbridge() bool { return s.name == "achbridge" }

// checkSharers checks the processes that share channels. glibc aborts a process when two PID
// namespaces contend for one lock, and does not wake readers whose condition variables have
// another layout.
func checkSharers(_ context.Context, p *patient) result {
	channels, hidden := SharersOf(p.Dir)
	r := result{State: fit}
	people := map[int]bool{}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		for _, s := range channels[name] {
			people[s.PID] = true
		}
		if state, text, fix := judgeSharers(channels[name]); state != fit {
			r.worsen(state, fix)
			list = append(list, name+": "+text)
		}
	}
	if r.Text = strings.Join(list, "; "); len(people) == 0 {
		r.Text = "no process has a channel open"
	} else if r.Text == "" && len(people) == 1 {
		r.Text = fmt.Sprintf("one process has %d channels open", len(channels))
	} else if r.Text == "" {
		r.Text = fmt.Sprintf("%d processes share %d channels, with one C library and one set of process ids", len(people), len(channels))
	}
	if !localach.WakesReaders() {
		r.wakesNobody()
	}
	if hidden > 0 && os.Geteuid() != 0 {
		r.Text += fmt.Sprintf("; this user cannot examine %d processes: run doctor as root", hidden)
	}
	return r
}

// wakesNobody adds that readers which wait in a mirror are not woken.
func (r *result) wakesNobody() {
	r.worsen(doubt, "run achbridge with glibc 2.25 or later, as Debian, Ubuntu and Fedora have it")
	r.Text += "; the layout of condition variables in this program's C library is unknown: achbridge cannot wake readers that wait in a mirror, so they go on only when their time limit is over"
}

// judgeSharers returns the problem between the processes that share a channel, with its fix.
func judgeSharers(list []sharer) (state fitness, text, fix string) {
	for _, s := range list[1:] {
		if first := list[0]; s.namespace != first.namespace {
			return failing, fmt.Sprintf("%s and %s are in different PID namespaces: glibc aborts one of them when they contend for the lock", first, s),
				"start their containers with one PID namespace: pid: host, or pid: service:NAME"
		}
	}
	var known []sharer
	for _, s := range list {
		if s.layout != "" {
			known = append(known, s)
		}
	}
	for i, s := range known {
		if first := known[0]; i > 0 && s.layout != first.layout {
			return failing, fmt.Sprintf("%s has %s and %s has %s: their locks or condition variables differ, and readers that wait are never woken", first, first.libc, s, s.libc),
				"build or run both with one C library"
		}
	}
	for _, s := range list {
		if s.layout == "" {
			return doubt, fmt.Sprintf("%s has an unknown C library (%s)", s, s.libc), "link it with the C library of this host"
		}
	}
	return fit, "", ""
}

// fileID identifies a file in all mount namespaces.
type fileID struct {
	major, minor uint32
	inode        uint64
}

// SharersOf returns the processes that have each channel mapped, by channel. hidden counts
// the processes that this user may not examine.
func SharersOf(dir localach.Dir) (channels map[string][]sharer, hidden int) {
	files := channelFiles(dir)
	channels = map[string][]sharer{}
	hidden = eachProcess(func(pid int, mapped map[fileID]string) {
		var s *sharer
		for id := range mapped {
			name, ours := files[id]
			if !ours {
				continue
			}
			if s == nil {
				s = describeSharer(pid, mapped)
			}
			channels[name] = append(channels[name], *s)
		}
	})
	for name := range channels {
		slices.SortFunc(channels[name], func(a, b sharer) int { return a.PID - b.PID })
	}
	return channels, hidden
}

// eachProcess calls f for every other process, with the files that it has mapped. hidden counts those that this user may not
// examine.
func eachProcess(f func(pid int, mapped map[fileID]string)) (hidden int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if errors.Is(err, fs.ErrPermission) {
			hidden++
			continue
		}
		f(pid, mappedFiles(text))
	}
	return hidden
}

// channelFiles are the files of this host's channels, with their names.
func channelFiles(dir localach.Dir) map[fileID]string {
	files := map[fileID]string{}
	infos, _ := dir.List()
	for _, c := range infos {
		if info, err := os.Stat(dir.Path(c.Name)); err == nil {
			st := info.Sys().(*syscall.Stat_t)
			files[fileID{unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino}] = c.Name
		}
	}
	return files
}

// mappedFiles parses /proc/PID/maps and returns the paths of the mapped files.
func mappedFiles(text []byte) map[fileID]string {
	files := map[fileID]string{}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 6 || fields[4] == "0" {
			continue
		}
		var id fileID
		if _, err := fmt.Sscanf(fields[3], "%x:%x", &id.major, &id.minor); err != nil {
			continue
		}
		id.inode, _ = strconv.ParseUint(fields[4], 10, 64)
		files[id] = strings.Join(fields[5:], " ")
	}
	return files
}

func describeSharer(pid int, mapped map[fileID]string) *sharer {
	s := &sharer{PID: pid, libc: "none"}
	s.name = cmp.Or(ui.ProcessName(pid), "?")
	s.namespace, _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	for _, path := range mapped {
		switch base := filepath.Base(path); {
		case strings.HasPrefix(base, "ld-musl-"), strings.HasPrefix(base, "libc.musl-"):
			s.libc, s.layout = "musl", "musl"
		case base == "libc.so.6", strings.HasPrefix(base, "libc-2."):
			s.libc, s.layout = glibc(fmt.Sprintf("/proc/%d/root%s", pid, path))
		}
	}
	return s
}

var glibcVersion = regexp.MustCompile(`GNU C Library [^\n]*release version (\d+)\.(\d+)`)

// glibc names the version of a library file, and its layout of condition variables, which
// changed in 2.25 and in 2.41.
func glibc(path string) (name, layout string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "glibc", ""
	}
	found := glibcVersion.FindSubmatch(text)
	if found == nil {
		return "glibc", ""
	}
	minor, _ := strconv.Atoi(string(found[2]))
	name = fmt.Sprintf("glibc %s.%s", found[1], found[2])
	switch {
	case minor < 25:
		return name, "glibc before 2.25"
	case minor < 41:
		return name, "glibc 2.25 to 2.40"
	}
	return name, "glibc from 2.41"
}

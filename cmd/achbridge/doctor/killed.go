package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// HasKilledReaders reports whether a process was killed while it waited for a frame of a channel of dir, so that later puts can
// hang. It blocks for up to 200 ms. It returns false if it cannot find out, for example since this user cannot see all processes.
func HasKilledReaders(dir localach.Dir, name string) bool {
	ch, err := dir.TryOpenToRead(name)
	if err != nil {
		return false
	}
	defer ch.Close()
	return hasKilledReaders(ch, dir.Path(name))
}

// hasKilledReaders reports whether a process was killed while it waited for a frame of a channel, so that later puts can hang. It
// compares the channel's count of waiters with the number of threads that wait. If all waiters are alive, it returns at once;
// otherwise it repeats the comparison for up to 200 ms. It returns false if this user cannot see all processes, and if puts cannot
// hang with this C library. It also returns false for mirrors, since only the daemon puts into these, and its puts do not hang.
func hasKilledReaders(ch *localach.Channel, path string) bool {
	const most, enough, period = 20, 5, 10 * time.Millisecond
	// Examining the processes takes long. It is not necessary in the usual case, without waiters.
	info, err := os.Stat(path)
	if err != nil || waitersOf(ch) == 0 || ch.Tag() != (localach.Tag{}) || !localach.KilledReaderHangsPuts() || !seesAllProcesses() {
		return false
	}
	st := info.Sys().(*syscall.Stat_t)
	file := fileID{unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino}
	users, known := usersOf(file)
	if !known {
		return false
	}
	for samples, found := 0, 0; samples < most && found < enough; samples++ {
		before := waitersOf(ch)
		sleeping, running := threadsIn(file, users)
		waiters := min(before, waitersOf(ch))
		if waiters <= sleeping {
			return false
		}
		if waiters > sleeping+running {
			found++
		}
		if found == enough {
			now, known := usersOf(file) // if other processes use the channel now, the counts of threads are not complete
			return known && slices.Equal(now, users)
		}
		time.Sleep(period)
	}
	return false
}

func waitersOf(ch *localach.Channel) int {
	stat, err := ch.Stat()
	if err != nil {
		return 0
	}
	return stat.Waiters
}

// seesAllProcesses reports whether /proc shows the processes of all containers, because this process is in the first PID namespace.
func seesAllProcesses() bool {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO of the kernel
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return namespace == first
}

// usersOf returns the processes that have a file mapped, except those of achbridge, which never wait on a condition variable. known
// is false if this user may not examine all processes. Process 1 need not be examined: it uses no channels.
func usersOf(file fileID) (pids []int, known bool) {
	hidden := eachProcess(func(pid int, mapped map[fileID]string) {
		if _, ok := mapped[file]; ok && !(sharer{name: ui.ProcessName(pid)}).IsAchbridge() {
			pids = append(pids, pid)
		}
	})
	if _, err := os.ReadFile("/proc/1/maps"); errors.Is(err, fs.ErrPermission) {
		hidden--
	}
	return pids, hidden <= 0
}

// threadsIn counts the threads of processes that sleep on an address in a file, as on a condition variable, and those that run or
// cannot be examined.
func threadsIn(file fileID, pids []int) (sleeping, running int) {
	for _, pid := range pids {
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		for _, path := range threads {
			text, err := os.ReadFile(path)
			address, blocked := blockedOn(string(text))
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case !blocked:
				running++
			case contains(maps, file, address):
				sleeping++
			}
		}
	}
	return sleeping, running
}

// blockedOn returns the first argument of the system call in which a thread is blocked. That is the address if the call is
// futex(2). blockedOn does not check the call's number, which changes after a signal. blocked is false if the thread runs. syscall
// is the text of proc_pid_syscall(5).
func blockedOn(syscall string) (address uint64, blocked bool) {
	fields := strings.Fields(syscall)
	if len(fields) < 2 || fields[0] == "-1" {
		return 0, false
	}
	address, err := strconv.ParseUint(fields[1], 0, 64)
	return address, err == nil
}

// contains reports whether an address is in the mapping of a file. maps is the text of proc_pid_maps(5) of the process.
func contains(maps []byte, file fileID, address uint64) bool {
	for line := range bytes.Lines(maps) {
		var start, end uint64
		if _, ours := mappedFiles(line)[file]; !ours {
			continue
		}
		if _, err := fmt.Sscanf(string(line), "%x-%x", &start, &end); err == nil && start <= address && address < end {
			return true
		}
	}
	return false
}

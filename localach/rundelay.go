package localach

import (
	"bytes"
	"cmp"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runDelay measures how long threads of this process were ready to run but waited for a processor. It keeps no files open,
// since a process may have many threads.
type runDelay struct {
	schedstat
	paths  []string // of each thread's schedstat
	listed time.Duration
	at     time.Duration // when total was read; 0: never
	total  time.Duration
}

// schedstat reads what the kernel tells of the threads of this process.
type schedstat struct {
	dir  string // of the threads; empty: /proc/self/task
	name []byte // of the file that is read
	buf  [64]byte
}

const (
	relistEvery = time.Second
	mostDelay   = 50 // threads may wait for a 50th of the time, since each wake-up waits a little
)

// grew reports whether the threads have waited more than usual since the last call, or whether that is unknown.
func (r *runDelay) grew(now time.Duration) bool {
	if r.paths == nil || now-r.listed > relistEvery {
		r.paths = r.list()
		r.listed, r.at = now, 0
	}
	total := time.Duration(0)
	for _, path := range r.paths {
		total += r.read(path)
	}
	waited, since, known := total-r.total, now-r.at, r.at != 0
	r.total, r.at = total, now
	return total == 0 || known && waited > since/mostDelay
}

// list returns the path of each thread's file.
func (r *schedstat) list() (paths []string) {
	dir := cmp.Or(r.dir, "/proc/self/task")
	threads, _ := os.ReadDir(dir)
	for _, t := range threads {
		paths = append(paths, dir+"/"+t.Name()+"/schedstat")
	}
	return paths
}

// read returns the second number of "ran waited slices", in ns; 0 of a thread that has ended. Its system calls are raw, as
// those of timer.wait, since they do not block.
func (r *schedstat) read(path string) time.Duration {
	here := unix.AT_FDCWD
	name := append(append(r.name[:0], path...), 0)
	r.name = name
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), uintptr(unsafe.Pointer(&name[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return 0
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&r.buf)), unsafe.Sizeof(r.buf))
	unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	if errno != 0 {
		return 0
	}
	fields := bytes.Fields(r.buf[:n])
	if len(fields) < 2 {
		return 0
	}
	ns, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(ns)
}

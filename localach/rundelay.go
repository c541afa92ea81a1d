package localach

import (
	"bytes"
	"cmp"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// runDelay watches for how long the threads of this process were ready to run and had no processor. It keeps no descriptors: a
// process has as many threads as it once needed.
type runDelay struct {
	dir    string   // of the threads; empty: /proc/self/task
	paths  []string // of each thread's schedstat
	listed time.Duration
	at     time.Duration // when total was read; 0: never
	total  time.Duration
	buf    [64]byte
}

const (
	relistEvery = time.Second
	mostDelay   = 50 // a 50th of the time may be waited for a processor: each wake waits a little
)

// grew reports whether the threads have waited more than usual since it was asked last, or cannot know.
func (r *runDelay) grew(now time.Duration) bool {
	if r.paths == nil || now-r.listed > relistEvery {
		r.paths, _ = filepath.Glob(cmp.Or(r.dir, "/proc/self/task") + "/*/schedstat")
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

// read returns the second number of "ran waited slices", in ns; 0 of a thread that has ended.
func (r *runDelay) read(path string) time.Duration {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, r.buf[:])
	if err != nil {
		return 0
	}
	fields := bytes.Fields(r.buf[:n])
	if len(fields) < 2 {
		return 0
	}
	ns, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(ns)
}

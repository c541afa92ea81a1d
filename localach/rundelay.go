package localach

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// runDelay watches for how long the threads of this process were ready to run and had no processor.
type runDelay struct {
	dir    string     // of the threads; empty: /proc/self/task
	files  []*os.File // a schedstat of each
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
	if r.files == nil || now-r.listed > relistEvery {
		r.list(now)
	}
	total := time.Duration(0)
	for _, f := range r.files {
		total += r.read(f)
	}
	waited, since, known := total-r.total, now-r.at, r.at != 0
	r.total, r.at = total, now
	return total == 0 || known && waited > since/mostDelay
}

// list opens what tells of the threads that there are now.
func (r *runDelay) list(now time.Duration) {
	r.close()
	r.listed, r.at = now, 0
	paths, _ := filepath.Glob(cmp.Or(r.dir, "/proc/self/task") + "/*/schedstat")
	for _, path := range paths {
		if f, err := os.Open(path); err == nil {
			r.files = append(r.files, f)
		}
	}
}

// read returns the second number of "ran waited slices", in ns; 0 of a thread that has ended.
func (r *runDelay) read(f *os.File) time.Duration {
	n, err := f.ReadAt(r.buf[:], 0)
	fields := bytes.Fields(r.buf[:n])
	if err != nil && n == 0 || len(fields) < 2 {
		return 0
	}
	ns, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(ns)
}

func (r *runDelay) close() {
	for _, f := range r.files {
		f.Close()
	}
	r.files = nil
}

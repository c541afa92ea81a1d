package localach

import (
	"bytes"
	"cmp"
	"os"
	"strconv"
	"time"
)

// runDelay measures how long the threads of this process were runnable but waited for a CPU. It keeps no files open, since a
// process may have many threads.
type runDelay struct {
	schedstat
	paths     []string // schedstat files of the threads
	listedAt  time.Duration
	sampledAt time.Duration // when total was read, or 0
	total     time.Duration
	slices    uint64 // how often the threads had run until then
}

// schedstat reads the scheduler's statistics of the threads of this process.
type schedstat struct {
	procFile
	dir string // directory of the threads; empty means /proc/self/task
	buf [64]byte
}

const (
	relistEvery   = time.Second
	maxDelayShare = 50                    // threads may wait for a 50th of the time,
	maxMeanDelay  = 40 * time.Microsecond // or for this time on average per wake-up, which takes 3 to 25 µs on an idle CPU
)

// isHigh reports whether the threads have waited too long since the last call, or whether that is unknown.
func (r *runDelay) isHigh(now time.Duration) bool {
	if r.paths == nil || now-r.listedAt > relistEvery {
		r.paths = r.list()
		r.listedAt, r.sampledAt = now, 0
	}
	total, slices := time.Duration(0), uint64(0)
	for _, path := range r.paths {
		d, n := r.read(path)
		total, slices = total+d, slices+n
	}
	waited, since, known := total-r.total, now-r.sampledAt, r.sampledAt != 0
	times := time.Duration(slices - min(slices, r.slices))
	r.total, r.slices, r.sampledAt = total, slices, now
	return total == 0 || known && waited > max(since/maxDelayShare, times*maxMeanDelay)
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

// read returns the second and third number of "ran waited slices": how long a thread has waited and how often it has run. Both
// are 0 for a thread that has ended.
func (r *schedstat) read(path string) (waited time.Duration, slices uint64) {
	fields := bytes.Fields(r.procFile.read(path, r.buf[:]))
	if len(fields) < 3 {
		return 0, 0
	}
	ns, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	slices, _ = strconv.ParseUint(string(fields[2]), 10, 64)
	return time.Duration(ns), slices
}

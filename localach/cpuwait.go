package localach

import (
	"bytes"
	"cmp"
	"os"
	"strconv"
	"time"
)

// CPUWait measures the share of the time that this process waited for a CPU: how long the thread that waited most was runnable
// without running. The zero value is ready for use. It is for one goroutine at a time.
type CPUWait struct {
	// Every is the shortest time between two samples; 0 means 1 s. A sample takes about 10 µs per thread.
	Every time.Duration

	stat        schedstat
	sampledAt   time.Duration            // time of the last sample
	threadWaits map[string]time.Duration // wait of each thread until then; nil before the first sample
	shares      [2]float64               // shares between the last three samples, the newest first
	samples     int
}

// sampleEvery is the default of CPUWait.Every.
const sampleEvery = time.Second

// Share returns the waiting time as a share, 0 … 1, of the time between the last three samples, which is by default two seconds. It
// may be called often, since it takes a sample at most once in Every. now is the present time on any clock that does not jump.
// known is false until there are two samples, and always if the kernel has no /proc/self/task/*/schedstat.
func (p *CPUWait) Share(now time.Duration) (share float64, known bool) {
	if p.threadWaits == nil || now >= p.sampledAt+cmp.Or(p.Every, sampleEvery) {
		p.sample(now)
	}
	switch p.samples {
	case 0, 1:
		return 0, false
	case 2:
		return p.shares[0], true
	}
	return (p.shares[0] + p.shares[1]) / 2, true
}

func (p *CPUWait) sample(now time.Duration) {
	waited, most, total := map[string]time.Duration{}, time.Duration(0), time.Duration(0)
	for _, path := range p.stat.list() {
		waited[path] = p.stat.read(path)
		total += waited[path]
		most = max(most, waited[path]-p.threadWaits[path])
	}
	if p.samples > 0 {
		p.shares = [2]float64{min(1, float64(most)/float64(now-p.sampledAt)), p.shares[0]}
	}
	p.sampledAt, p.threadWaits = now, waited
	if total > 0 { // always 0 if the kernel does not count waits
		p.samples++
	}
}

// schedstat reads the scheduler's statistics of the threads of this process.
type schedstat struct {
	procFile
	dir string // directory of the threads; empty means /proc/self/task
	buf [64]byte
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

// read returns for how long a thread has waited for a CPU: the second of the three numbers in the file. It returns 0 for a thread
// that has ended.
func (r *schedstat) read(path string) time.Duration {
	fields := bytes.Fields(r.procFile.read(path, r.buf[:]))
	if len(fields) < 3 {
		return 0
	}
	ns, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(ns)
}

package localach

import (
	"bytes"
	"cmp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// idleTime measures how many of the CPUs on which this process may run are free: they are idle, or run this process.
type idleTime struct {
	procFile
	path      string               // empty means /proc/stat
	cpus      unix.CPUSet          // CPUs on which this process may run
	ownTime   func() time.Duration // returns the CPU time of this process
	sampledAt time.Duration        // when total was read, or 0
	total     time.Duration
	free      float64        // smoothed number of free CPUs
	buf       [16 << 10]byte // has room for the lines of at least 140 CPUs
}

// idleGrain is the unit of the kernel's figures, USER_HZ, which is 100 on all architectures.
const idleGrain = 10 * time.Millisecond

// idleSpan is the time over which free is averaged, since one sample over 50 ms is wrong by a few grains.
const idleSpan = 400 * time.Millisecond

// scarce reports whether other processes leave less than one CPU free, or whether that is unknown. The delay of our own threads
// does not show it: a thread that wakes up gets a busy CPU almost at once, and other threads that wake up there wait.
func (i *idleTime) scarce(now time.Duration) bool {
	total, known := i.read()
	total += i.ownTime()
	since, first := now-i.sampledAt, i.sampledAt == 0
	if !first && since > 0 {
		free := float64(total-i.total) / float64(since)
		i.free += (free - i.free) * min(1, since.Seconds()/idleSpan.Seconds())
	} else if first {
		i.free = float64(i.cpus.Count())
	}
	i.total, i.sampledAt = total, now
	return !known || !first && i.free < 1
}

// ownTime returns the CPU time of this process.
func ownTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// read returns the sum of the fourth number of "cpuN user nice system idle …" over our CPUs.
func (i *idleTime) read() (idle time.Duration, known bool) {
	text := i.procFile.read(cmp.Or(i.path, "/proc/stat"), i.buf[:])
	for line := range bytes.Lines(text) {
		cpu, isCPU := bytes.CutPrefix(line, []byte("cpu"))
		if !isCPU {
			break
		}
		fields := bytes.Fields(cpu)
		if len(fields) < 5 || cpu[0] == ' ' || line[len(line)-1] != '\n' { // the line with the sum of all CPUs, or a truncated line
			continue
		}
		number, err := strconv.Atoi(string(fields[0]))
		ticks, err2 := strconv.ParseInt(string(fields[4]), 10, 64)
		if err != nil || err2 != nil || !i.cpus.IsSet(number) {
			continue
		}
		idle, known = idle+time.Duration(ticks)*idleGrain, true
	}
	return idle, known
}

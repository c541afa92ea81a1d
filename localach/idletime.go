package localach

import (
	"bytes"
	"cmp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// idleTime measures for how long the processors that this process may run on had nothing else to do: they were idle, or ran
// this process.
type idleTime struct {
	procFile
	path      string               // empty: /proc/stat
	cpus      unix.CPUSet          // the processors
	ownTime   func() time.Duration // processor time of this process
	sampledAt time.Duration        // when total was read; 0: never
	total     time.Duration
	free      float64        // processors that others left free, smoothed
	buf       [16 << 10]byte // the lines of at least 140 processors
}

// idleGrain is the unit of the kernel's figures: USER_HZ, which is 100 everywhere.
const idleGrain = 10 * time.Millisecond

// idleSpan is the time over which free is an average: one look of 50 ms alone is wrong by some grains.
const idleSpan = 400 * time.Millisecond

// scarce reports whether others take more than all processors but one, or whether that is unknown. Our own delay does not
// tell: a thread that wakes up takes a busy processor almost at once, and whoever else wakes up there waits.
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

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// read sums the fourth number of "cpuN user nice system idle …" over our processors.
func (i *idleTime) read() (idle time.Duration, known bool) {
	text := i.procFile.read(cmp.Or(i.path, "/proc/stat"), i.buf[:])
	for line := range bytes.Lines(text) {
		cpu, isCPU := bytes.CutPrefix(line, []byte("cpu"))
		if !isCPU {
			break
		}
		fields := bytes.Fields(cpu)
		if len(fields) < 5 || cpu[0] == ' ' || line[len(line)-1] != '\n' { // the sum of all, or cut off
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

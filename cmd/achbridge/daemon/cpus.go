package daemon

import (
	"context"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/service"
)

// cpuLimit decides whether the Go runtime may use more than one CPU. With one CPU the runtime wakes no thread on another CPU for work
// that takes microseconds, which saves a third of the system calls for each frame (docs/performance.md). A daemon that needs more
// than busyShare of a CPU, as for images, may use all.
type cpuLimit struct {
	many bool // all CPUs may be used
	calm int  // number of reviews since the daemon last needed more than busyShare
}

const (
	cpuReview   = time.Second
	busyShare   = 0.35 // share of one CPU
	calmReviews = 10   // number of reviews at or below busyShare after which the daemon is limited to one CPU again
)

// review updates the limit. share is the CPU time since the last review, as a share of one CPU. changed reports whether many changed.
func (l *cpuLimit) review(share float64) (changed bool) {
	before := l.many
	if share > busyShare {
		l.many, l.calm = true, 0
	} else if l.calm++; l.calm >= calmReviews {
		l.many = false
	}
	return l.many != before
}

// LimitCPUs limits the Go runtime to one CPU while this process does not need more. It blocks until ctx ends. It does nothing if the
// environment variable GOMAXPROCS is set.
func LimitCPUs(ctx context.Context) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	runtime.GOMAXPROCS(1)
	var limit cpuLimit
	before, at := cpuTime(), time.Now()
	_ = service.Repeat(ctx, cpuReview, func() {
		spent, now := cpuTime(), time.Now()
		share := (spent - before).Seconds() / now.Sub(at).Seconds()
		before, at = spent, now
		switch {
		case !limit.review(share):
		case limit.many:
			runtime.SetDefaultGOMAXPROCS()
		default:
			runtime.GOMAXPROCS(1)
		}
	})
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

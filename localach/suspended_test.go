package localach

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSuspendedIsBoottimeMinusMonotonic(t *testing.T) {
	var mono, boot, again unix.Timespec
	for range 100 {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &again) != nil {
			t.Skip("this kernel lacks one of the clocks: any Linux since 2.6.39 has them")
		}
		if again.Nano()-mono.Nano() > int64(time.Millisecond) {
			continue // another thread ran in between
		}
		want := time.Duration(boot.Nano() - mono.Nano())
		if got := Suspended(); got > want || got < want-2*time.Millisecond {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Suspended() }); n != 0 {
		t.Errorf("got %v allocations a call, want none", n)
	}
}

func BenchmarkSuspended(b *testing.B) {
	for b.Loop() {
		Suspended()
	}
}

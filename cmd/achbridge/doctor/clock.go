package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

// checkClock checks the monotonic clock, which ages need, the wall clock, which certificates need, and whether mirrors need
// the clocks of their origins.
func checkClock(_ context.Context, p *patient) result {
	r := checkThisClock()
	if p.daemon == nil {
		return r
	}
	for _, m := range p.daemon.Mirrors {
		if text, fix := diagnose.Unshifted(m); text != "" {
			r.Text += "; " + text
			r.worsen(doubt, fix)
		}
	}
	return r
}

func checkThisClock() result {
	if err := steady(50 * time.Millisecond); err != nil {
		return result{State: failing, Text: err.Error(), Fix: "see dmesg for the clock source: ages on this host are wrong"}
	}
	source, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	text := "the monotonic clock is steady"
	if name := strings.TrimSpace(string(source)); name != "" {
		text += " (" + name + ")"
	}
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		return result{State: doubt, Text: text + "; it is unknown whether the wall clock is set: " + err.Error(), Fix: "timedatectl"}
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		return result{State: doubt, Text: text + "; the wall clock is not synchronised: " + time.Now().UTC().Format(time.RFC3339) + " (ages do not need it, certificates do)",
			Fix: "timedatectl set-ntp true, or run chrony"}
	}
	return result{State: fit, Text: fmt.Sprintf("%s; the wall clock is synchronised to %s", text, ui.Millis(float64(t.Maxerror)/1000))}
}

// mostSlew is how much the rate of the monotonic clock may differ from the hardware's. While
// the kernel slews the clock, it differs by 500 ppm.
const mostSlew = 0.002

// steady returns an error when the monotonic clock does not advance as the hardware's does.
func steady(during time.Duration) error {
	begin, hard := readClock(unix.CLOCK_MONOTONIC), readClock(unix.CLOCK_MONOTONIC_RAW)
	for last := begin; last-begin < during; {
		now := readClock(unix.CLOCK_MONOTONIC)
		if now < last {
			return fmt.Errorf("the monotonic clock went back by %s", ui.Millis(ui.Milliseconds(last-now)))
		}
		last = now
	}
	// The two clocks are read one after the other: the time between the reads is not drift.
	took, real := readClock(unix.CLOCK_MONOTONIC)-begin, readClock(unix.CLOCK_MONOTONIC_RAW)-hard
	if off := (took - real).Abs(); off > time.Millisecond+time.Duration(mostSlew*float64(real)) && off < real {
		again, hardAgain := readClock(unix.CLOCK_MONOTONIC), readClock(unix.CLOCK_MONOTONIC_RAW)
		if ((again - begin) - (hardAgain - hard)).Abs() > time.Millisecond+time.Duration(mostSlew*float64(hardAgain-hard)) {
			return fmt.Errorf("the monotonic clock took %s for %s of the hardware's", ui.Millis(ui.Milliseconds(took)), ui.Millis(ui.Milliseconds(real)))
		}
	}
	return nil
}

func readClock(id int32) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(id, &t) // cannot fail: the clock exists, the pointer is good
	return time.Duration(t.Nano())
}

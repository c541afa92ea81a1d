// Package unit prints times for people: a number, a space, the unit.
//
//	unit.Time(150*time.Millisecond) // 150 ms
//	unit.Time(130*time.Second)      // 2 min 10 s
//
// Flags and the configuration take "150ms", as Go writes it.
package unit

import (
	"fmt"
	"strconv"
	"time"
)

// Time prints a time with four figures below a minute, and with two units above.
func Time(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Time(-d)
	case d == 0:
		return "0 s"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	}
	switch d = rounded(d); {
	case d < time.Millisecond:
		return figures(d, time.Microsecond) + " µs"
	case d < time.Second:
		return figures(d, time.Millisecond) + " ms"
	case d < time.Minute:
		return figures(d, time.Second) + " s"
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, day, "d", time.Hour, "h")
}

const day = 24 * time.Hour

// rounded is d to four figures, and to the second from a minute on: its unit is that of what is
// printed. 59.996 s are 1 min.
func rounded(d time.Duration) time.Duration {
	if d >= time.Minute {
		return d.Round(time.Second)
	}
	step := time.Duration(1)
	for d >= 10_000*step {
		step *= 10
	}
	return d.Round(step)
}

func figures(d, unit time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(unit), 'g', 4, 64)
}

// two prints whole units, and the whole small units that remain.
func two(d, unit time.Duration, name string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d %s", d/unit, name)
	if rest := d % unit / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}

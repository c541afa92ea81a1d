package status

import (
	"time"

	"achbridge/bridge/age"
)

// Ms converts a duration to milliseconds, the unit of this package.
func Ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// DueMs is like age.Due, with times in milliseconds.
func DueMs(ageMs, periodMs float64) float64 {
	return Ms(age.Due(ofMs(ageMs), ofMs(periodMs)))
}

func ofMs(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

// Due returns the time between two frames, and how long the next frame has been due, in milliseconds. A result
// is nil if it is not known. age may be nil.
func Due(age *float64, period time.Duration, known bool) (periodMs, due *float64) {
	if !known {
		return nil, nil
	}
	p := Ms(period)
	if age != nil {
		d := DueMs(*age, p)
		due = &d
	}
	return &p, due
}

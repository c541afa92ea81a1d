package status

import (
	"time"

	"achbridge/bridge/age"
)

// Ms is a time in the unit of this package, ms.
func Ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// DueMs is age.Due of times in ms.
func DueMs(ageMs, periodMs float64) float64 {
	return Ms(age.Due(ofMs(ageMs), ofMs(periodMs)))
}

func ofMs(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

// Due are the time between two frames and for how long the next has been due, in ms: nil
// while it is not known. age is nil likewise.
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

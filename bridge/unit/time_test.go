package unit

import (
	"testing"
	"time"
)

func TestTimeFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                          "0 s",
		12 * time.Nanosecond:       "12 ns",
		1500 * time.Nanosecond:     "1.5 µs",
		5 * time.Millisecond:       "5 ms",
		12500 * time.Microsecond:   "12.5 ms",
		100 * time.Millisecond:     "100 ms",
		time.Second:                "1 s",
		16830 * time.Millisecond:   "16.83 s",
		time.Minute:                "1 min",
		130 * time.Second:          "2 min 10 s",
		3*time.Hour + time.Minute:  "3 h 1 min",
		2*day + 5*time.Hour:        "2 d 5 h",
		-1500 * time.Millisecond:   "-1.5 s",
		3599400 * time.Millisecond: "59 min 59 s",
		3599900 * time.Millisecond: "1 h",
		59990 * time.Millisecond:   "59.99 s",
		59996 * time.Millisecond:   "1 min",
		999960 * time.Microsecond:  "1 s",
		999960 * time.Nanosecond:   "1 ms",
		999900 * time.Nanosecond:   "999.9 µs",
		day - time.Millisecond:     "1 d",
		-59996 * time.Millisecond:  "-1 min",
	} {
		if got := Time(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

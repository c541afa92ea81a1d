package api

import (
	"fmt"
	"time"
)

// A window is so long.
const (
	leastWindow = 100 * time.Millisecond
	mostWindow  = 10 * time.Minute
)

func CheckWindow(what string, window time.Duration) error {
	if window < leastWindow || window > mostWindow {
		return fmt.Errorf("%s %v: want %v to %v", what, window, leastWindow, mostWindow)
	}
	return nil
}

// WhyWindow is how long why watches unless it is told otherwise: the hosts tell each
// other once a second what became of the frames.
const WhyWindow = 2 * time.Second

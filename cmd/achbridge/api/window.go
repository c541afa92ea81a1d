package api

import (
	"fmt"
	"time"
)

// Limits of a time window that a user may request.
const (
	leastWindow = 100 * time.Millisecond
	mostWindow  = 10 * time.Minute
)

// CheckWindow returns an error if window is outside its limits. The error begins with the text what.
func CheckWindow(what string, window time.Duration) error {
	if window < leastWindow || window > mostWindow {
		return fmt.Errorf("%s %v: want %v to %v", what, window, leastWindow, mostWindow)
	}
	return nil
}

// WhyWindow is how long achbridge why watches by default. It is two seconds, since hosts report the outcomes of frames
// to each other once a second.
const WhyWindow = 2 * time.Second

package bridge

import (
	"time"

	"achbridge/bridge/fresh"
)

// hostClock turns times of a node into those of the host's CLOCK_MONOTONIC, which stands
// still while the host is suspended.
type hostClock struct {
	start     time.Time            // of the node
	at        time.Duration        // CLOCK_MONOTONIC then
	suspended func() time.Duration // for how long the host has been in all; nil: never
	woke      func()               // has the node look at that now; it does not wait
}

// of is CLOCK_MONOTONIC at a time since the node's start.
func (c hostClock) of(t time.Duration) time.Duration { return c.at + t }

// slept reports whether the host was suspended since what the reading knows of the
// peer's clock was learnt: then no age is to be believed.
func (c hostClock) slept(at reading) bool {
	if c.suspended == nil || !fresh.Slept(at.suspended, c.suspended()) {
		return false
	}
	c.woke()
	return true
}

// reading is our clock when something came, and what it tells of the peer's.
type reading struct {
	now                 time.Duration
	offset, uncertainty time.Duration // the peer's clock minus ours
	known               bool          // whether offset is
	suspended           time.Duration // for how long this host had been in all, when that was learnt
}

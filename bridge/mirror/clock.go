package mirror

import (
	"time"

	"achbridge/bridge/clock"
)

// Clock is the clock of a node, whose times it turns into those of the host's CLOCK_MONOTONIC, which stands
// still while the host is suspended.
type Clock struct {
	Now       func() time.Duration // the node's clock: time since its start
	At        time.Duration        // CLOCK_MONOTONIC at its start
	Suspended func() time.Duration // for how long the host has been in all; nil: never
	Woke      func()               // has the node look at that now; it does not wait
}

// now is the node's clock, and never 0, which stands for never.
func (c Clock) now() time.Duration { return max(1, c.Now()) }

// of is CLOCK_MONOTONIC at a time since the node's start.
func (c Clock) of(t time.Duration) time.Duration { return c.At + t }

// slept reports whether the host was suspended since what the reading knows of the
// peer's clock was learnt: then no age is to be believed.
func (c Clock) slept(at Reading) bool {
	if c.Suspended == nil || !clock.Slept(at.Suspended, c.Suspended()) {
		return false
	}
	c.Woke()
	return true
}

// Reading is our clock when something came, and what it tells of the peer's.
type Reading struct {
	Now                 time.Duration
	Offset, Uncertainty time.Duration // the peer's clock minus ours
	Known               bool          // whether offset is
	Suspended           time.Duration // for how long this host had been in all, when that was learnt
}

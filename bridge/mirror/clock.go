package mirror

import (
	"time"

	"achbridge/bridge/clock"
)

// Clock is a node's clock. It converts the node's times to the host's CLOCK_MONOTONIC, which stops while the
// host is suspended.
type Clock struct {
	Now       func() time.Duration // the node's clock: time since its start
	At        time.Duration        // CLOCK_MONOTONIC at its start
	Suspended func() time.Duration // total time for which the host has been suspended; nil if the host is never suspended
	Woke      func()               // makes the node check the peer's clock after a suspend; it does not block
}

// now returns the node's time, at least 1, since fields use 0 for "never".
func (c Clock) now() time.Duration { return max(1, c.Now()) }

// Of converts a time since the node's start to CLOCK_MONOTONIC.
func (c Clock) Of(t time.Duration) time.Duration { return c.At + t }

// SinceBoot converts a time since the node's start to CLOCK_BOOTTIME, which counts while the host is suspended.
func (c Clock) SinceBoot(t time.Duration) time.Duration {
	if c.Suspended == nil {
		return c.Of(t)
	}
	return c.Of(t) + c.Suspended()
}

// slept reports whether the host was suspended after the reading's estimate of the peer's clock was made. Ages
// computed from that estimate are then wrong.
func (c Clock) slept(at Reading) bool {
	if c.Suspended == nil || !clock.Slept(at.Suspended, c.Suspended()) {
		return false
	}
	c.Woke()
	return true
}

// Reading is the node's time at an event, with the estimate of the peer's clock at that time.
type Reading struct {
	Now                 time.Duration
	Offset, Uncertainty time.Duration // the peer's clock minus ours
	Known               bool          // whether Offset is known
	Suspended           time.Duration // total suspended time of this host when Offset was measured
}

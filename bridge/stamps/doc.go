// Package stamps shifts the time stamps inside frames from the origin's CLOCK_MONOTONIC to this host's, and judges
// whether a frame has expired.
//
//	shifter, err := stamps.Rule("sns").Compile(nil)
//	d, uncertainty, ok := offset.Follow(estimate)        // an Offset per origin
//	b, expiry, err = shifter.Shift(b[:0], frame, stamps.By{Time: d, Expiry: d - uncertainty})
//	if err == nil && expiry.Passed(monotonicNow) { … }
//
// Frames come from other hosts, so Shift treats all bytes as hostile. The package does no I/O and reads no clock.
package stamps

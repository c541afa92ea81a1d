// Package operator decides which host may push into a channel that has the operator lock. At most one host holds the
// lock of a channel, and only its pushes are accepted.
//
//	change, err := t.Take(now, operator.Request{Channel: "goal", By: pc, For: 10 * time.Minute})
//	// revoke the right of change.Before, store t.With(change).Encode(), and only then
//	t = t.With(change)
//
// The daemon of the channel's host decides, without any other host. A lock ends when its holder releases it, when its
// time is over, when another host takes it by force, and when nothing was received from the holder for the time of grace.
// Each change of the holder has its own generation, a number that never repeats while the state can be read.
//
// All times are CLOCK_BOOTTIME, which counts while the host is suspended. The caller passes them. The package does no
// I/O and starts no goroutine. A Table is for one goroutine at a time.
package operator

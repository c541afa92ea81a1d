// Package snapshots holds the policy of a flight recorder: which messages stay in memory, when a trigger begins a snapshot,
// which time a snapshot covers, and which files a disk quota removes. It is pure: the caller passes memory and time.
//
//	ring.go     the newest messages, bounded by age and bytes
//	trigger.go  rising edges, and the time for which a trigger is ignored
//	span.go     the time that snapshots cover, without a frame in two of them
//	quota.go    the oldest files that must be removed
//
// All times are log times of a recording, in ns since 1970 by a clock that does not jump.
package snapshots

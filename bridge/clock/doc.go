// Package clock estimates how far the peer's clock is from ours, and has small helpers that
// count and compare times. It reads no clock: the caller passes the time.
package clock

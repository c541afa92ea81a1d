// Package clock estimates the offset of the peer's clock, and has small helpers that count and compare times. It
// reads no clock: callers pass the time.
package clock

// Package fresh holds the pure parts of the freshness engine: which packets of
// a link are on their way (Flight), what of the peer's packets has arrived
// (Receipts), how far the peer's clock is from ours (Clock), how a frame of
// several packets is sent (Outgoing) and put together again (Assembly), how old what
// a reader has was over time (Ages).
//
// Nothing here knows a socket, a goroutine, a lock or a clock: now is an
// argument, a time.Duration since the node started, and every hard case is a
// plain function call in a test.
package fresh

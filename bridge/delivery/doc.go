// Package delivery tracks packets and the frames inside them. Flight tracks sent packets until
// the peer acknowledges them, and Receipts the received packets that are to be acknowledged.
// Outgoing tracks a frame that is sent in parts, and Reassemblers reassembles received parts.
// The package has no socket, goroutine, lock or clock: now is an argument, the time since the
// node started. Each value belongs to one goroutine, or is guarded by its owner's lock.
package delivery

// Package delivery keeps account of packets and of the frames inside them: Flight of the
// packets that were sent, until the peer reports on them; Receipts of the packets that arrived
// and have to be reported; Outgoing of a frame that is sent in parts, and Assemblies of frames
// whose parts arrive. It has no socket, goroutine, lock or clock: now is an argument, the time
// since the node started. Each type belongs to one goroutine, or to the lock of its owner.
package delivery

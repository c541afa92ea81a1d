// Package send carries the frames of one link: it sends those of this host's channels that the
// peer has subscribed to, and puts those that arrive into their mirrors. Link has the mutex that
// its three goroutines share.
//
//	Link.Send       loop.go: fill makes a datagram as soon as one may leave
//	  fillQueue     queue.go, priority.go: which channel is next
//	  load          load.go: copies the newest frame; every_send.go in mode every
//	Link.Receive    receive.go: take parses a datagram, put hands a frame to its mirror
//	  feedback      receive.go: what the peer reports about our packets
package send

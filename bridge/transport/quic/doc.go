// Package quic makes sessions over QUIC.
//
//	quic.go    Protocol: dial, the welcome on the control stream; accept.go
//	guard.go   handshakes of unknown peers, and how each ended
//	link.go    the carrier: datagrams, addresses, the end
//	stream.go  its streams
//	socket.go  the UDP socket, with fewer and cheaper system calls
package quic

// Package quic makes sessions over QUIC.
//
//	quic.go    Protocol: dialling, and the welcome on the control stream
//	accept.go  accepting connections
//	guard.go   limits for handshakes of unknown peers, and logs of their failures
//	link.go    the Carrier: datagrams, addresses, the end
//	stream.go  the streams of a link
//	socket.go  the UDP socket, with fewer and cheaper system calls
//	marks.go   the DSCP for the packets to each peer
package quic

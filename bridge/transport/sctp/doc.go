// Package sctp makes sessions over SCTP inside DTLS.
//
//	sctp.go       Protocol: dialling, accepting, admission of handshakes
//	packet.go     packets before DTLS: initial packet, cookie; stateless reset
//	handshake.go  DTLS and the hello, in which both ends exchange their INIT; hello.go
//	socket.go     one socket for many associations; path.go, the packets of one association;
//	              address.go, the peer's address; buffer.go, the kernel's buffers
//	link.go       the Carrier; datagram.go, its datagrams; heartbeat.go
//	stream.go     its streams; stream_ends.go, congestion.go
//	backlog.go    limits of a peer's undelivered messages
//	tap.go        inspection of SCTP packets; ack.go, delayed packets
package sctp

// Package sctp makes sessions over SCTP inside DTLS.
//
//	sctp.go       Protocol: dial, accept, who may begin a handshake
//	packet.go     what precedes DTLS: initial packet, cookie; stateless reset
//	handshake.go  DTLS and the hello, in which both ends exchange their INIT; hello.go
//	socket.go     one socket for many associations; path.go, one of them;
//	              address.go, where its peer is; buffer.go, what the kernel holds
//	link.go       the carrier; datagram.go, its datagrams; heartbeat.go
//	stream.go     its streams; stream_ends.go, congestion.go
//	backlog.go    limits of the data that a peer may leave undelivered
//	tap.go        packets of SCTP as they pass; ack.go, packets that are held back
package sctp

// Package session is a Session with a peer, and the seam between an Endpoint and its protocols.
// Package transport makes sessions; a protocol knows this package and no other protocol.
//
//	session.go  Session, and Carrier, what a protocol must offer to be one
//	stream.go   SendStream and ReceiveStream, beside the control stream
//	seam.go     what a protocol needs of its caller: Settings, with Inbox and Handshakes
//	parameters.go   what the protocols have in common: timeouts, sizes, TLS
//	alert.go    what a refused peer is told
//	address.go  network addresses compared, and without their ports
//	queue.go    waiting for arrivals until the session ends
//	pipe.go     sessions without a network, for tests; pipe_stream.go, their streams
package session

// Package session defines a Session with a peer, and the interface between an Endpoint and its
// protocols. Package transport makes sessions. A protocol depends on this package, but on no
// other protocol.
//
//	session.go  Session, and Carrier, the interface that a protocol implements
//	stream.go   SendStream and ReceiveStream, in addition to the control stream
//	seam.go     the interface that a protocol uses: Settings, with Inbox and Handshakes
//	parameters.go   common parameters of the protocols: timeouts, sizes, TLS
//	marking.go  DSCP marks of packets
//	alert.go    the TLS alerts for refused peers
//	address.go  comparison of network addresses, and addresses without ports
//	queue.go    waiting for arrivals until the session ends
//	pipe.go     sessions without a network, for tests; pipe_stream.go, their streams
package session

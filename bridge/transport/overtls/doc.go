// Package overtls makes sessions over byte streams that others bring, such as those through a hub.
//
// A session over a byte stream is TLS 1.3 with the certificates and the ALPN of QUIC. It has
// the control stream alone. Inside TLS are records, which need not agree with those of TLS:
//
//	byte 0     kind
//	byte 1, 2  length of the body, at most 16381; big-endian
//	body       by kind
//
//	kind  name     body
//	1     welcome  -                        the first record of each end, unless it refuses:
//	7     self     -                          both have the same node id
//	6     refused  1 byte, an alert of TLS    42 bad, 44 revoked, 45 ended: the certificate
//	5     close    the reason, UTF-8          also ends a session
//	2     data     bytes of the control stream
//	3     ping     8 bytes of any value
//	4     pong     the bytes of a ping
//
// The dialler says its first record, then the acceptor. Each refusal is the last record, as
// is close. Records of unknown kinds are skipped. The handshake itself refuses no certificate,
// but a dialler that does not accept the acceptor's shows none. Whoever carries the stream
// can cut it; that is no close by the peer, and Err tells the two apart.
//
//	overtls.go  the handshake over a byte stream
//	link.go     the carrier, and its records
package overtls

// Package overtls makes sessions over byte streams that the caller provides, such as those
// through a hub.
//
// A session over a byte stream is TLS 1.3 with the certificates and the ALPN of QUIC. It has
// only the control stream. Inside TLS are records, which need not match the records of TLS:
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
// The dialler sends its first record, then the acceptor does. Each refusal is the last record,
// as is close. Records of unknown kinds are skipped. The TLS handshake itself refuses no
// certificate, but a dialler that refuses the acceptor's certificate presents none. A relay of
// the stream can cut it. Err then returns ErrCut, unlike after a close by the peer.
//
//	overtls.go  the handshake over a byte stream
//	link.go     the carrier, and its records
package overtls

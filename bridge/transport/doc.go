// Package transport connects two nodes of one network by authenticated sessions.
//
//	quic, err := net.ListenPacket("udp", ":8076")
//	endpoint, err := transport.Listen(quic, transport.Config{Key: key, Node: node, Host: "krang"})
//	defer endpoint.Close()
//
//	s, err := endpoint.Accept(ctx)                               // a session that a peer dialled
//	s, err = endpoint.Dial(ctx, transport.Addrs{QUIC: robot})    // or one that this node dials
//	err = s.SendDatagram(frame)                                  // may be lost
//	b, err := s.ReceiveDatagram(ctx)
//	s.Control().Write(message)                                   // reliable, in order, both ways
//	out, err := s.OpenStream()                                   // another reliable stream, one way
//
// An Endpoint owns one UDP socket for each protocol, QUIC and SCTP, and both listens and
// dials on it. It also makes sessions over byte streams that the caller provides, see
// Endpoint.DialOver. A Session is always authenticated in both directions, by package trust.
// Nothing above this package depends on the protocol of a session.
//
// # Guarantees
//
// There is no plaintext mode, no resumption and no early data. So no data of a session can be
// replayed in another. Only members of the network can end an established session.
//
// An attacker on the path can prevent a handshake by forged packets, just as by cutting the
// path. Before there are keys, an alert of DTLS 1.2, or a close in QUIC's first round trip, is
// not authenticated. Dial then fails with the forged reason, and the caller tries again.
//
// Attackers with many addresses cannot keep members out: when there are too many
// handshakes, the oldest of the largest network is dropped, never the newest (see
// handshakes). Its peer gets CONNECTION_REFUSED or a goodbye, and may dial again. On a very
// slow path under a very fast attack, a member's handshake may take longer than 128
// handshakes of attackers. Then the member gets a session only if its address is known.
//
// # QUIC or SCTP
//
// Both keep the same contract. Dial tries QUIC first: it encrypts the certificates (DTLS 1.2
// sends them in plaintext, with host name and node id), its packets are 53 bytes shorter, a
// handshake takes 2 round trips (SCTP: 4), and it needs less CPU time. SCTP is for links that
// lose packets at random: there QUIC's congestion control sends too little.
//
// QUIC, and datagrams of normal size, need a path that carries IP packets of 1280 bytes, as
// every IPv6 path does. On paths that carry less, down to 576 bytes, Dial over QUIC fails with
// an error that mentions this. SCTP detects such a path during the handshake, which then takes
// 400 ms longer, and announces datagrams of 472 bytes. A session keeps its packet size.
//
// # The welcome
//
// TLS 1.3 lets a dialler finish before the acceptor has seen the dialler's certificate.
// So the dialler opens the control stream with one byte, and the acceptor, once its side
// of the handshake is complete, answers with one byte. Only then do Dial and Accept return.
//
// # Files
//
// Package session has the sessions themselves. Packages quic, sctp and overtls make them.
//
//	endpoint.go     Endpoint: accepted and dialled sessions, and the set of live sessions
//	handshakes.go   limits of handshakes, and which one is dropped
//	known_addrs.go  addresses with reserved places for handshakes
//	dial.go         the choice of protocol: QUIC first, SCTP 250 ms later; DialOver, AcceptOver
//	rekey.go        replacing the key or the list of revocations while sessions run
//	refusals.go     rate-limited log lines about refused peers
package transport

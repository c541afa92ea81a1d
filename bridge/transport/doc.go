// Package transport joins two nodes of one network by authenticated sessions.
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
//	out, err := s.OpenStream()                                   // reliable, one way, besides
//
// An Endpoint owns one UDP socket for each protocol, QUIC and SCTP, and both listens and
// dials on it. A Session is always authenticated in both directions, by package trust.
// Nothing above this package depends on which protocol a session runs over.
//
// # What is promised
//
// There is no plaintext mode, no resumption and no early data, so nothing that a session
// delivers can have been replayed from another. Nobody outside the network can end a
// session that is there.
//
// Somebody who is on the path, sees packets and can send others, can prevent a handshake,
// as he could by cutting the path: until there are keys, nothing proves who sent an alert
// of DTLS 1.2, or a close in QUIC's first round trip. Dial then fails with what the
// forgery says, and the caller tries again.
//
// Strangers with many addresses cannot keep members out either: when there are too many
// handshakes, the oldest of the largest network gives way, never the newcomer (see
// handshakes). The peer that has to give way is told, by CONNECTION_REFUSED or a goodbye,
// and may dial again. A member whose handshake takes longer than strangers need for 128 of
// theirs, on a very slow path under a very fast attack, links only if it is an
// acquaintance.
//
// # QUIC or SCTP
//
// Both keep the same contract. Dial tries QUIC first: it hides who speaks (DTLS 1.2 shows
// the certificates, with host name and node id), its packets are 53 bytes shorter, it has
// a session after 2 round trips (SCTP: 4), and it costs less of a processor. SCTP is for
// links that lose packets at random: there QUIC's congestion control gives way.
//
// QUIC, and the usual datagrams, need a path that carries packets of 1280 bytes of IP, as
// every path of IPv6 does. On one that does not, down to 576 bytes, Dial over QUIC fails and
// says what it needs. SCTP notices when it begins, which takes 400 ms, and announces
// datagrams of 472 bytes. A session keeps what it found when it began.
//
// # The welcome
//
// TLS 1.3 lets a dialler finish before the acceptor has seen the dialler's certificate.
// So the dialler opens the control stream with one byte, and the acceptor, once its side
// of the handshake is complete, answers with one byte. Only then do Dial and Accept return.
//
// # Files
//
//	endpoint.go     Endpoint: sessions in, sessions out; the book of live sessions
//	session.go      Session, and carrier, what a protocol must offer to be one
//	stream.go       SendStream and ReceiveStream, beside the control stream
//	quic.go         the QUIC endpoint: dial, the welcome on the control stream; quic_accept.go
//	quic_link.go    the QUIC carrier: datagrams, addresses, the end
//	quic_stream.go  its streams
//	quic_guard.go   handshakes of strangers over QUIC, and what became of them
//	handshakes.go   how many there may be, and who makes room; acquaintances.go, for
//	whom places are kept
//	dial.go         one protocol or the other: QUIC first, SCTP 250 ms later
//	sctp.go         the SCTP endpoint: dial, accept, who may begin a handshake
//	sctp_meeting.go DTLS and the hello, in which both ends exchange their INIT; sctp_hello.go
//	sctp_packet.go  what precedes DTLS: knock, cookie, reset
//	sctp_socket.go  one socket for many associations; sctp_path.go, one of them;
//	sctp_address.go, where its peer is; sctp_buffer.go, what the kernel holds
//	sctp_link.go    the SCTP carrier; sctp_datagram.go, its datagrams; sctp_life.go, heartbeats
//	sctp_stream.go  its streams; sctp_stream_ends.go, sctp_flight.go
//	sctp_backlog.go what a peer may have wait
//	sctp_tap.go     what is read along under SCTP; sctp_ack.go, what is held back
//	queue.go        what has arrived, until the end or after it
//	pipe.go         sessions without a network, for tests; pipe_stream.go, their streams
//	rekey.go        another key, or a list of revocations, while sessions run
//	refusals.go     the log lines about refused peers, at most one a second
//	alert.go        what a refused peer is told
//	kind.go         the kinds of transport
package transport

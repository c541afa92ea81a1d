// Package transport joins two nodes of one network by authenticated sessions.
//
// An Endpoint owns one UDP socket for each protocol, QUIC and SCTP, on which it both
// listens and dials. A Session
// is one association of two nodes: unreliable datagrams for frames, one reliable
// ordered stream for control messages, and further ones, each in one direction, for
// whoever must have every frame. Nothing above this package can tell by which
// protocol a session runs:
//
//	endpoint.go     Endpoint: sessions in, sessions out; the book of live sessions
//	session.go      Session, and carrier, what a protocol must offer to be one
//	stream.go       SendStream and ReceiveStream, beside the control stream
//	quic.go         the QUIC endpoint: dial, accept, the welcome on the control stream
//	quic_link.go    the QUIC carrier: datagrams, addresses, the end
//	quic_stream.go  its streams
//	quic_guard.go   handshakes of strangers, and what became of them; handshakes.go, how many
//	dial.go         one protocol or the other: QUIC first, SCTP 250 ms later
//	sctp.go         the SCTP endpoint: dial, accept, who may begin a handshake
//	sctp_meeting.go DTLS and the hello, in which both ends exchange their INIT
//	sctp_packet.go  what precedes DTLS: knock, cookie, reset
//	sctp_socket.go  one socket for many associations; sctp_path.go, one of them;
//	sctp_place.go, where its peer is; sctp_buffer.go, what the kernel holds
//	sctp_link.go    the SCTP carrier; sctp_datagram.go, its datagrams; sctp_life.go, heartbeats
//	sctp_stream.go  its streams; sctp_stream_ends.go, sctp_flight.go
//	sctp_backlog.go what a peer may have wait
//	sctp_tap.go     what is read along under SCTP; sctp_thin.go, what is held back
//	queue.go        what has arrived, until the end or after it
//	pipe.go         sessions without a network, for tests; pipe_stream.go, their streams
//	trust.go        who is a member, as the key says
//	identity.go     who a certificate says its holder is
//	key.go          the network key, one or two; key_file.go, its file
//	rekey.go        another key, or a list of revocations, while sessions run
//	authority.go    who issues the certificates of hosts; host_key.go, those
//	revocations.go  the numbered list of those that count no more
//	trust_shared.go trust in a key that all share; trust_host.go, in an authority
//	refusals.go     the log lines about refused peers, at most one a second
//	alert.go        what a refused peer is told
//
// # Trust
//
// Every member holds the same network key. It yields, by HKDF-SHA256, an Ed25519
// certificate authority; each node issues its own certificate in memory, naming
// its host and node id. Both sides of a session present one and accept only the
// authority's signature. Validity dates are never looked at: a robot's clock may
// be years off. With one key for all, any member can name itself anything.
//
// Or each host holds a certificate of its own, for one year and one name, from an
// authority whose key is on no robot. By it the node signs, in memory, a certificate
// for 24 hours, which it shows with the host's behind it. Then nobody can take another
// host's name or node id, dates count, by the system's clock, and the authority can
// revoke: by a numbered list, which nodes pass on.
//
// Who is on the path, sees packets and can send others, can keep a handshake from its
// end, as he could by cutting the path: until there are keys nothing proves who sent an
// alert of DTLS 1.2, or a close in QUIC's first round trip. Dial fails then, with what
// the forgery says, and is to be tried again. A session that is there he cannot end.
//
// There is no plaintext mode, no resumption and no early data, so nothing that a
// session delivers can have been replayed from another.
//
// # QUIC or SCTP
//
// Both keep the same contract. QUIC is the first choice: it hides who speaks (DTLS
// 1.2 shows the certificates, with host name and node id), its packets are 53 bytes
// shorter (111 frames of 1000 bytes a second on 1 Mbit/s, over SCTP 105), it has a
// session after 2 round trips (SCTP: 4), and it costs less of a processor. SCTP is for
// links that lose packets at random: of frames of 100 kB at 10 Hz, over 50 Mbit/s
// with 1 % loss and a round trip of 20 ms, QUIC delivers 1.6 a second, SCTP 10; with
// 5 % none and still 10.
//
// The longer packets cost most where a path becomes slower at once. When one of 20 ms
// falls from 10 to 1 Mbit/s, 26 or 27 packets with a frame of 1000 bytes are under way
// before the first word of it is back, and stand in line for 8.98 ms each over SCTP, 8.55
// over QUIC: the oldest frame is 244 or 253 ms old then, over QUIC 233 or 243.
//
// A path must carry packets of 1280 bytes of IP, as every one of IPv6 does, for QUIC
// and for the usual datagrams; both protocols send none longer. Where it does not, down
// to 576 bytes, QUIC cannot work, and Dial says what it needs; SCTP notices when it
// begins, at the price of 400 ms, and announces datagrams of 472 bytes. What a session
// found when it began it keeps: when the path carries less later, package bridge has
// another made.
//
// # The welcome
//
// TLS 1.3 lets a dialler finish before the acceptor has seen the dialler's
// certificate. So the dialler opens the control stream with one byte, and the
// acceptor, once its side of the handshake is complete, answers with one byte.
// Only after that do Dial and Accept return: a Session is always authenticated
// in both directions.
package transport

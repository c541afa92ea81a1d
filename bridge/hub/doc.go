// Package hub connects this host to others through a hub: a nats-server for hosts which cannot
// reach each other directly. The hub's operator is treated as an adversary. The package carries
// only opaque bytes, sealed by its callers.
//
//	client, err := hub.New(hub.Config{Credentials: credentials, Log: log})
//	go client.Run(ctx)                            // connects, for as long as ctx lasts
//	go client.Hosts(ctx, func(hosts []string) { … })
//
//	stream, err := client.Dial(ctx, "robot")      // a net.Conn; the other end calls Accept
//
//	out := client.Channel("robot", "imu")         // on host robot
//	err = out.Room(ctx, size)                     // copy the newest frame now
//	acked, err := out.Put(ctx, sealed)
//
//	in := client.Channel("robot", "imu")          // on others
//	sealed, err = in.Next(ctx)
//
// # Names
//
// HOST, FROM, TO and CHANNEL are tokens: ASCII letters, digits, - and _ are unchanged,
// each other byte of a name is =XX, two upper-case hexadecimal digits.
//
//	ach.HOST.here              presence: HOST is connected
//	ach.FROM.to.TO.SESSION     a message of a byte stream between two hosts
//	ach.HOST.f.CHANNEL         the newest frame of a channel, sealed
//	ach.HOST.make              request: make the stream of the channel that the body names
//	ach.HOST.read              request: make HOST's consumer on the stream that the body names
//	_INBOX.HOST.>              answers to HOST
//
// The stream HOST,CHANNEL keeps the newest message of ach.HOST.f.CHANNEL, in memory. If a name
// would exceed the server's limit, CHANNEL is =H and 32 hexadecimal digits of the SHA-256 of the
// channel's name. A reader fetches with one consumer, which is named after its host.
//
// The answer to ach.HOST.make and ach.HOST.read is empty, or the reason why nothing was made. A nats-server that is not one of our
// hubs has no responder; then the host makes its streams and consumers itself.
//
// # What a host may do
//
// The hub lets HOST publish below ach.HOST and fetch with consumers of its own name. It may subscribe to the presence of all hosts,
// to messages for it, and to its own inbox. The reply subjects of its messages are in that inbox, and it sends no headers:
// a nats-server publishes to a reply subject without checking permissions. A host cannot make, change, delete or purge anything,
// and can read frames only by fetches. On a nats-server that is not one of our hubs it can do more: see docs/fleet.md.
//
// # Presence
//
// A host publishes its presence when it has connected, every 10 s, and when it leaves. It also does so, at most once a
// second, when it learns of an unknown host or incarnation. A host without presence messages for 25 s is gone. u64 is
// big-endian.
//
//	here      version        u8   1; receivers accept later ones, and ignore fields after life
//	          flags          u8   bit 0: gone
//	          life           8 bytes, random, incarnation of the program; a goodbye counts
//	                              only from the newest known incarnation
//
// # Byte streams
//
// Both ends number their messages from 0. A message with another number than the next one, of an
// unknown kind, of a wrong length or beyond the credit ends the stream at both ends; so does the end of a
// connection to the hub. To authenticate the other end, callers run TLS over the stream.
//
//	message   number         u64  0, 1, 2 …, in each direction
//	          kind           u8
//	          body
//
//	1 open    -                   number 0 of the end that dials. SESSION is new and random. Its
//	                              reply subject gets the status if no such host is connected.
//	2 data    1 … 4096 bytes      of the stream
//	3 credit  total          u64  total bytes that may be sent; never less than before, and at
//	                              most 16384 more than were sent. Number 0 of the end that accepts,
//	                              which may send 16384 bytes before it receives a credit.
//	4 close   reason              at most 256 bytes of printable UTF-8; nothing follows. It is
//	                              also the answer to data and credit of an unknown stream.
//
// # Frames
//
// A put is a JetStream publish with an acknowledgement; at most two of a channel are unacknowledged. A missing
// stream has no subscribers: the server answers with status 503, and the host has the stream made again.
//
// A reader has a consumer made (acknowledgements none, in memory, at most 8 fetches, gone after 2 s without one) which
// begins with the stored frame. It fetches one message at a time with $JS.API.CONSUMER.MSG.NEXT:
// {"batch":1,"expires":10000000000}. The hub refuses any other body. Up to three fetches are in flight, fewer if frames would wait on
// a thin path. Status 408 means that a fetch has expired; any other that the consumer is gone. In a connection's first request for a
// consumer " first" follows the stream's name. The hub then removes the consumer of a former connection before it makes the new one,
// since frames may have gone to the former connection, or may still go there.
//
// # Connections
//
// A host has two: one for frames of more than 4096 bytes, and one for everything else, so that a small frame does not
// wait behind a large one. Both share a limit of unacknowledged bytes: those that the path carries in its shortest round
// trip. Further frames wait where a newer frame can still replace them. If a connection is silent for 0.5 s, or four
// round trips, the host also dials others. The first connection that answers stays, be it the old one or a new one. Unsent
// data of the other is lost. The client library neither reconnects nor buffers. It gets no data from a server that
// announces an oversized message.
//
//	client.go, keep.go       Client, Run: keeps a pair of connections
//	conn_pair.go, hub_conn.go   two connections, requests, pings
//	dial.go, guard.go        TCP, TLS, authentication; checks of server data
//	socket.go, flow.go, window.go, receive_window.go   limits of unacknowledged bytes
//	presence.go              connected hosts
//	sessions.go, session.go, message.go   byte streams
//	channel.go, put.go, make.go, fetch.go, consumer.go, credit.go   frames
//	names.go, stream.go, credentials.go   names, settings and files
package hub

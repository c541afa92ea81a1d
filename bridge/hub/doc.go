// Package hub is this host's way through a hub: a nats-server that connects hosts which cannot
// reach each other directly. Its operator is taken for an adversary. All that the package
// moves is opaque bytes, sealed by others.
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
// HOST, FROM, TO and CHANNEL are tokens: ASCII letters, digits, - and _ stand for themselves,
// each other byte of a name is =XX, two upper-case hexadecimal digits.
//
//	ach.HOST.here              presence: HOST is connected
//	ach.FROM.to.TO.SESSION     a message of a byte stream between two hosts
//	ach.HOST.f.CHANNEL         the newest frame of a channel, sealed
//	ach.HOST.make              request: make the stream of the channel that the body names
//	ach.HOST.read              request: make HOST's consumer on the stream that the body names
//	_INBOX.HOST.>              answers to HOST
//
// The stream HOST,CHANNEL keeps the one message of ach.HOST.f.CHANNEL, in memory. Where a
// name would be longer than a server takes, CHANNEL is =H and 32 hexadecimal digits of the
// SHA-256 of the channel's name. A reader pulls with one consumer, which is named after its host.
//
// The answer to ach.HOST.make and ach.HOST.read is empty, or the reason why nothing was made. On a nats-server that is no hub of
// ours nobody answers, and the host makes its streams and consumers itself.
//
// # What a host may do
//
// The hub lets HOST publish below ach.HOST and pull with consumers of its own name. It may subscribe to the presence of all hosts,
// to messages for it, and to its own inbox. The reply subject of all that it publishes is in that inbox, and it sends no headers:
// a nats-server publishes to a reply subject without checking permissions. A host cannot make, change, delete or purge anything,
// and can read frames only by pulls. On a nats-server that is no hub of ours it can do more: see docs/fleet.md.
//
// # Presence
//
// A host publishes its presence when it has connected, every 10 s, at most once a second when it hears of
// a host or a life that it did not know, and when it leaves. Who was not heard for 25 s is gone. u64 is big-endian.
//
//	here      version        u8   1; receivers take later ones, and skip what follows life
//	          flags          u8   bit 0: gone
//	          life           8 bytes, random, of one run of the program; a goodbye counts
//	                              only from the life that was heard last
//
// # Byte streams
//
// Both ends number their messages from 0. A message with another number than the next one, of an
// unknown kind, of a wrong length or beyond the credit ends the stream at both ends; so does the end of a
// connection to the hub. Whoever needs to know who is at the other end runs TLS over the stream.
//
//	message   number         u64  0, 1, 2 …, in each direction
//	          kind           u8
//	          body
//
//	1 open    -                   number 0 of who dials. SESSION is new and random. Its reply
//	                              subject tells when nobody of that name is connected.
//	2 data    1 … 4096 bytes      of the stream
//	3 credit  total          u64  bytes that may be sent in all; never less than before, and at
//	                              most 16384 more than were sent. Number 0 of who accepts. Who
//	                              accepts may send 16384 before the first one.
//	4 close   reason              at most 256 bytes of printable UTF-8; nothing follows. It is
//	                              also the answer to data and credit of a stream that is not known.
//
// # Frames
//
// A put is a JetStream publish, whose answer is awaited; at most two of a channel are not answered. A
// stream that is gone has no subscribers: the server says so (status 503), and the host has it made again.
//
// A reader has a consumer made (acknowledgements none, in memory, at most 8 pulls, gone after 2 s without one) which
// begins with the frame that is there, and asks with $JS.API.CONSUMER.MSG.NEXT for one message at a time:
// {"batch":1,"expires":10000000000}. The hub refuses any other body. Up to three pulls are under way, fewer where frames would wait in
// a thin path. Status 408 means that a pull has expired; any other that the consumer is gone. In a connection's first request for a
// consumer " first" follows the stream's name. The hub then removes the consumer of a former connection before it makes the new one,
// since frames may have gone to the former connection, or may still go there.
//
// # Connections
//
// A host has two: frames of more than 4096 bytes take the one, all else the other, so that a small frame does
// not wait behind a large one. Both share a limit of unacknowledged bytes, what the path carries in its shortest round
// trip, and what is beyond it stays where a newer frame can still replace it. A connection that is silent for
// 0.5 s, or four round trips, is not trusted: others are dialled beside it, and whichever answers first stays.
// What the other one had not sent is lost. The client library neither reconnects nor keeps
// anything, and sees nothing of a server that announces more than one message may have.
//
//	client.go, keep.go       Client, Run: one line after the other
//	line.go, half.go         two connections, requests, signs of life
//	dial.go, guard.go        TCP, TLS, signing in; what a server may send
//	socket.go, flow.go, window.go   bytes that are not acknowledged
//	presence.go              who is there
//	sessions.go, session.go, message.go   byte streams
//	channel.go, put.go, make.go, pull.go, consumer.go, credit.go   frames
//	names.go, stream.go, credentials.go   names, settings and files
package hub

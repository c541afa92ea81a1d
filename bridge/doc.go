// Package bridge is the node of a host: it offers the host's Ach channels to
// other nodes and keeps mirrors of theirs.
//
// # One frame, robot to PC
//
//	localach.Watcher       sees that last_seq of "imu" has moved          export.go  watch
//	link.pump              the link can take a packet; whose turn is it?   pump.go    fill
//	link.load              copies the NEWEST frame out of the ring now     load.go
//	wire.AppendFrame       into a datagram, beside other small frames      pump.go    addWhole
//	transport.Session      QUIC datagram, over the network                 transport/
//	link.receive           parses, finds the subscription                  receive.go take
//	mirror.put             newer? not too late? then into the mirror       arrival.go
//
// There is no queue on that way. What waits is a set of channels that have
// something newer; the frames stay in the ring, where newer ones replace them.
// This is the idea of Ach itself, "the newest message first" (Dantam and
// Stilman, "Robust and Efficient Communication for Real-Time Multi-Process
// Robot Software", 2012), carried over the edge of the host: Player 2 has
// already warned that pushing into a transport's buffer defeats replacement,
// since what is in the buffer can no longer be replaced.
//
// # What may leave, and when
//
// A link keeps in flight only what the path carries without a queue. The peer
// reports which packets arrived and when, by its own clock; from that
// fresh.Pacer learns how long packets stand in the bottleneck's queue (their way
// against the least of the last seconds) and how fast the bottleneck delivers
// while there is one. It sends just below that rate, tries a little more now and
// then, and falls below it as soon as a queue stands for a round. What stands as long
// as before though less left is no queue: the way has become longer. Isolated loss
// is no signal; a burst of it halves the rate. What is in flight is bounded by
// what the path has lately shown to carry, so that not much more is under way
// when it suddenly slows down. A path that went silent is only probed, and with
// next to nothing once half of the transport's window has left unanswered: the
// transport gives up nothing as long as it hears nothing, and with a full window
// only its own timer would find the path again, as late as half the cut was long.
//
// # When nothing is heard
//
// A link is silent when frames that we keep sending are not answered, or nothing at
// all comes, for max(300 ms, 4 RTT) longer than it should. Its session lives on
// for 10 s, because the probes on it are the quickest way to know that the path is
// back: a mirror is fresh again within a tenth of a second. Meanwhile the peer is
// dialled as if there were no link, and a link to the same host under another node
// id gets the mirrors. Which of two sessions stays is for the end that dialled the
// new one to say (spare.go).
//
// # QUIC or SCTP
//
// Where a peer may be linked over both, its link begins over the one that has a
// session first, and QUIC has a head start of 250 ms (transport.Endpoint.Dial): so
// it is QUIC, unless QUIC is filtered or is late. The link keeps its transport as
// long as it lives, and is not moved because the other one is there now, or might do
// better: what a move costs is sure, and whether the loss on a path comes of
// congestion, for which QUIC is right, or not, a link cannot tell. It is chosen
// anew when the link falls silent: a port that is filtered while a link runs moves
// it to the other transport, 1.2 to 1.5 s later. And when its path comes to carry
// small packets only, which is noticed by what is lost (fresh.Width): some 2 s later it
// runs over SCTP, with packets that pass (narrow.go). Peer.Over is the operator's
// choice for one peer; it holds whichever end dials (choice.go).
//
// # Whose turn it is
//
// Priority first, 7 before 0; but what waits behind others is still sure of 5 % of
// the bytes for each priority. Of equal priority goes the subscription with the
// greatest a²/s, where a is the age that its next packet takes off the mirror and s
// the size of its frame. If every channel i is sent once in a_i at a size of s_i,
// the link carries the sum of s_i/a_i, and the sum of the ages is least when every
// a_i²/s_i is the same.
//
// A frame that fits travels whole, in one datagram with those of other channels;
// several of one channel may be under way, since waiting for each would cost a
// round trip of age. A larger one goes in parts, one frame of a subscription at a
// time, and others pass between its parts. It is finished before a newer one
// begins, so that ever newer frames cannot starve a large channel: replacing what
// is already being sent is worse when send times are constant (peers with the
// opposite rule deliver nothing at all once a frame takes longer than a period).
// It is copied once, and packed once, for all links that send it (snapshot.go).
//
// max_rate opens a slot every 1/rate; what the ring holds then is sent, and what
// came before it is counted as rate_limited.
//
// # The budget and the debt
//
// A frame's age is known from its capture time (when the watcher saw it first) and
// from the peer's clock, whose offset fresh.Clock takes from the two-way stamps in
// feedback: theta = ((t1-t0)+(t2-t3))/2, of the sample with the least round trip
// (RFC 5905). No wall clock is asked. A command that is seen first after the daemon
// was stopped may have been put right after the look before, and counts from then.
// Within its budget a lost part, or a lost frame that nothing newer has replaced, is
// sent again. Past it, the frame is given up as soon as something newer is in the
// ring (expired), and what arrives all the same is not put (late). But the newest frame of the ring is owed to its mirrors: after
// every subscription, and as long as nothing newer has replaced it, it goes on past
// its budget, behind everything else, and counts as late_kept. A mirror that had to
// turn down a late frame, and gets nothing newer, asks for it (wire.Update). A state
// is late when age - uncertainty > budget; a command when age + uncertainty >
// budget, and it is never owed: an old command must not be replayed.
//
// DDS calls the end of a frame's use LIFESPAN; the debt is what it does not have.
// Its DEADLINE, the longest time between two frames, is our deadline (below); its
// LATENCY_BUDGET only allows a middleware to wait and batch: ours never waits.
//
// Mode every is for logs and events: all frames, in order, over a reliable stream
// of the subscription's own (tape.go, playback.go). The pump grants the stream one
// piece at a time, with a mark in a datagram, so that the pacer hears of it and
// nothing newer stands behind it. What the ring loses meanwhile is counted as
// overflow.
//
// # Commands
//
// A deadline is the longest time without a frame after which a mirror is stale: in
// status, with the time since, and among the events. One that goes to and fro is told
// stale until it has been fresh for a second, or longer if it does so often (stale.go). It
// belongs to the host that has the mirror, as a wish for it or the rule that accepts a
// push says; the origin does not learn it. Only frames that were put count: a writer
// whose commands all come late is lost.
//
// A command channel (class command) drives something. Its frames are never put when
// they may be past the budget, and never owed, so that none of before an outage comes
// after it. When its writer is lost, no frame came within the deadline, on_stale puts a
// safe frame, read when the rule was, into the mirror: once, and not again before a
// command was put. It comes at the deadline, however the writer was lost: its program
// or host stopped, the path is cut, a rule took the push back. A node that ends in good
// order puts it before it ends. Nothing else does: when the daemon of the robot dies,
// or its machine hangs, nothing is written. The robot's own watchdog, which looks at
// the age of what it reads, stays mandatory. Through a relay each hop has a budget of
// its own.
//
// One host at a time writes a mirror, whatever its class: a second that pushes into it
// is refused, by the name of the first, until the subscription of the first has ended
// and its safe frame was put (command.go). The link of a writer that vanished lives on
// for 10 s; a command channel is free already when that link is silent and the deadline
// is over. A writer whose host is heard keeps its channel though its program rests.
// Nobody is put in by himself: who was refused has to ask again (achbridge push), or
// to link again, since nobody expects a robot to obey another from one moment to the
// next. The former writer is told who took its place.
//
// # The ledger
//
// Of every channel and direction
//
//	offered = delivered + late_kept + superseded + rate_limited + expired +
//	          lost + late + refused + overflow + in_flight
//
// The origin knows what it did not send and why, and from feedback what arrived; the
// mirror knows what became of that. They tell each other once a second
// (exchange.go), and show the same when traffic rests. What a mirror had not told
// when its link ended it tells when it subscribes again (book.settle).
//
// # How fresh it can be
//
// The least mean age of a source with period T over a way of delay P, on which a
// frame takes S, is P + S + T/2 if S <= T, else P + T/2 + 1.5 S (Kaul, Yates and
// Gruteser, "Real-time status: how often should one update?", 2012, for periodic
// sources and constant S). TestFreshness holds the node to a few percent of it,
// in virtual time, with real QUIC over emulated links.
//
// # Who owns what
//
// Node.Run is one goroutine, and all tables are its own: local channels, peers,
// links, wishes, mirrors. Others hand it functions (post, call); it never waits
// for the network. A link has five goroutines: hear and tell serve the control
// stream, receive and pump the datagrams, playback the streams of mode every; what
// receive and pump share is under the link's mu. A mirror's file is under the
// mirror's mu.
//
//	node.go     Node, its loop, wishes          wishes.go   wishes -> mirrors and subscriptions
//	local.go    this host's channels, catalog   mirror.go   a mirror; mirrorfile.go its file
//	peer.go     who is dialled                  push.go     offers, accept
//	backoff.go  how often, for how long         control.go  what control messages do
//	link.go     a link's life                   stream.go   its control stream
//	silence.go  links that are not heard        spare.go    which of two links stays
//	choice.go   QUIC or SCTP, by peer           hostname.go what a peer is called here
//	narrow.go   a path that carries less now
//	pump.go     what goes out                   receive.go  what comes in
//	turn.go     whose turn it is                arrival.go  newer, in time: put
//	export.go   a peer's subscription           load.go     from the ring into packets
//	tape.go     mode every, out                 playback.go mode every, in
//	compress.go unpack.go                       snapshot.go one copy for all links
//	ledger.go   the origin's account            exchange.go what both sides tell
//	qos.go      quality of service; options.go  config.go   Config, how wishes are written
//	grant.go    rules: who may use what         permit.go   rules for what runs; Apply
//	asked.go    wishes while it runs            pushrules.go rules -> pushes; qostable.go
//	report.go   status; status.go its JSON      heal.go     mirrors in trouble: locks, new files
//	cause.go    why, in a word; ask.go          traffic.go  what links carry and lose
//	stale.go    deadlines; onstale.go           command.go  one writer at a time
//	companion.go  NAME.meta                     meta.go     its frames
//	space.go    what peers may make us take     limits.go   the table of all limits
//	events.go   what happened: log, followers   peek.go     mirrors for who looks for a while
//	fresh/      the pure parts
//
// # Rules that hold whatever happens
//
//   - A channel of the robot is only read, and without its lock on x86-64; its
//     condition variable is never touched (package localach).
//   - A mirror never goes back: only frames newer than the last put of the
//     origin's epoch are put. The mirror's file remembers which that was, so
//     this holds across restarts of either daemon.
//   - An epoch is one life of a channel. Frames are sent only for the epoch the
//     subscriber asked for, so nothing of a new life can be taken for the old.
//   - A file that is not a mirror of ours is never written unless Adopt names
//     it. A mirror is never exported unless Relay names it, and a channel whose
//     frames come from the asking node is a loop, refused by its origin's id.
//   - A mirror whose lock a local process sits on, or whose waiters cannot be
//     woken (a reader was killed while it waited), holds up nobody else; the
//     latter gets a new file after a second.
//   - Everything a peer sends is parsed by package wire before it is believed.
package bridge

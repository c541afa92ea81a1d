// Package bridge is the node of a host: it offers the host's Ach channels to
// other nodes and keeps mirrors of theirs.
//
//	node, err := bridge.New(bridge.Config{
//		Host: "pc", Node: id, Dir: dir, Source: bridge.ShmSource(dir, watcher), Endpoint: endpoint,
//		Mirrors: rule.Mirrors{{Host: "krang", Channel: "imu"}},
//	})
//	if err != nil {
//		return err
//	}
//	node.SetPeers([]bridge.Peer{{Host: "krang", Addrs: addrs, Static: true}})
//	return node.Run(ctx) // until ctx ends; node.Status() tells what it does meanwhile
//
// How frames, budgets and links work, and why, is told in docs/how-it-works.md; which
// goroutine owns what, and the order of locks, in ARCHITECTURE.md and in package lock.
//
// # One frame, robot to PC
//
//	localach.Watcher       sees that last_seq of "imu" has moved          subscription.go  watch
//	link.pump              the link can take a packet; whose turn is it?   pump.go    fill
//	link.load              copies the NEWEST frame out of the ring now     load.go
//	wire.AppendFrame       into a datagram, beside other small frames      pump.go    addWhole
//	transport.Session      QUIC datagram, over the network                 transport/
//	link.receive           parses, finds the subscription                  receive.go take
//	mirror.Mirror.Put      newer? not too late? then into the mirror       mirror/put.go
//
// # Who owns what
//
// Node.Run is one goroutine, and all tables are its own: local channels, peers,
// links, wishes, mirrors. Others hand it functions (post, call); it never waits
// for the network. A link has five goroutines: hear and tell serve the control
// stream, receive and pump the datagrams, playback the streams of mode every; what
// receive and pump share is under the link's mu. A mirror is a
// package of its own, with its own mutex; a binding holds it, with what feeds it.
//
//	node.go             Node and its loop           config.go         Config
//	wishes.go           what is wished for          binding.go        wishes -> mirrors and subscriptions
//	local.go            a channel of this host      locals.go         all of them
//	peer.go             who is dialled              dial.go           why, and how often
//	claim.go            those only announced        proved.go         what nodes have proved
//	link.go             a link's life               second_link.go    which of two links stays
//	stream.go           its control stream          control.go        what control messages do
//	link_silence.go     links that are not heard, or carry less
//	transport_choice.go QUIC or SCTP, by peer       hostname.go       what a peer is called here
//	pump.go             what goes out               receive.go        what comes in
//	priority.go         whose turn it is            queue.go          who has something to send
//	subscription.go     a peer's subscription       load.go           from the ring into packets
//	every_send.go       mode every, out             compress.go       unpack.go
//	snapshot.go         one copy for all links      packed.go         packed once for all
//	large.go            large frames                memory.go         what copies may take
//	catalog.go          what is told of channels    query.go          why a channel is not offered
//	exchange.go         accounts and facts that both ends tell each other
//	permit.go           rules for what runs; Apply  push.go           offers, accept, rules -> pushes
//	report.go           what the node tells         limits.go         the table of all limits
//	peek.go             mirrors for a while         clocks.go         clocks that were set, a host that slept
//
//	mirror/  one mirror                             lock/    the order of locks
//	rule/    rules and quality of service           ledger/  what became of frames
//	status/  reports, states, causes, events        via/     the kinds of transport
//	fresh/   ages, pacing, clocks: pure             transport/, trust/, logline/
//
// # Rules that hold whatever happens
//
//   - A mirror has frame numbers of its own, without a hole: what is left out is told
//     beside it (meta.go, the ledger), not by the ring.
//   - A channel of the robot is only read, and without its lock on x86-64; its
//     condition variable is never touched (package localach).
//   - A mirror never goes back: only frames newer than the last put of the
//     origin's epoch are put. The mirror's file remembers which that was, so
//     this holds across restarts of either daemon. For a channel that Adopt names,
//     a record beside the channels remembers it (mirror/putrecord.go). Both are written
//     before each put: a daemon that is killed puts nothing twice, and loses at
//     most the frame under way.
//   - A frame may be as large as the whole data area of a channel, as in libach:
//     the nominal frame size is no limit. A mirror is made for the largest frame
//     that its origin has seen (wire.Channel.Largest), and replaced only when one
//     comes that does not fit at all. One whose frames cannot be put says refused.
//   - An epoch is one life of a channel. Frames are sent only for the epoch the
//     subscriber asked for, so nothing of a new life can be taken for the old.
//   - A file that is not a mirror of ours is never written unless Adopt names
//     it. A mirror is never exported unless Relay names it, and a channel whose
//     frames come from the asking node is a loop, refused by its origin's id.
//   - A mirror into which somebody else writes too, another daemon say, is told
//     contested by both, for as long as it lasts.
//   - A mirror whose lock a local process sits on, or whose waiters cannot be
//     woken (a reader was killed while it waited), holds up nobody else; the
//     latter gets a new file after a second.
//   - Everything a peer sends is parsed by package wire before it is believed.
package bridge

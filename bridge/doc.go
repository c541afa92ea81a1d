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
//	return node.Run(ctx) // until ctx ends; meanwhile node.Status() describes the node
//
// docs/how-it-works.md explains frames, budgets and links. ARCHITECTURE.md and package lock
// describe which goroutine owns which data, and the order of locks.
//
// # One frame, robot to PC
//
//	localach.Watcher       sees that last_seq of "imu" has moved          ring/arrivals.go
//	send.Link.Send         the link can take a packet: selects a channel   send/loop.go  fill
//	send.Link.load         copies the NEWEST frame out of the ring now     send/load.go
//	wire.AppendFrame       into a datagram, with other small frames        send/loop.go  addWhole
//	session.Session        QUIC datagram, over the network                 transport/
//	send.Link.Receive      parses, finds the subscription                  send/receive.go  take
//	mirror.Mirror.Put      newer? a command: in time? then put             mirror/put.go
//
// # Ownership
//
// Node.Run is one goroutine, which owns all tables: local channels, peers, links,
// requests, mirrors. Other goroutines hand it functions (post, call). It never waits
// for the network. A link has five goroutines: two for the control stream
// (stream.go), and three of send.Link for the frames. Package mirror has the mirrors,
// each with its own mutex. A binding has a mirror and the link that feeds it.
//
//	node.go             Node and its periodic work  loop.go           its goroutine
//	config.go           Config                      limits.go         the table of all limits
//	requested_mirrors.go  mirrors that users request; those of hosts that have only achd
//	mirror_requests.go  all requests, and their precedence
//	mirrors.go          all mirrors                 binding.go        one mirror, and the link that feeds it
//	operators.go        operator locks of this host's channels, and requests for those of peers
//	dial.go             dials that package peers returns, and trials of other routes
//	link.go             beginning and end of links  export.go         channels of this host, and peers' subscriptions to them
//	stream.go           the control stream          control.go        handlers of control messages
//	link_silence.go     links that are silent or carry only small packets; which of two links stays
//	link_mark.go        the DSCP of the packets of a link
//	machine.go          machines that share an identity
//	hub_link.go         links through the hub, for package hubway
//	muxes.go            outputs of muxes, for package mux
//	merges.go           outputs of merges
//	catalog.go          channels that peers offer, and are offered
//	query.go            reasons why a channel is not offered; pings
//	layouts.go          the layouts of frames: other hosts' and ours
//	exchange.go         counters and facts that both ends send each other
//	permit.go           rules for peers; Apply      accept.go         pushes of peers
//	push.go             a push and its phases       pushes.go         the table of pushes
//	report.go           the status                  loadtest.go       throughput tests of links
//	clocks.go           clock steps, suspends, and the clocks of stamps in frames
//
//	mirror/  one mirror                             lock/    the order of locks
//	achd/    achd's protocol, both ends
//	rule/    rules and quality of service           ledger/  counters of the outcomes of frames
//	status/  reports, states, causes, events        via/     the kinds of transport
//	send/    frames over a link                     hubway/  frames through a hub
//	achdway/ frames from and to hosts without achbridge
//	mux/     several channels of this host merged into one
//	ring/    copies of local channels
//	layouts/ layouts of frames                      peers/   decides which hosts to dial: pure
//	locals/  channels of this host
//	pacing/, delivery/, age/, clock/: pure          transport/, trust/, logline/
//
// # Invariants
//
//   - A mirror numbers its frames without gaps. The counters and the metadata channel NAME.meta
//     show which frames of the origin are missing.
//   - A channel of the robot is only read, on x86-64 without its lock. Its condition
//     variable is never touched (package localach).
//   - A mirror never goes back: a frame is put only if it is newer than the last one
//     of the same epoch. The mirror's file stores the number of that frame, so this
//     holds across restarts of either daemon. For a channel that Adopt names, a record
//     file in the channel directory stores it (mirror/putrecord.go). Both are written before each
//     put, so a killed daemon puts no frame twice and loses at most one. Frames of hosts without
//     achbridge have no numbers and are put in the order of arrival.
//   - A frame may be as large as the whole data area of a channel, as in libach:
//     the nominal frame size is no limit. A mirror is made for the largest frame
//     that its origin has seen (wire.Channel.Largest). It is replaced only when a frame
//     does not fit at all. A mirror whose frames cannot be put has state refused.
//   - An epoch identifies one instance of a channel. Frames are sent only for the epoch that the
//     subscriber requested, so frames of a new instance cannot be mistaken for old ones.
//   - A file that is not our mirror is never written unless Adopt names it. A mirror is
//     never exported unless Relay names it. A channel whose frames come from the asking
//     node is a loop; the node recognizes its own id as the origin and refuses it.
//   - While another program, for example a second daemon, writes into a mirror too, its
//     state is contested.
//   - A mirror whose lock a local process holds does not delay other mirrors. Neither does
//     a mirror whose readers cannot be woken, since one was killed while it waited; such a
//     mirror gets a new file after a second.
//   - Everything a peer sends is parsed by package wire before it is believed.
package bridge

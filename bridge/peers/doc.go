// Package peers decides who is dialled, when, at which addresses and by which transport. It is pure: the node hands it the
// time, a View of its links and wishes, and what happens to links, and begins the dials that it returns.
//
//	table := peers.New(peers.Config{Node: id, Listen: endpoint.LocalAddrs(), Cause: causeOf})
//	table.Set(list, view)                                        // whom the operator lists and discovery finds
//	dials := table.Next(now, view)                               // begin these
//	outcome := table.Dialled(now, dial, end, err, view)          // what to do with the session
//
// A peer is listed by the operator, announced by some host, at a hub, or a node that has proved itself on a link. Of one
// node the table may know all of these. Only what is proved is trusted: an announcement may be forged.
//
//	table.go       Table: dials begun and ended, links up and down
//	view.go        what the table has to know of its node
//	peer.go        Peer, and an entry of the table
//	wanted.go      why a peer is dialled, and where       transports.go  by QUIC or SCTP
//	claims.go      peers that are only announced: their budget
//	proved.go      what nodes have proved                 hub.go         hosts at a hub
//	backoff.go     how long to wait                       trial.go       another way to a linked peer is tried
//	names.go       names of two hosts that call themselves the same
//	report.go      the status of all peers
package peers

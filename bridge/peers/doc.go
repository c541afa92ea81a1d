// Package peers decides who is dialled, when, at which addresses and by which transport. It is pure: the node reports
// the time, a View of its links and rules, and changes of links. It begins the dials that the table returns.
//
//	table := peers.New(peers.Config{Node: id, Listen: endpoint.LocalAddrs(), Cause: causeOf})
//	table.Set(list, view)                               // the peers that the operator lists and discovery finds
//	dials := table.Next(now, view)                      // the dials to begin
//	outcome := table.Dialled(now, dial, end, err, view) // keep the session, or why to end it
//
// A peer is listed by the operator, announced by some host, at a hub, or a node that has proved itself on a link. Of one
// node the table may have all of these. An announcement may be forged: only proofs are trusted.
//
//	table.go   dials begun and ended, links up and down    view.go       the state of the node
//	peer.go    Peer, an entry of the table, back-off       wanted.go     why a peer is dialled, and where; names
//	claims.go  the budget of peers that are only announced transports.go QUIC or SCTP
//	proved.go  nodes that have proved themselves           hub.go        hosts at a hub
//	trial.go   other ways to a linked peer                 report.go     the status of all peers
package peers

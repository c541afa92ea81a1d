// Package discovery finds peers: by mDNS/DNS-SD, in the zones of DNS domains, and in the user's list.
//
//	peers, err := discovery.Browse(ctx, discovery.Config{}, 3*time.Second) // search once
//
//	b, err := discovery.NewBrowser(cfg)             // or keep searching: Run calls back with the whole table
//	err = b.Run(ctx, func(peers []discovery.Peer) { … }) // whenever it changes
//
//	a, err := discovery.NewAnnouncer(cfg)           // announce this host and its channels
//	go a.Run(ctx)
//	a.Update(channels)
//
// ParseStatic parses a peer that needs no multicast, ParseDomain a domain that lists hosts. Hosts joins the entries of a
// table into one for each host, for people. The package knows nothing of links, keys or Ach. Everything that it learns is
// a hint until the certificate of a link proves it.
//
// # What is announced
//
// One service per host: HOST._achbridge._udp.local, SRV with the UDP port, addresses under achbridge-NODE.local
// (the first 12 digits of the node id), and a TXT record of at most 1000 bytes:
//
//	v=1                 version; a record with another version is not read
//	net=8 hex digits    network, which follows from the key
//	node=32 hex digits  node id; it identifies the node, the name does not
//	port=N              the port again, for hosts that received only the TXT record
//	quic=N, sctp=N      ports of the transports that the host listens on
//	life=N              seconds for which to believe the announcement after it was last heard (1..3600, at most 120 count)
//	ch.NAME=COUNTxSIZE  a channel: frames and bytes per frame
//	more=N              channels that had no room, or that are hidden
//	bye=1               in the goodbye of a host that leaves
//
// SRV and port give the port of QUIC, or the one that QUIC would have. Nodes that do not know the keys quic and sctp
// expect SCTP at the next port. A host that announces neither key is taken to listen on both. Unknown keys are skipped. A
// known key with a bad value makes the record invalid, because everything on the wire is hostile until parsed. HostName
// turns a host name into one that Ach and DNS accept; its dots stay, escaped in the label.
//
// # What is believed
//
// Any host on the network can send anything in the name of another. So an announcement is only a claim of its source. It
// stands beside all other claims: it neither ends another claim nor changes its name, node, port or addresses (table).
// Only a link shows which claim is true.
//
//   - A claim is believed for 120 s at most after it was last heard. Every host announces itself at least every 30 s.
//   - A source may have 64 of the 1024 claims. A full table drops a claim of the source with most claims: the one that
//     was not repeated for longest. At most 200 packets a second are read from each source. This does not help against an
//     attacker that forges thousands of sources: then a robot that was never linked may be found late or not at all,
//     unless it is listed.
//   - A goodbye ends the claims of its source. A goodbye with bye=1 also ends the claims about the node that list its
//     source as an address of the node. A host sends the goodbye from an announced address, so that it ends all of its
//     claims even after it has lost one of its addresses. For some seconds no further goodbye is believed.
//   - The kernel says where a packet was sent to, and on which interface it arrived. A packet to the group is read,
//     whatever its source: there may be several subnets on one cable (RFC 6762, section 11). A packet to this host alone
//     is read only if its source is link-local or in a prefix of that interface; otherwise it may come from anywhere.
//   - An announced address may be dialled if it is the packet's source, link-local, or in a prefix of any interface of
//     this host. Other addresses, for example those that a reflector passes on, are kept in Peer.Far for people. They are
//     dialled only if the user or a domain lists them.
//
// # Searches of achd
//
// AchdSearch answers the one question by which achd and achtool search for a channel, CHANNEL._ach._tcp.local, if the caller says
// that the host may use the channel, and if it asks from a network of the interface that heard it. BrowseAchd lists the channels that
// hosts with achd announce; zeroconf's browser does, for a person who looks for some seconds.
//
// # Domains
//
// The zone of a domain lists hosts with the same records: PTR _achbridge._udp.DOMAIN, then SRV, A and AAAA. TXT may be
// missing or empty, since the author of a zone cannot know a node id; then the host is only a name with addresses, like
// a listed peer, until the link's certificate or mDNS says more. A TXT record with v= is read as an announcement. The
// name servers are those in /etc/resolv.conf at that moment. All records are asked for again when the first of them
// expires (after 30 s if none says when; after at least 1 s and at most an hour). While no server answers, the hosts
// already known stay. The package does not write zones; their owners do.
package discovery

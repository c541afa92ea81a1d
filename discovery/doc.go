// Package discovery finds peers: by mDNS/DNS-SD, in the zones of DNS domains, and in the user's list.
//
//	peers, err := discovery.Browse(ctx, discovery.Config{}, 3*time.Second) // search once
//
//	b, err := discovery.NewBrowser(cfg)                  // or search continuously:
//	err = b.Run(ctx, func(peers []discovery.Peer) { … }) // called with the whole table when it changes
//
//	a, err := discovery.NewAnnouncer(cfg) // announce this host and its channels
//	go a.Run(ctx)
//	a.Update(channels)
//
// ParseStatic parses a peer that needs no multicast, ParseDomain a domain that lists hosts. Hosts merges the entries of a
// table into one for each host, for people. The package does not depend on links, keys or Ach. All of its results are hints
// until the certificate of a link proves them.
//
// # What is announced
//
// Each host has one service: HOST._achbridge._udp.local, with an SRV record for the UDP port, addresses under
// achbridge-NODE.local (the first 12 digits of the node id), and a TXT record of at most 1000 bytes:
//
//	v=1                 version; records with other versions are ignored
//	net=8 hex digits    network, derived from the key
//	node=32 hex digits  node id, which identifies the node (the name does not)
//	port=N              the port again, for hosts that received only the TXT record
//	quic=N, sctp=N      ports of the transports that the host listens on
//	life=N              lifetime of the announcement in seconds (1..3600, receivers use at most 120)
//	ch.NAME=COUNTxSIZE  a channel: number of frames and bytes per frame
//	more=N              number of channels that are omitted, for lack of space or as hidden
//	bye=1               in the goodbye of a host that leaves
//
// SRV and port have the port of QUIC, or the one that QUIC would have. Nodes that do not know the keys quic and sctp expect
// SCTP at the next port. A host that announces neither key listens on both. Unknown keys are skipped. A known key with an
// invalid value makes the record invalid. HostName converts a host name to one that Ach and DNS accept. It keeps dots,
// which are escaped in the label.
//
// # What is believed
//
// Any host on the network can send anything in the name of another. So an announcement is only a claim of its source. The
// table lists it besides all other claims. It neither ends another claim nor changes its name, node, port or addresses.
// Only a link proves which claim is true.
//
//   - A claim is believed for at most 120 s after its last announcement. Every host announces itself at least every 30 s.
//   - A source may have 64 of the 1024 claims. A full table drops the oldest claim of the source with the most claims. At
//     most 200 packets a second are read from each source. These limits do not stop an attacker that forges thousands of
//     sources: then a robot that was never linked may be found late or not at all, unless it is listed.
//   - A goodbye ends the claims of its source. A goodbye with bye=1 also ends claims about the node that list the goodbye's
//     source as an address of the node. A host sends goodbyes from an announced address, so that they end all of its
//     claims even after it has lost one of its addresses. Further goodbyes are ignored for some seconds.
//   - The kernel reports where a packet was sent to and on which interface it arrived. A packet to the multicast group is
//     read from any source, since there may be several subnets on one cable (RFC 6762, section 11). A unicast packet is
//     read only if its source is link-local or in a prefix of that interface, since it may come from anywhere.
//   - An announced address may be dialled if it is the packet's source, link-local, or in a prefix of any interface of
//     this host. Other addresses, such as those that a reflector passes on, are kept in Peer.Far for people. They are
//     dialled only if the user or a domain lists them.
//
// # Searches of achd
//
// AchdSearch answers the query with which achd and achtool search for a channel, CHANNEL._ach._tcp.local, if the caller
// allows that host to use the channel and the host is on a subnet of the receiving interface. BrowseAchd returns the
// channels that hosts with achd announce. It uses zeroconf's resolver, which is good enough for one search. AchdHosts
// looks up addresses of these hosts.
//
// # Domains
//
// The zone of a domain lists hosts with the same records: PTR _achbridge._udp.DOMAIN, then SRV, A and AAAA. TXT may be
// missing or empty, since the author of a zone cannot know a node id. Then the host is only a name with addresses, like a
// listed peer, until a link's certificate or mDNS provides the rest. A TXT record with v= is parsed as an announcement. The
// name servers are those in /etc/resolv.conf at the time of the query. The zone is read again when its first record expires
// (after 30 s without a TTL, and after at least 1 s and at most an hour). While no server answers, the known hosts stay.
// The package does not write zones.
package discovery

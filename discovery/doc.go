// Package discovery finds out who is on the network, by mDNS/DNS-SD, from the zones of DNS domains, and from peers that
// the user wrote down.
//
//	peers, err := discovery.Browse(ctx, discovery.Config{}, 3*time.Second) // look once
//
//	b, err := discovery.NewBrowser(cfg)             // or keep looking: Run calls back with the whole table
//	err = b.Run(ctx, func(peers []discovery.Peer) { … }) // whenever it changes
//
//	a, err := discovery.NewAnnouncer(cfg)           // announce this host and its channels
//	go a.Run(ctx)
//	a.Update(channels)
//
// ParseStatic parses a peer that needs no multicast, and ParseDomain a domain that lists hosts. Hosts folds a table into one
// line for each host, for people. The package knows nothing of links, keys or Ach. All that it learns is a hint, which the
// certificate of the link has to prove.
//
// # What is announced
//
// One service per host: HOST._achbridge._udp.local, SRV with the UDP port, addresses under achbridge-NODE.local
// (the first 12 digits of the node id), and a TXT record of at most 1000 bytes:
//
//	v=1                 version; another one is not read
//	net=8 hex digits    network: which key
//	node=32 hex digits  node id: who, whatever the name says
//	port=N              the port again, for those who have the TXT record alone
//	quic=N, sctp=N      ports by transport, of those that the host listens on
//	life=N              seconds that the host is to be believed in after it was last heard (1..3600); 120 at most are
//	ch.NAME=COUNTxSIZE  a channel: frames and bytes per frame
//	more=N              channels that had no room, or that are hidden
//	bye=1               in the goodbye of a host that leaves
//
// SRV and port are where QUIC is, or would be: nodes that know nothing of quic and sctp look for SCTP at the next
// port. So is a host taken that says neither. Unknown keys are skipped; a known key with a bad value refuses the record, because everything on the wire is
// hostile until parsed. A host name is made fit for Ach and DNS by HostName; its dots stay, escaped in the label.
//
// # What is believed
//
// Anybody on the network can send anything in anybody's name. So an announcement is a claim of its source, and stands
// beside all others: none replaces another's name, node, port or addresses, nor ends it (table). Which claim is true a
// link finds out.
//
//   - A claim is believed for 120 s at most after it was last heard. Every host announces itself every 30 s at least.
//   - Each source has a share of 64 of the 1024 claims. A full table drops what the source with most claims has
//     not repeated for longest. Of each source 200 packets a second are read. Against whoever forges thousands of
//     sources this is no help: a robot that was never linked may then be found late, or not at all, unless it is listed.
//   - A goodbye ends the claims of its own source, and if it is meant (bye=1) those of the node that list its source as
//     an address of the node. It is sent from an announced address, so that a host which has lost one of its addresses
//     ends all that it has claimed. It is not believed again at once.
//   - The kernel says where a packet was sent to, and by which interface it came. What was sent to the group is read,
//     whatever its source: there may be several subnets on one cable (RFC 6762, section 11). What was sent to
//     this host alone is read if its source is link-local or in a prefix of that interface; else it may come from
//     anywhere.
//   - An announced address is to be dialled if it is the packet's source, link-local, or in a prefix of any interface of
//     this host. Others are kept in Peer.Far, for people: they come from a reflector, say, and are dialled only if
//     the user or a domain lists them.
//
// # Domains
//
// The zone of a domain lists hosts with the same records: PTR _achbridge._udp.DOMAIN, then SRV, A and AAAA. TXT may be
// missing or empty, since who writes a zone by hand cannot know a node id; then the host is a name with addresses,
// as a listed peer is, until the link's certificate or mDNS says more. With v= it is read as an announcement. The
// name servers are those of /etc/resolv.conf at that moment; every record is asked for again when the first of them
// expires (30 s where nothing says when; at least 1 s, at most an hour). While no server answers, what was known
// stays. Nobody is announced this way: a zone is written by its owner.
package discovery

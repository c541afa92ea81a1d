// Package discovery finds out who is out there: mDNS/DNS-SD on the local networks, the zones of DNS domains, and peers
// that the user wrote down, merged into one table of peers. It knows nothing of links, keys or Ach; all it learns is a hint that the
// link's certificate has to prove.
//
//	Announcer   keeps one service for this host on the network
//	Browser     keeps the table: Run calls back with all of it whenever it changes
//	Browse      looks once, for programs without a daemon
//	ParseStatic reads a peer that needs no multicast
//	ParseDomain reads a domain that lists hosts, for networks that carry none
//	Table       the table itself: pure, time is an argument
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
//	life=N              seconds that the host is to be believed in after it was last heard (1..3600)
//	ch.NAME=COUNTxSIZE  a channel: frames and bytes per frame
//	more=N              channels that had no room, or that are hidden
//	bye=1               in the goodbye of a host that leaves
//
// SRV and port are where QUIC is, or would be: nodes that know nothing of quic and sctp look for SCTP at the next
// port. So is a host taken that says neither. Unknown keys are skipped; a known key with a bad value refuses the record, because everything on the wire is
// hostile until parsed. A host name is made fit for Ach and DNS by HostName; its dots stay, escaped in the label.
//
// # Domains
//
// The zone of a domain lists hosts with the same records: PTR _achbridge._udp.DOMAIN, then SRV, A and AAAA. TXT may be
// missing or empty, since who writes a zone by hand cannot know a node id; then the host is a name with addresses,
// as a listed peer is, until the link's certificate or mDNS says more. With v= it is read as an announcement. The
// name servers are those of /etc/resolv.conf at that moment; every record is asked for again when the first of them
// expires (30 s where nothing says when; at least 1 s, at most an hour). While no server answers, what was known
// stays. Nobody is announced this way: a zone is written by its owner.
//
// # Where zeroconf falls short, and what we do
//
// grandcat/zeroconf v1.0.0 registers the service, answers questions and asks them. The rest is ours, with
// miekg/dns on our own sockets of the same port:
//
//   - Every service costs two sockets that parse each multicast packet of the link. So there is one per host.
//   - SetText races with the answers. It is never called: a changed list is a new registration, at most every five
//     seconds.
//   - Shutdown always says goodbye for the host; nothing in the interface prevents it. The new registration is
//     there before the old one ends, and a complete announcement follows right behind the goodbye. RFC 6762,
//     section 10.1 wants it so: listeners keep records for a second after a goodbye, so that others can rescue
//     them. Our table keeps a peer for half of one; the host is never gone in between. A host that leaves sends a
//     goodbye of its own before and behind that one, which says that it is meant (bye=1): listeners drop the host at once.
//   - Shutdown waits on a WaitGroup that the receivers enter by themselves. Younger than 100 ms a server is not
//     shut down. The race detector still reports that WaitGroup; it is the one report that remains. The prober
//     sleeps on for up to 3.5 s after Shutdown and its writes then fail, which does nothing.
//   - Interfaces are fixed at Register. We look at them once a second, register anew when one came or went (or an
//     address family on it), and announce anew when an address or the cable did. Register is given no addresses:
//     then it looks up those of the interface for each answer.
//   - Nothing is announced after the first seconds. We repeat the announcement four times per life, so that a
//     listener needs no questions to know who lives, and lose a host within its life after SIGKILL. zeroconf's own
//     answers say 3200 s to caches that do not know life; ours say life.
//   - Its resolver stops asking after the first answer, and reports neither changes nor removals. Each round has a
//     new one, 1, 2, 4 ... 60 s apart; a round is left out when another host just asked the same, since all answers
//     are multicast. It asks twice, and a responder answers on both address families what it hears on one: after two
//     rounds on both, the families take turns. What counts is heard by our listener: announcements, changes,
//     goodbyes, with the interface and the sender's address, which makes link-local addresses usable. What the
//     resolver finds only adds hosts that the listener missed.
//   - Its resolver reports one host per name, and its responder has no conflict handling. The table goes by node
//     id and names the second host of a name NAME-ab12.
//   - Its resolver blocks for ever when its channel is not read, fails as a whole (and leaks a socket until the
//     next garbage collection) when one address family is missing. It is read to the end, and asked for the
//     families there are.
//   - It logs to the standard logger when a family is missing. That we cannot change.
//   - Its sockets are bound to the wildcard address and may be handed unicast answers meant for an avahi-daemon of
//     the same host. Multicast reaches both.
package discovery

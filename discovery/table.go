package discovery

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"
)

const (
	// farewell is how long a host that said goodbye stays: RFC 6762, section 10.1 gives others a second to
	// rescue the records, we give half of one. A host that registers its service anew needs it (see Announcer).
	farewell = 500 * time.Millisecond
	// silence is how long after its goodbye a host is not believed on hearsay.
	silence = 2 * time.Second

	maxPeers     = 1024 // anybody can announce any number of hosts
	maxWays      = 16   // interfaces and families that one node is heard through
	maxPeerAddrs = 32
)

// ErrFull says that the table holds as many peers as it may; nothing more is learnt until some expire.
var ErrFull = errors.New("peer table: full")

// Sighting is one announcement as it was heard.
type Sighting struct {
	Peer  Peer      // Addrs and Source are ignored
	Addrs []Address // as reachable through Via
	Via   string    // interface and address family; a later sighting through it replaces an earlier one's addresses
	// Hearsay is an announcement that may be older than what was heard since: it only adds hosts not known.
	Hearsay bool
}

// Table is who is out there: announcements and static peers, merged. It is a value without clock or I/O; one
// goroutine at a time. Methods that change it return whether Peers gives anything different now.
type Table struct {
	self   Peer
	nodes  map[string]*entry // by node id
	left   map[string]time.Time
	static map[string]Peer   // by what the user wrote
	listed map[string][]Peer // by domain
}

type entry struct {
	peer    Peer // Host as announced; Addrs merged of all ways
	ways    map[string]way
	expires time.Time
	leaves  time.Time // zero: no goodbye
}

// way is what was heard through one interface and address family.
type way struct {
	addrs   []Address
	expires time.Time
	spare   bool // good until the node is heard otherwise
}

// NewTable returns an empty table of the node self, which never sees itself but takes part in naming.
func NewTable(self Peer) *Table {
	return &Table{self: self, nodes: map[string]*entry{}, left: map[string]time.Time{}, static: map[string]Peer{}, listed: map[string][]Peer{}}
}

// Seen learns an announcement: it makes or renews the peer, for its Life from now. ErrFull refuses a new one.
func (t *Table) Seen(now time.Time, s Sighting) (changed bool, err error) {
	id := s.Peer.Node
	if id == t.self.Node {
		return false, nil
	}
	e := t.nodes[id]
	if s.Hearsay && (e != nil || now.Before(t.left[id])) {
		return false, nil
	}
	if e == nil {
		if len(t.nodes) >= maxPeers {
			return false, ErrFull
		}
		changed = true
		t.supersede(s)
		e = &entry{ways: map[string]way{}}
		t.nodes[id] = e
	}
	delete(t.left, id)
	e.leaves = time.Time{}
	e.expires = now.Add(s.Peer.Life)
	return e.learn(s) || changed, nil
}

// supersede drops the earlier life of a host that comes back under a new node id at the same address: two nodes
// cannot have one socket.
func (t *Table) supersede(s Sighting) {
	for id, e := range t.nodes {
		if e.peer.Host != s.Peer.Host || e.peer.Network != s.Peer.Network {
			continue
		}
		for _, a := range s.Addrs {
			if slices.Contains(e.peer.Addrs, a.AddrPort) {
				delete(t.nodes, id)
				break
			}
		}
	}
}

func (e *entry) learn(s Sighting) bool {
	if port := firstPort(s.Addrs); port != e.port() {
		clear(e.ways) // the node restarted at another port: every older address is dead
	}
	if _, known := e.ways[s.Via]; known || len(e.ways) < maxWays {
		e.ways[s.Via] = way{addrs: s.Addrs, expires: e.expires, spare: s.Hearsay}
	}
	if !s.Hearsay {
		maps.DeleteFunc(e.ways, func(via string, w way) bool { return w.spare && via != s.Via })
	}
	before := e.peer
	e.peer = s.Peer
	e.peer.Source, e.peer.Port = SourceMDNS, firstPort(s.Addrs)
	e.merge()
	return !samePeer(before, e.peer)
}

// Cut learns that nothing is heard any more through the ways for which gone is true, since their interface is no
// more. What was heard through them stays the best that is known of a node until it is heard again.
func (t *Table) Cut(gone func(via string) bool) {
	for _, e := range t.nodes {
		for via, w := range e.ways {
			w.spare = w.spare || gone(via)
			e.ways[via] = w
		}
	}
}

func (e *entry) port() uint16 {
	for _, w := range e.ways {
		return firstPort(w.addrs)
	}
	return 0
}

func firstPort(as []Address) uint16 {
	if len(as) == 0 {
		return 0
	}
	return as[0].Port()
}

// merge makes the peer's addresses of all its ways.
func (e *entry) merge() {
	var all []Address
	for _, w := range e.ways {
		all = append(all, w.addrs...)
	}
	all = sortAddresses(all)
	addrs := make([]netip.AddrPort, 0, len(all))
	for _, a := range all[:min(len(all), maxPeerAddrs)] {
		addrs = append(addrs, a.AddrPort)
	}
	e.peer.Addrs = addrs
}

// Gone learns a goodbye, by Node, or by Host when the goodbye said no more and only one node has that name.
// The peer leaves the table half a second later, unless it is seen again.
func (t *Table) Gone(now time.Time, who Peer) {
	id := who.Node
	if id == "" {
		id = t.onlyNode(who.Host)
	}
	if e := t.nodes[id]; e != nil && e.leaves.IsZero() {
		e.leaves = now.Add(farewell)
	}
}

// Left learns a goodbye that is meant. The peer leaves the table with the next Expire.
func (t *Table) Left(now time.Time, who Peer) {
	if e := t.nodes[who.Node]; e != nil {
		e.leaves = now
	}
}

func (t *Table) onlyNode(host string) (id string) {
	for n, e := range t.nodes {
		if e.peer.Host == host {
			if id != "" {
				return ""
			}
			id = n
		}
	}
	return id
}

// Resolved learns the addresses of a static peer, which never expires. An empty list leaves the former ones:
// a name server that is down says nothing about the robot.
func (t *Table) Resolved(s Static, addrs []netip.AddrPort) (changed bool) {
	old, known := t.static[s.text]
	p := Peer{Host: s.host, Addrs: addrs, Transport: s.Transport, Source: SourceStatic}
	if known && len(addrs) == 0 {
		p.Addrs = old.Addrs
	}
	t.static[s.text] = p
	return !known || !samePeer(old, p)
}

// Expire drops every peer and every address whose time is over.
func (t *Table) Expire(now time.Time) (changed bool) {
	for id, e := range t.nodes {
		gone := !e.leaves.IsZero() && !now.Before(e.leaves)
		if gone {
			t.left[id] = now.Add(silence)
		}
		if gone || !now.Before(e.expires) {
			delete(t.nodes, id)
			changed = true
			continue
		}
		changed = e.expireWays(now) || changed
	}
	for id, until := range t.left {
		if !now.Before(until) {
			delete(t.left, id)
		}
	}
	return changed
}

func (e *entry) expireWays(now time.Time) bool {
	n := len(e.ways)
	for via, w := range e.ways {
		if !now.Before(w.expires) {
			delete(e.ways, via)
		}
	}
	if len(e.ways) == n {
		return false
	}
	before := e.peer
	e.merge()
	return !samePeer(before, e.peer)
}

// Next is when Expire has something to do, zero when nothing is known.
func (t *Table) Next() time.Time {
	var next time.Time
	sooner := func(x time.Time) {
		if !x.IsZero() && (next.IsZero() || x.Before(next)) {
			next = x
		}
	}
	for _, e := range t.nodes {
		sooner(e.leaves)
		sooner(e.expires)
		for _, w := range e.ways {
			sooner(w.expires)
		}
	}
	for _, x := range t.left {
		sooner(x)
	}
	return next
}

func samePeer(a, b Peer) bool {
	return a.Host == b.Host && a.Node == b.Node && a.Network == b.Network && a.Life == b.Life && a.More == b.More &&
		a.Source == b.Source && a.Port == b.Port && a.Ports == b.Ports && a.Transport == b.Transport &&
		slices.Equal(a.Addrs, b.Addrs) && slices.Equal(a.Channels, b.Channels)
}

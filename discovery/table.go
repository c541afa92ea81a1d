package discovery

import (
	"container/list"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	// farewell is how long a host that said goodbye stays: RFC 6762, section 10.1 gives others a second to
	// rescue the records, we give half of one. A host that registers its service anew needs it (see Announcer).
	farewell = 500 * time.Millisecond
	// A host that leaves says goodbye more than once, within goodbyeSpan, and may be heard in between. After that, and
	// until goodbyeAgain after the first, no goodbye is believed: else whoever forges them could keep a host from being
	// seen at all.
	goodbyeSpan  = time.Second
	goodbyeAgain = 10 * time.Second

	// maxBelief is how long an announcement is believed at most, whatever life it claims. Every host announces itself
	// four times as often (see againAtLeast).
	maxBelief = 2 * time.Minute

	maxClaims    = 1024 // anybody can announce any number of hosts
	maxOfSource  = 64   // of them; a reflector passes on what many hosts announce
	maxPeerAddrs = 32
)

// sighting is one announcement as it was heard.
type sighting struct {
	Peer  Peer       // Addrs, Far, By, Heard and Source are ignored
	Addrs []address  // ranked, as reachable from here
	From  netip.Addr // the packet's source, with its zone if it is link-local
}

// table is who is out there: announcements and static peers. It is a value without clock or I/O; one
// goroutine at a time. Methods that change it return whether peers gives anything different now.
//
// An announcement is a claim, and nothing of it is proved. What one packet claims never changes what another has
// claimed: a node, name, port or address that is different in any way makes a claim of its own, which stands beside
// the others until its time is over. Only the list of channels is as said last. Each source has a share of the
// table, and where it is full the source with most claims gives way.
type table struct {
	self   Peer
	claims map[string]*claim
	oldest *list.List            // of claims: the one that was not heard for longest is first
	of     map[netip.Addr]int    // claims by source
	having [maxOfSource + 1]int  // sources by their number of claims, from 1 on
	left   map[goodbye]time.Time // who has left lately
	heard  time.Time             // up to when goodbyes of sources that claim nothing were looked at, one each farewellPace
	static map[string]Peer       // by what the user wrote
	listed map[string][]Peer     // by domain
}

// claim is what one source says of one node.
type claim struct {
	key     string
	place   *list.Element // in table.oldest
	peer    Peer
	expires time.Time
	leaves  time.Time // zero: no goodbye
	meant   bool      // that one
}

// goodbye is whose claim of whom was ended by one. One that is meant is believed though another was heard lately: a host
// that changes its addresses says those, and is late now and then with the announcement that rescues it.
type goodbye struct {
	by    netip.Addr
	node  string
	meant bool
}

// newTable returns an empty table of the node self, which never sees itself.
func newTable(self Peer) *table {
	return &table{self: self, claims: map[string]*claim{}, oldest: list.New(), of: map[netip.Addr]int{}, left: map[goodbye]time.Time{},
		static: map[string]Peer{}, listed: map[string][]Peer{}}
}

// seen learns an announcement: it makes or renews a claim, for its Life from now or maxBelief. dropped says that
// another claim, which still was to be believed, had to make room.
func (t *table) seen(now time.Time, s sighting) (changed, dropped bool) {
	if s.Peer.Node == t.self.Node || len(s.Addrs) == 0 {
		return false, false
	}
	p := s.peer()
	key := p.claimed()
	c := t.claims[key]
	if c == nil {
		dropped = t.makeRoom(p.By)
		c = &claim{key: key}
		c.place = t.oldest.PushBack(c)
		t.claims[key] = c
		t.count(p.By, 1)
	}
	t.oldest.MoveToBack(c.place)
	changed = !samePeer(c.peer, p)
	c.peer = p
	c.peer.heard = now
	c.leaves, c.expires = time.Time{}, now.Add(min(p.life, maxBelief))
	return changed, dropped
}

// peer is the peer that a sighting tells of.
func (s sighting) peer() Peer {
	p := s.Peer
	p.Source, p.By, p.Port = sourceMDNS, s.From, s.Addrs[0].Port()
	p.Addrs, p.Far = nil, nil
	for _, a := range s.Addrs[:min(len(s.Addrs), maxPeerAddrs)] {
		if a.rank == rankFar {
			p.Far = append(p.Far, a.AddrPort)
		} else {
			p.Addrs = append(p.Addrs, a.AddrPort)
		}
	}
	return p
}

// claimed is all by which one claim differs from another.
func (p Peer) claimed() string {
	var b strings.Builder
	fmt.Fprint(&b, p.By, " ", p.Node, " ", p.Network, " ", p.Host, " ", p.Port, " ", p.Ports, " ", p.Addrs, " ", p.Far)
	return b.String()
}

// makeRoom drops a claim if there is no room for one more of a source: the one that was not heard for longest, of
// this source if its share is used up, else of the sources with most. Whoever forges sources has this done for each claim.
func (t *table) makeRoom(source netip.Addr) (dropped bool) {
	full := t.of[source] >= maxOfSource
	if !full && len(t.claims) < maxClaims {
		return false
	}
	most := maxOfSource
	for t.having[most] == 0 {
		most--
	}
	for e := t.oldest.Front(); ; e = e.Next() {
		c := e.Value.(*claim)
		if full && c.peer.By == source || !full && t.of[c.peer.By] == most {
			t.drop(c)
			return true
		}
	}
}

func (t *table) drop(c *claim) {
	delete(t.claims, c.key)
	t.oldest.Remove(c.place)
	t.count(c.peer.By, -1)
}

// count notes that a source has one claim more or less.
func (t *table) count(source netip.Addr, change int) {
	before := t.of[source]
	if t.of[source] += change; t.of[source] == 0 {
		delete(t.of, source)
	}
	t.having[before]--
	t.having[before+change]++
}

// gone learns a goodbye of the source from, by Node, or by Host when the goodbye said no more. What that source
// claims of the node leaves the table half a second later, unless it is seen again.
func (t *table) gone(now time.Time, from netip.Addr, who Peer) {
	t.goodbye(now, now.Add(farewell), false, from, who, func(p Peer) bool { return p.By == from })
}

// hasLeft learns a goodbye that is meant. What the source from claims of the node leaves the table with the next expire,
// and so do the claims of others that list from among the node's addresses: a host that has lost the address from
// which it announced itself says goodbye from another that it announced. A stranger's address is in the
// stranger's own claims alone.
func (t *table) hasLeft(now time.Time, from netip.Addr, who Peer) {
	t.goodbye(now, now, true, from, who, func(p Peer) bool { return p.By == from || p.lists(from) })
}

// lists reports whether a is one of the addresses that were announced.
func (p Peer) lists(a netip.Addr) bool {
	is := func(ap netip.AddrPort) bool { return ap.Addr() == a }
	return slices.ContainsFunc(p.Addrs, is) || slices.ContainsFunc(p.Far, is)
}

// farewellPace is how often the goodbye of a source that claims nothing is looked at: for each all claims are looked
// through, and anybody can forge any number of them. Some may come at once: a host that has lost its IPv4 address says
// goodbye from 0.0.0.0 and from an address that it has left within a millisecond.
const (
	farewellPace  = 10 * time.Millisecond
	farewellBurst = 100 * time.Millisecond
)

func (t *table) goodbye(now, leaves time.Time, meant bool, from netip.Addr, who Peer, ends func(Peer) bool) {
	if t.of[from] == 0 {
		due := now.Add(-farewellBurst)
		if t.heard.After(due) && !t.heard.After(now) {
			due = t.heard
		}
		if due.Add(farewellPace).After(now) {
			return
		}
		t.heard = due.Add(farewellPace)
	}
	for _, c := range t.claims {
		if who.Node != "" && who.Node != c.peer.Node || who.Node == "" && who.Host != c.peer.Host || !ends(c.peer) {
			continue
		}
		if t.heardLately(now, c, true) || !meant && t.heardLately(now, c, false) {
			continue
		}
		if c.leaves.IsZero() || leaves.Before(c.leaves) {
			c.leaves, c.meant = leaves, meant
		}
	}
}

// heardLately reports whether a goodbye ended this claim lately, whoever said it: with several forged sources it could be
// repeated sooner.
func (t *table) heardLately(now time.Time, c *claim, meant bool) bool {
	first, ok := t.left[goodbye{c.peer.By, c.peer.Node, meant}]
	return ok && now.Sub(first) >= goodbyeSpan && now.Sub(first) < goodbyeAgain
}

// resolved learns the addresses of a static peer, which never expires. An empty list leaves the former ones:
// a name server that is down says nothing about the robot.
func (t *table) resolved(s Static, addrs []netip.AddrPort) (changed bool) {
	old, known := t.static[s.text]
	p := Peer{Host: s.host, Addrs: addrs, Transport: s.Transport, Source: SourceStatic}
	if known && len(addrs) == 0 {
		p.Addrs = old.Addrs
	}
	t.static[s.text] = p
	return !known || !samePeer(old, p)
}

// setZone learns what a domain's zone says: it replaces what the domain said before. The peers' sources and lives
// are set here.
func (t *table) setZone(domain string, peers []Peer) (changed bool) {
	peers = slices.Clone(peers)
	for i := range peers {
		peers[i].Source, peers[i].life = sourceDNS, 0
	}
	if slices.EqualFunc(t.listed[domain], peers, samePeer) {
		return false
	}
	t.listed[domain] = peers
	return true
}

// expire drops every claim whose time is over.
func (t *table) expire(now time.Time) (changed bool) {
	for who, at := range t.left {
		if now.Sub(at) >= goodbyeAgain {
			delete(t.left, who)
		}
	}
	for _, c := range t.claims {
		gone := !c.leaves.IsZero() && !now.Before(c.leaves)
		who := goodbye{c.peer.By, c.peer.Node, c.meant}
		if _, again := t.left[who]; gone && !again && len(t.left) < maxClaims {
			t.left[who] = now
		}
		if gone || !now.Before(c.expires) {
			t.drop(c)
			changed = true
		}
	}
	return changed
}

// next is when expire has something to do, zero when nothing is announced.
func (t *table) next() time.Time {
	var next time.Time
	for _, c := range t.claims {
		for _, x := range []time.Time{c.leaves, c.expires} {
			if !x.IsZero() && (next.IsZero() || x.Before(next)) {
				next = x
			}
		}
	}
	return next
}

func samePeer(a, b Peer) bool {
	return a.Host == b.Host && a.Node == b.Node && a.Network == b.Network && a.life == b.life && a.More == b.More &&
		a.Source == b.Source && a.By == b.By && a.Port == b.Port && a.Ports == b.Ports && a.Transport == b.Transport &&
		slices.Equal(a.Addrs, b.Addrs) && slices.Equal(a.Far, b.Far) && slices.Equal(a.Channels, b.Channels)
}

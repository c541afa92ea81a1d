package discovery

import (
	"container/list"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

const (
	// goodbyeDelay is how long a claim stays in the table after a goodbye without bye=1. A host that registers its service
	// again needs this time to announce itself (see Announcer). RFC 6762, section 10.1 allows a second; half is enough.
	goodbyeDelay = 500 * time.Millisecond
	// A host that leaves sends several goodbyes within goodbyeSpan, and may announce itself between them. After that span,
	// goodbyes are ignored until goodbyeHoldoff has passed since the first. Otherwise forged goodbyes could keep a host
	// out of the table forever.
	goodbyeSpan    = time.Second
	goodbyeHoldoff = 10 * time.Second

	// maxBelief is the longest time for which an announcement is believed, whatever lifetime it has. Every host announces
	// itself four times as often (see maxAnnounceInterval).
	maxBelief = 2 * time.Minute

	maxClaims       = 1024 // maximum number of claims in the table
	maxSourceClaims = 64   // maximum number of claims of one source; a reflector is the source of many hosts' claims
	maxPeerAddrs    = 32   // maximum number of addresses of one peer
)

// announcement is a received announcement of one host.
type announcement struct {
	Peer  Peer       // Addrs, Far, By, Port and Source are ignored
	Addrs []address  // announced addresses, sorted by rank
	From  netip.Addr // source of the packet, with a zone if it is link-local
}

// table holds the announced and the listed peers. It has no clock and does no I/O. It is for one goroutine at a time.
// Methods that change it report whether the result of peers has changed.
//
// An announcement is an unproved claim. A packet never changes another claim: if its node, name, port or addresses differ
// in any way, the packet adds a claim of its own, which is listed besides the others until it expires. Only the list of
// channels is replaced by that of the last packet. Each source may have a limited share of the table. If the table is full,
// a claim of the source with the most claims is dropped.
type table struct {
	self           Peer
	claims         map[string]*claim
	oldest         *list.List               // all claims, sorted by time of the last announcement, the oldest first
	claimsOf       map[netip.Addr]int       // number of claims by source
	sourcesWith    [maxSourceClaims + 1]int // number of sources by their number of claims, from 1
	recentGoodbyes map[goodbye]time.Time    // when goodbyes ended a claim, within goodbyeHoldoff
	goodbyes       *rate.Limiter            // limits goodbyes of sources without claims
	staticPeers    map[string]Peer          // listed peers, by the text that the user wrote
	zonePeers      map[string][]Peer        // peers listed in zones, by domain
}

// claim is what one source announces about one node.
type claim struct {
	key       string
	element   *list.Element // in table.oldest
	peer      Peer
	expiresAt time.Time
	leavesAt  time.Time // when a goodbye ends the claim; zero without a goodbye
	isFinal   bool      // the goodbye has bye=1
}

// goodbye identifies a claim that a goodbye has ended. Goodbyes with and without bye=1 are separate, so that a final goodbye
// counts also shortly after one without bye=1, which a host sends when its addresses change.
type goodbye struct {
	source  netip.Addr
	node    string
	isFinal bool
}

// newTable returns an empty table of the node self, which ignores announcements of self.
func newTable(self Peer) *table {
	return &table{self: self, claims: map[string]*claim{}, oldest: list.New(), claimsOf: map[netip.Addr]int{}, recentGoodbyes: map[goodbye]time.Time{},
		goodbyes: rate.NewLimiter(rate.Every(goodbyePace), goodbyeBurst), staticPeers: map[string]Peer{}, zonePeers: map[string][]Peer{}}
}

// add stores an announcement. It adds or renews a claim that expires after its lifetime, or after maxBelief if that is
// shorter. dropped reports whether a claim that had not expired was dropped to make room.
func (t *table) add(now time.Time, s announcement) (changed, dropped bool) {
	if s.Peer.Node == t.self.Node || len(s.Addrs) == 0 {
		return false, false
	}
	p := s.peer()
	key := p.claimKey()
	c := t.claims[key]
	if c == nil {
		dropped = t.makeRoom(p.By)
		c = &claim{key: key}
		c.element = t.oldest.PushBack(c)
		t.claims[key] = c
		t.addToCount(p.By, 1)
	}
	t.oldest.MoveToBack(c.element)
	changed = !samePeer(c.peer, p)
	c.peer = p
	c.peer.lastReceivedAt = now
	c.leavesAt, c.expiresAt = time.Time{}, now.Add(min(p.lifetime, maxBelief))
	return changed, dropped
}

// peer returns the Peer of an announcement, with its addresses separated into Addrs and Far.
func (s announcement) peer() Peer {
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

// claimKey returns the key that identifies a claim: everything in the announcement except its channels and lifetime.
func (p Peer) claimKey() string {
	var b strings.Builder
	fmt.Fprint(&b, p.By, " ", p.Node, " ", p.Network, " ", p.Host, " ", p.Port, " ", p.Ports, " ", p.Addrs, " ", p.Far)
	return b.String()
}

// makeRoom drops a claim if there is no room for another claim of this source. It drops the oldest claim of this source if
// its share is used up, else the oldest claim of the sources with the most claims. It must be fast, since an attacker that
// forges sources can cause a call for each claim.
func (t *table) makeRoom(source netip.Addr) (dropped bool) {
	full := t.claimsOf[source] >= maxSourceClaims
	if !full && len(t.claims) < maxClaims {
		return false
	}
	most := maxSourceClaims
	for t.sourcesWith[most] == 0 {
		most--
	}
	for e := t.oldest.Front(); ; e = e.Next() {
		c := e.Value.(*claim)
		if full && c.peer.By == source || !full && t.claimsOf[c.peer.By] == most {
			t.drop(c)
			return true
		}
	}
}

func (t *table) drop(c *claim) {
	delete(t.claims, c.key)
	t.oldest.Remove(c.element)
	t.addToCount(c.peer.By, -1)
}

// addToCount adds change, 1 or -1, to a source's number of claims.
func (t *table) addToCount(source netip.Addr, change int) {
	before := t.claimsOf[source]
	if t.claimsOf[source] += change; t.claimsOf[source] == 0 {
		delete(t.claimsOf, source)
	}
	t.sourcesWith[before]--
	t.sourcesWith[before+change]++
}

// handleGoodbye handles a goodbye without bye=1 that the source from sent about the node who, identified by Node, or by Host
// if there is no node id. The claims of that source about the node leave the table after goodbyeDelay, unless they are
// announced again.
func (t *table) handleGoodbye(now time.Time, from netip.Addr, who Peer) {
	t.endClaims(now, now.Add(goodbyeDelay), false, from, who, func(p Peer) bool { return p.By == from })
}

// handleFinalGoodbye handles a goodbye with bye=1. The claims of the source from about the node leave the table with the
// next call of expire. So do claims of other sources that list from as an address of the node, since a host that has lost
// one address sends the goodbye from another. Other hosts cannot end claims in this way, since only their own claims list
// their address.
func (t *table) handleFinalGoodbye(now time.Time, from netip.Addr, who Peer) {
	t.endClaims(now, now, true, from, who, func(p Peer) bool { return p.By == from || p.lists(from) })
}

// lists reports whether a is one of the announced addresses.
func (p Peer) lists(a netip.Addr) bool {
	is := func(ap netip.AddrPort) bool { return ap.Addr() == a }
	return slices.ContainsFunc(p.Addrs, is) || slices.ContainsFunc(p.Far, is)
}

// goodbyePace is the shortest time between two goodbyes that are handled from sources without a claim. Each of them costs a
// search of all claims, and an attacker can forge any number. goodbyeBurst allows several at once: a host that has lost its
// IPv4 address sends goodbyes from 0.0.0.0 and from a former address within a millisecond.
const (
	goodbyePace  = 10 * time.Millisecond
	goodbyeBurst = 10
)

func (t *table) endClaims(now, leavesAt time.Time, isFinal bool, from netip.Addr, who Peer, ends func(Peer) bool) {
	if t.claimsOf[from] == 0 && !t.goodbyes.AllowN(now, 1) {
		return
	}
	for _, c := range t.claims {
		if who.Node != "" && who.Node != c.peer.Node || who.Node == "" && who.Host != c.peer.Host || !ends(c.peer) {
			continue
		}
		if t.endedLately(now, goodbye{c.peer.By, c.peer.Node, true}) || !isFinal && t.endedLately(now, goodbye{c.peer.By, c.peer.Node, false}) {
			continue
		}
		if c.leavesAt.IsZero() || leavesAt.Before(c.leavesAt) {
			c.leavesAt, c.isFinal = leavesAt, isFinal
		}
	}
}

// endedLately reports whether a goodbye of any source ended this claim within goodbyeHoldoff, but not within goodbyeSpan.
// The source does not matter: otherwise an attacker could repeat the goodbye sooner with forged sources.
func (t *table) endedLately(now time.Time, g goodbye) bool {
	first, ok := t.recentGoodbyes[g]
	return ok && now.Sub(first) >= goodbyeSpan && now.Sub(first) < goodbyeHoldoff
}

// setStatic stores the addresses of a static peer, which never expires. An empty list keeps the former addresses, since the
// robot may be up although the name server is down.
func (t *table) setStatic(s Static, addrs []netip.AddrPort) (changed bool) {
	old, known := t.staticPeers[s.text]
	p := Peer{Host: s.host, Addrs: addrs, Transport: s.Transport, Source: SourceStatic}
	if known && len(addrs) == 0 {
		p.Addrs = old.Addrs
	}
	t.staticPeers[s.text] = p
	return !known || !samePeer(old, p)
}

// setZone replaces the peers of a domain's zone. It sets their Source and lifetime.
func (t *table) setZone(domain string, peers []Peer) (changed bool) {
	peers = slices.Clone(peers)
	for i := range peers {
		peers[i].Source, peers[i].lifetime = sourceDNS, 0
	}
	if slices.EqualFunc(t.zonePeers[domain], peers, samePeer) {
		return false
	}
	t.zonePeers[domain] = peers
	return true
}

// expire drops all claims that have expired or that a goodbye has ended.
func (t *table) expire(now time.Time) (changed bool) {
	for who, at := range t.recentGoodbyes {
		if now.Sub(at) >= goodbyeHoldoff {
			delete(t.recentGoodbyes, who)
		}
	}
	for _, c := range t.claims {
		gone := !c.leavesAt.IsZero() && !now.Before(c.leavesAt)
		who := goodbye{c.peer.By, c.peer.Node, c.isFinal}
		if _, again := t.recentGoodbyes[who]; gone && !again && len(t.recentGoodbyes) < maxClaims {
			t.recentGoodbyes[who] = now
		}
		if gone || !now.Before(c.expiresAt) {
			t.drop(c)
			changed = true
		}
	}
	return changed
}

// nextExpiry returns when expire must be called, or the zero Time if there are no claims.
func (t *table) nextExpiry() time.Time {
	var next time.Time
	for _, c := range t.claims {
		for _, x := range []time.Time{c.leavesAt, c.expiresAt} {
			if !x.IsZero() && (next.IsZero() || x.Before(next)) {
				next = x
			}
		}
	}
	return next
}

func samePeer(a, b Peer) bool {
	return a.Host == b.Host && a.Node == b.Node && a.Network == b.Network && a.lifetime == b.lifetime && a.More == b.More &&
		a.Source == b.Source && a.By == b.By && a.Port == b.Port && a.Ports == b.Ports && a.Transport == b.Transport &&
		slices.Equal(a.Addrs, b.Addrs) && slices.Equal(a.Far, b.Far) && slices.Equal(a.Channels, b.Channels)
}

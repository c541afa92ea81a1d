package discovery

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/grandcat/zeroconf"
)

const (
	firstRound = time.Second
	lastRound  = time.Minute
	roundTime  = 700 * time.Millisecond // our responders answer at once, others within 120 ms
)

// questions says when to ask everybody: 1, 2, 4 ... 60 s apart with a tenth of jitter. A question of somebody else
// counts as ours (RFC 6762, section 7.3), since all answers are multicast: of many hosts about one asks.
type questions struct {
	next     time.Time
	interval time.Duration
	rounds   int               // since the beginning, asked or left out
	others   map[int]time.Time // by interface: when somebody else last asked
}

func newQuestions(now time.Time) questions {
	return questions{next: now, interval: firstRound, others: map[int]time.Time{}}
}

// restart begins anew, spread over half a second: a switch that comes back wakes every host at once.
func (q *questions) restart(now time.Time) {
	q.interval, q.rounds = firstRound, 0
	q.next = now.Add(20*time.Millisecond + rand.N(500*time.Millisecond))
	clear(q.others)
}

func (q *questions) heard(now time.Time, ifIndex int) { q.others[ifIndex] = now }

// due says, when next has come, whether to ask on the links, and sets the next time.
func (q *questions) due(now time.Time, links []link) bool {
	answered := true
	for _, l := range links {
		at, ok := q.others[l.iface.Index]
		answered = answered && ok && now.Sub(at) < q.interval/2
	}
	q.next = now.Add(q.interval*9/10 + rand.N(q.interval/5))
	q.interval = min(2*q.interval, lastRound)
	q.rounds++
	return !answered
}

// families says which of the open families a round that is due asks on. zeroconf's resolver asks every question
// twice, and its responder answers on both families what it hears on one: asked on both, a host sends eight
// packets. So only the first two rounds of a network do that, and the later ones take turns.
func (q *questions) families(open zeroconf.IPType) zeroconf.IPType {
	switch {
	case open != zeroconf.IPv4AndIPv6 || q.rounds <= 2:
		return open
	case q.rounds%2 == 1:
		return zeroconf.IPv4
	}
	return zeroconf.IPv6
}

// ask starts a round when it is time.
func (w *watch) ask(ctx context.Context, now time.Time) {
	if now.Before(w.questions.next) {
		return
	}
	ifaces, traffic := interfacesOf(w.links), w.traffic()
	if w.asking || traffic == 0 {
		w.questions.next = now.Add(roundTime)
		return
	}
	if !w.questions.due(now, w.links) {
		return
	}
	w.asking = true
	traffic = w.questions.families(traffic)
	w.helpers.Go(func() {
		err := round(ctx, ifaces, traffic, func(r record) { w.send(ctx, event{hint: &r}) })
		if err != nil {
			w.log.Debug("cannot ask for peers", "err", err)
		}
		w.send(ctx, event{asked: true})
	})
}

// traffic is what we listen to: NewResolver fails as a whole, and leaks a socket, when one family is missing.
func (w *watch) traffic() zeroconf.IPType {
	var t zeroconf.IPType
	if w.sockets[0] != nil {
		t |= zeroconf.IPv4
	}
	if w.sockets[1] != nil {
		t |= zeroconf.IPv6
	}
	return t
}

// round asks once with a resolver of its own: a used one never asks again. The answers are multicast and the
// listener hears them better, with interface and source; what the resolver makes of them is handed to hint.
func round(ctx context.Context, ifaces []net.Interface, traffic zeroconf.IPType, hint func(record)) error {
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	resolver, err := zeroconf.NewResolver(zeroconf.SelectIfaces(ifaces), zeroconf.SelectIPTraffic(traffic))
	if err != nil {
		return err
	}
	// The resolver closes the channel when ctx ends, and only then gives up its sockets: a full channel would
	// keep it for ever, so it is read to the end.
	entries := make(chan *zeroconf.ServiceEntry)
	if err := resolver.Browse(ctx, service, domain, entries); err != nil {
		cancel()
		for range entries {
		}
		return err
	}
	for e := range entries {
		if r, ok := recordOf(e); ok {
			hint(r)
		}
	}
	return nil
}

// recordOf checks an entry as parsePacket checks a packet. Link-local addresses are left out: the entry does not
// say which interface they belong to.
func recordOf(e *zeroconf.ServiceEntry) (record, bool) {
	peer, _, err := parseTXT(e.Text)
	if err != nil || e.Port < 1 || e.Port > 65535 {
		return record{}, false
	}
	if peer.Host, err = fromLabel(strings.TrimSuffix(e.Instance, ".")); err != nil {
		return record{}, false
	}
	r := record{peer: peer, port: uint16(e.Port)}
	for _, ip := range append(e.AddrIPv4, e.AddrIPv6...) {
		if a, ok := netip.AddrFromSlice(ip); ok && !a.Unmap().IsLinkLocalUnicast() && len(r.addrs) < maxAddrs {
			r.addrs = append(r.addrs, a.Unmap())
		}
	}
	return r, len(r.addrs) > 0
}

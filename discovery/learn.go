package discovery

import (
	"net/netip"
	"time"
)

func (w *watch) learnPacket(now time.Time, p heardPacket) (changed bool) {
	via, ok := w.linkOf(p.ifIndex)
	h := hearing{from: sourceOf(p.from.Addr(), via), via: via, links: w.around}
	if !ok || !h.believes(p.to) {
		return false
	}
	if p.asked && toGroup(p.to) && !h.ours(h.from.WithZone("")) {
		w.questions.heard(now, via.iface.Index)
	}
	for _, r := range p.found {
		heard, dropped := w.table.seen(now, sighting{Peer: r.peer, Addrs: h.addresses(r), From: h.from})
		changed = heard || changed
		if dropped {
			w.dropped.Add()
		}
	}
	for _, who := range p.gone {
		w.table.gone(now, h.from, who)
	}
	for _, who := range p.left {
		w.table.hasLeft(now, h.from, who)
	}
	if len(p.gone)+len(p.left) > 0 {
		w.next = now
	}
	w.tellDropped(now)
	return changed
}

// sourceOf identifies a packet's source. Only a link-local address includes the interface.
func sourceOf(from netip.Addr, via link) netip.Addr {
	from = from.Unmap().WithZone("")
	if from.Is6() && from.IsLinkLocalUnicast() {
		return from.WithZone(via.iface.Name)
	}
	return from
}

// tellDropped logs that there are more announcements than the table can hold.
func (w *watch) tellDropped(now time.Time) {
	count, due := w.dropped.Due(now.Sub(w.began))
	if !due {
		return
	}
	w.log.Warn("too many announcements: the oldest of the source with the most are dropped; "+
		"hosts listed with --peer are not affected", "count", count)
}

// learnZone stores the hosts of a zone. It leaves out a host that has only our addresses: it is this host, or it cannot
// be reached.
func (w *watch) learnZone(d Domain, hosts []record) (changed bool) {
	links, err := allLinks() // multicast may be switched off
	if err != nil {
		links = w.around
	}
	var peers []Peer
	for _, r := range hosts {
		p := r.peer
		p.Port = r.port
		for _, a := range (hearing{links: links}).addresses(r) {
			p.Addrs = append(p.Addrs, a.AddrPort)
		}
		if len(p.Addrs) > 0 {
			peers = append(peers, p)
		}
	}
	return w.table.setZone(d.String(), peers)
}

func (w *watch) linkOf(ifIndex int) (link, bool) {
	for _, l := range w.links {
		if l.iface.Index == ifIndex {
			return l, true
		}
	}
	return link{}, false
}

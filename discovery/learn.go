package discovery

import (
	"net/netip"
	"time"
)

func (w *browseState) learnPacket(now time.Time, p receivedPacket) (changed bool) {
	via, ok := w.linkOf(p.ifIndex)
	h := packetSource{from: sourceOf(p.from.Addr(), via), via: via, links: w.allLinks}
	if !ok || !h.accepts(p.to) {
		return false
	}
	if p.isQuery && isGroup(p.to) && !h.ours(h.from.WithZone("")) {
		w.queries.noteOther(now, via.iface.Index)
	}
	for _, r := range p.announcements {
		added, dropped := w.table.add(now, announcement{Peer: r.peer, Addrs: h.addresses(r), From: h.from})
		changed = added || changed
		if w.cfg.Announced != nil {
			w.cfg.Announced(r.peer.Node)
		}
		if dropped {
			w.droppedClaims.Add()
		}
	}
	for _, who := range p.goodbyes {
		w.table.handleGoodbye(now, h.from, who)
	}
	for _, who := range p.finalGoodbyes {
		w.table.handleFinalGoodbye(now, h.from, who)
	}
	if len(p.goodbyes)+len(p.finalGoodbyes) > 0 {
		w.nextExpiry = now
	}
	w.logDropped(now)
	return changed
}

// sourceOf returns the address that identifies a packet's source. Link-local addresses get the interface as their zone.
func sourceOf(from netip.Addr, via link) netip.Addr {
	from = from.Unmap().WithZone("")
	if from.Is6() && from.IsLinkLocalUnicast() {
		return from.WithZone(via.iface.Name)
	}
	return from
}

// logDropped logs a warning if claims were dropped from the full table, at most once each warnEvery.
func (w *browseState) logDropped(now time.Time) {
	count, due := w.droppedClaims.Due(now.Sub(w.startedAt))
	if !due {
		return
	}
	w.log.Warn("too many announcements, dropping the oldest of the source with the most, "+
		"hosts listed with --peer are not affected", "count", count)
}

// learnZone stores the hosts of a zone. It omits hosts that have only addresses of this host: they are this host, or they
// cannot be reached.
func (w *browseState) learnZone(d Domain, hosts []record) (changed bool) {
	links, err := allLinks() // w.allLinks is empty if multicast is switched off
	if err != nil {
		links = w.allLinks
	}
	var peers []Peer
	for _, r := range hosts {
		p := r.peer
		p.Port = r.port
		for _, a := range (packetSource{links: links}).addresses(r) {
			p.Addrs = append(p.Addrs, a.AddrPort)
		}
		if len(p.Addrs) > 0 {
			peers = append(peers, p)
		}
	}
	return w.table.setZone(d.String(), peers)
}

func (w *browseState) linkOf(ifIndex int) (link, bool) {
	for _, l := range w.links {
		if l.iface.Index == ifIndex {
			return l, true
		}
	}
	return link{}, false
}

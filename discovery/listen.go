package discovery

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"achbridge/bridge/logline"
)

// updateInterfaces lists the interfaces, once each listInterfacesEvery. It opens sockets and joins the mDNS group on new
// interfaces. After a change it restarts the schedule of queries.
func (w *browseState) updateInterfaces(ctx context.Context, now time.Time) {
	if w.cfg.StaticOnly || now.Sub(w.interfacesListedAt) < listInterfacesEvery && !w.interfacesListedAt.IsZero() {
		return
	}
	first := w.interfacesListedAt.IsZero()
	w.interfacesListedAt = now
	around, err := allLinks()
	links := slices.DeleteFunc(slices.Clone(around), func(l link) bool { return !isUsable(l.iface, w.cfg.Interfaces) })
	changed := !sameLinks(w.links, links)
	w.links, w.allLinks = links, around
	if err == nil && len(links) == 0 {
		err = noInterface(w.cfg.Interfaces)
	}
	if err != nil {
		w.logProblem(err)
		return
	}
	if changed && !first {
		w.queries.restart(now)
	}
	err4, err6 := w.join(ctx, ip4), w.join(ctx, ip6)
	w.logProblem(cmp.Or(err4, err6))
}

// join joins the family's mDNS group on each link and leaves it on removed links. It fails if no socket can be opened.
func (w *browseState) join(ctx context.Context, f family) error {
	g := w.sockets(f)
	if len(g.list) == 0 {
		if !slices.ContainsFunc(w.links, func(l link) bool { return l.has(f) }) {
			w.setMemberships(f, nil)
			return nil
		}
		g.read = func(s *socket) {
			w.helpers.Go(func() { readPackets(s, w.log, func(e event) { w.send(ctx, e) }) })
		}
	}
	g.retain(w.links)
	var list []Probe
	for _, l := range w.links {
		err := g.join(l.iface)
		if l.has(f) {
			list = append(list, Probe{Interface: l.iface.Name, IPv6: f == ip6, Err: err})
		}
		if len(g.list) == 0 {
			w.setMemberships(f, list)
			return err
		}
	}
	for _, m := range w.setMemberships(f, list) {
		w.log.Warn("cannot join the mdns group, will try again", "interface", m.Interface, "err", m.Err)
	}
	return nil
}

// Memberships returns a Probe for each interface and family that Run uses now. Err is set if Run could not join the mDNS
// group there. Memberships is safe for concurrent use.
func (b *Browser) Memberships() []Probe {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Concat(b.memberships[0], b.memberships[1])
}

// setMemberships stores the memberships of a family. It returns those that have a new error.
func (b *Browser) setMemberships(f family, list []Probe) (failing []Probe) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := &b.memberships[f.index()]
	for _, m := range list {
		same := func(o Probe) bool {
			return o.Interface == m.Interface && o.Err != nil && o.Err.Error() == m.Err.Error()
		}
		if m.Err != nil && !slices.ContainsFunc(*before, same) {
			failing = append(failing, m)
		}
	}
	*before = list
	return failing
}

func (w *browseState) sockets(f family) *sockets { return &w.groups[f.index()] }

// logProblem logs err if it differs from the last error. Call it with nil after a success.
func (w *browseState) logProblem(err error) {
	if w.problem.isNew(err) {
		w.log.Warn("cannot browse, will try again", "err", err)
	}
}

// readPackets parses the packets that s receives until s is closed, and passes those about our service to send.
func readPackets(s *socket, log *slog.Logger, send func(event)) {
	buf := make([]byte, maxPacket+1)
	bad, startedAt := logline.Limit{Period: time.Second}, time.Now()
	limiter := newRateLimiter()
	for {
		n, at, err := s.receive(buf)
		if err != nil {
			send(event{failedSocket: s})
			return
		}
		if at.from.Port() != mdnsPort || !mentionsService(buf[:n]) {
			continue // RFC 6762, section 6: ignore packets from other ports than 5353
		}
		if !limiter.allow(time.Now(), at.from.Addr()) {
			continue
		}
		p, err := parsePacket(buf[:n])
		if err != nil {
			if count, due := bad.Cause(time.Since(startedAt)); due {
				log.Debug("bad announcement", "peer", at.from.Addr(), "count", count, "err", err)
			}
		}
		if p.isQuery || len(p.announcements)+len(p.goodbyes)+len(p.finalGoodbyes) > 0 {
			send(event{packet: &receivedPacket{packet: p, arrival: at}})
		}
	}
}

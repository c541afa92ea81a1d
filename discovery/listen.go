package discovery

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// lookAround follows the interfaces: sockets are opened and join as networks come, and a change starts asking anew.
func (w *watch) lookAround(ctx context.Context, now time.Time) {
	if w.cfg.StaticOnly || now.Sub(w.looked) < lookAround && !w.looked.IsZero() {
		return
	}
	first := w.looked.IsZero()
	w.looked = now
	links, err := usableLinks(w.cfg.Interfaces)
	changed := !sameLinks(w.links, links)
	w.links = links
	if err == nil && len(links) == 0 {
		err = noInterface(w.cfg.Interfaces)
	}
	if err != nil {
		w.complain(err)
		return
	}
	if changed && !first {
		w.questions.restart(now)
	}
	if changed {
		w.table.Cut(func(via string) bool { return !w.heardBy(via) })
		w.join(ip4)
		w.join(ip6)
	}
	open := w.listen(ctx, ip4)
	open = w.listen(ctx, ip6) || open
	if open {
		w.trouble = ""
	}
}

// wayOf names the interface and family that something is heard through.
func wayOf(l link, f family) string { return l.iface.Name + "/" + string('0'+rune(f)) }

func (w *watch) heardBy(via string) bool {
	return slices.ContainsFunc(w.links, func(l link) bool { return via == wayOf(l, ip4) || via == wayOf(l, ip6) })
}

// listen opens the family's socket where the family is there, with a goroutine of its own.
func (w *watch) listen(ctx context.Context, f family) bool {
	if !slices.ContainsFunc(w.links, func(l link) bool { return l.has(f) }) {
		return false
	}
	s := w.socket(f)
	if *s != nil {
		return true
	}
	opened, err := openSocket(f)
	if err != nil {
		w.complain(err)
		return false
	}
	*s = opened
	w.join(f)
	w.helpers.Go(func() { hear(opened, w.log, func(e event) { w.send(ctx, e) }) })
	return true
}

// join makes the family's socket a member of the group on every link.
func (w *watch) join(f family) {
	s := *w.socket(f)
	if s == nil {
		return
	}
	for _, l := range w.links {
		if err := s.join(l.iface); err != nil && l.has(f) {
			w.log.Warn("cannot join the mdns group", "interface", l.iface.Name, "err", err)
		}
	}
}

func (w *watch) socket(f family) **socket {
	if f == ip6 {
		return &w.sockets[1]
	}
	return &w.sockets[0]
}

func (w *watch) closeSocket(f family) {
	if s := w.socket(f); *s != nil {
		(*s).Close()
		*s = nil
	}
}

// complain logs a trouble when it begins.
func (w *watch) complain(err error) {
	if err.Error() != w.trouble {
		w.trouble = err.Error()
		w.log.Warn("cannot browse, trying on", "err", err)
	}
}

// hear parses what a socket receives until it is closed.
func hear(s *socket, log *slog.Logger, tell func(event)) {
	buf := make([]byte, maxPacket+1)
	bad := 0
	var said time.Time
	for {
		n, ifIndex, from, err := s.receive(buf)
		if err != nil {
			tell(event{closed: s.family})
			return
		}
		if from.Port() != mdnsPort || !concernsUs(buf[:n]) {
			continue // RFC 6762, section 6: no answer comes from another port
		}
		p, err := parsePacket(buf[:n])
		if err != nil {
			bad++
			if time.Since(said) >= time.Second {
				log.Debug("bad announcement", "peer", from.Addr(), "count", bad, "err", err)
				said, bad = time.Now(), 0
			}
		}
		if p.asked || len(p.found)+len(p.gone)+len(p.left) > 0 {
			tell(event{packet: &heardPacket{packet: p, family: s.family, ifIndex: ifIndex, from: from.Addr()}})
		}
	}
}

package discovery

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"achbridge/bridge/logline"
)

// lookAround lists the interfaces. It opens sockets and joins the group on new networks. After a change it asks for peers
// at once.
func (w *watch) lookAround(ctx context.Context, now time.Time) {
	if w.cfg.StaticOnly || now.Sub(w.looked) < lookAround && !w.looked.IsZero() {
		return
	}
	first := w.looked.IsZero()
	w.looked = now
	links, err := usableLinks(w.cfg.Interfaces)
	changed := !sameLinks(w.links, links)
	w.links = links
	if w.around, _ = allLinks(); w.around == nil {
		w.around = links
	}
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
		w.join(ip4)
		w.join(ip6)
	}
	open := w.listen(ctx, ip4)
	open = w.listen(ctx, ip6) || open
	if open {
		w.trouble.begins(nil)
	}
}

// listen opens the family's socket if this host has the family, and starts a goroutine that reads it.
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

// complain logs an error when it is new.
func (w *watch) complain(err error) {
	if w.trouble.begins(err) {
		w.log.Warn("cannot browse, will try again", "err", err)
	}
}

// hear parses what a socket receives until it is closed.
func hear(s *socket, log *slog.Logger, tell func(event)) {
	buf := make([]byte, maxPacket+1)
	bad, began := logline.Limit{Period: time.Second}, time.Now()
	var taken intake
	for {
		n, at, err := s.receive(buf)
		if err != nil {
			tell(event{closed: s.family})
			return
		}
		if at.from.Port() != mdnsPort || !concernsUs(buf[:n]) {
			continue // RFC 6762, section 6: answers come only from port 5353
		}
		if !taken.takes(time.Now(), at.from.Addr()) {
			continue
		}
		p, err := parsePacket(buf[:n])
		if err != nil {
			if count, due := bad.Cause(time.Since(began)); due {
				log.Debug("bad announcement", "peer", at.from.Addr(), "count", count, "err", err)
			}
		}
		if p.asked || len(p.found)+len(p.gone)+len(p.left) > 0 {
			tell(event{packet: &heardPacket{packet: p, arrival: at}})
		}
	}
}

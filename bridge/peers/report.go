package peers

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/transport/session"
)

// Status returns the known nodes, ordered by host. It describes a node once, although a robot is announced on each interface
// and address family, and may be listed and proved too.
func (t *Table) Status(now time.Duration, v View) []status.Peer {
	t.forgetOld(now, v)
	groups, grouped := map[string][]*peer{}, map[*peer]bool{}
	for id, p := range t.proved {
		about := t.entriesOf(p)
		if !t.mayBeUp(p, v) || len(about) == 0 && v.Linked[id] == nil && !t.wanted(p, v) {
			continue // nobody misses it
		}
		groups[id] = append([]*peer{p}, about...)
		for _, q := range about {
			grouped[q] = true
		}
	}
	for key, p := range t.entries {
		switch {
		case grouped[p], p.Hub && t.isShownElsewhere(p, v):
			continue
		case p.Node != "":
			key = p.Node + " " + t.nameOf(p)
		}
		groups[key] = append(groups[key], p)
	}
	list := make([]status.Peer, 0, len(groups))
	for _, about := range groups {
		list = append(list, t.statusOf(about, v))
	}
	slices.SortFunc(list, func(a, b status.Peer) int { return cmp.Compare(a.Host, b.Host) })
	return list
}

// statusOf describes one node, of which there are several entries; the first counts most.
func (t *Table) statusOf(about []*peer, v View) status.Peer {
	p := about[0]
	s := status.Peer{Host: t.nameOf(p), Node: p.Node, Addrs: []string{}, State: status.PeerKnown}
	for _, q := range about {
		for _, a := range q.Addrs {
			if !slices.Contains(s.Addrs, a.String()) {
				s.Addrs = append(s.Addrs, a.String())
			}
		}
		if q.dial != nil || q.failures > 0 && q.Source == "" && t.wanted(q, v) { // or the next dial is only a matter of time
			s.State = status.PeerDialling
		}
		if s.Error == "" && q.err != nil {
			s.Error, s.Cause, s.OwnCertificate = q.err.Error(), t.cfg.Cause(q.err), errors.Is(q.err, session.ErrOurCertificate)
		}
		if q.Static && q.Host != s.Host {
			s.ListedAs = q.Host
		}
	}
	l := v.linkTo(p)
	if p.Hub {
		s.Addrs, l = []string{status.AtHub}, v.linkOf(p.Host)
	}
	switch {
	case l != nil:
		s.State, s.Error, s.Cause, s.OwnCertificate, s.Network = status.PeerLinked, "", "", false, l.Network
		if p.Hub {
			s.Node = l.Node
		}
	case p.proof != nil && len(about) == 1:
		s.State = status.PeerMissed
	}
	return s
}

// IsListedMissing reports whether a peer of the operator's list has no link or a silent one.
func (t *Table) IsListedMissing(v View) bool {
	return slices.ContainsFunc(t.all(), func(p *peer) bool {
		isHere := func(l *Link) bool { return !l.IsSilent && !l.isByHub() && p.isListedAt(l.End) }
		return p.Static && v.find(isHere) == nil
	})
}

// NameOfListed returns the name of the host that is listed as host, but linked by another name; "" for none.
func (t *Table) NameOfListed(host string, v View) string {
	for _, p := range t.entries {
		l := v.find(func(l *Link) bool { return l.Name != host && p.isListedAt(l.End) })
		if p.Static && p.Host == host && l != nil {
			return l.Name
		}
	}
	return ""
}

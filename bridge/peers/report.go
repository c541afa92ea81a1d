package peers

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
)

// Status returns the nodes that have proved themselves, each with all that is listed or
// announced of it, and then all other peers, ordered by host.
func (t *Table) Status(now time.Duration, v View) []status.Peer {
	t.forgetOld(now, v)
	var list []status.Peer
	told := map[*peer]bool{}
	for _, p := range t.proved {
		about := t.toldOf(p)
		if !t.mayBeUp(p, v) || len(about) == 0 && v.Linked[p.Node] == nil && !t.wanted(p, v) {
			continue // nobody misses it
		}
		for _, q := range about {
			told[q] = true
		}
		list = append(list, t.statusOf(append([]*peer{p}, about...), v))
	}
	for _, p := range t.told {
		switch {
		case p.Hub && t.isToldBesides(p, v), told[p]:
		case p.Hub:
			list = append(list, t.statusByHub(p, v))
		default:
			list = append(list, t.statusOf([]*peer{p}, v))
		}
	}
	slices.SortStableFunc(list, func(a, b status.Peer) int { return cmp.Compare(a.Host, b.Host) })
	return onePerHost(list)
}

// statusOf describes one node, of which several things are known; the first counts most.
func (t *Table) statusOf(about []*peer, v View) status.Peer {
	p := about[0]
	s := status.Peer{Host: t.nameOf(p), Node: p.Node, Addrs: []string{}, State: status.PeerKnown}
	for _, q := range about {
		for _, a := range q.Addrs {
			if !slices.Contains(s.Addrs, a.String()) {
				s.Addrs = append(s.Addrs, a.String())
			}
		}
		if q.dial != nil {
			s.State = status.PeerDialling
		}
		if s.Error == "" {
			t.setError(&s, q.err)
		}
		if q.Static && q.Host != s.Host {
			s.ListedAs = q.Host
		}
	}
	switch l := v.linkTo(p); {
	case l != nil:
		s.State, s.Error, s.Cause, s.Network = status.PeerLinked, "", "", l.Network
	case p.proof != nil && len(about) == 1:
		s.State = status.PeerMissed
	}
	return s
}

// statusByHub returns the status of a host at the hub.
func (t *Table) statusByHub(p *peer, v View) status.Peer {
	s := status.Peer{Host: p.Host, Addrs: []string{status.AtHub}, State: status.PeerKnown}
	switch l := v.linkOf(p.Host); {
	case l != nil:
		s.State, s.Node, s.Network = status.PeerLinked, l.Node, l.Network
		return s
	case p.dial != nil:
		s.State = status.PeerDialling
	}
	t.setError(&s, p.err)
	return s
}

// setError sets why there is no link to a peer, if there is a reason.
func (t *Table) setError(s *status.Peer, err error) {
	if err != nil {
		s.Error, s.Cause, s.OwnCertificate = err.Error(), t.cfg.Cause(err), errors.Is(err, transport.ErrOurCertificate)
	}
}

// onePerHost joins peers with the same node and name, since a robot is announced on each
// interface and address family.
func onePerHost(list []status.Peer) []status.Peer {
	type key struct{ node, host string }
	first := make(map[key]int, len(list))
	hosts := []status.Peer{}
	for _, p := range list {
		k := key{p.Node, p.Host}
		i, known := first[k]
		if !known || p.Node == "" {
			first[k] = len(hosts)
			hosts = append(hosts, p)
			continue
		}
		h := &hosts[i]
		for _, a := range p.Addrs {
			if !slices.Contains(h.Addrs, a) {
				h.Addrs = append(h.Addrs, a)
			}
		}
		if rank := slices.Index(status.PeerStates, p.State); rank < slices.Index(status.PeerStates, h.State) {
			h.State, h.Error, h.Cause, h.OwnCertificate = p.State, p.Error, p.Cause, p.OwnCertificate
		}
		if h.State != status.PeerLinked && h.Error == "" {
			h.Error, h.Cause, h.OwnCertificate = p.Error, p.Cause, p.OwnCertificate
		}
	}
	return hosts
}

// IsListedMissing reports whether a peer of the operator's list has no link or a silent one.
func (t *Table) IsListedMissing(v View) bool {
	for _, p := range t.told {
		isMissing := p.Static
		for _, l := range v.Linked {
			isMissing = isMissing && (l.IsSilent || l.isByHub() || !p.isListedAt(l.End))
		}
		if isMissing {
			return true
		}
	}
	return false
}

// NameOfListed returns the name of the host that is listed as host, but linked by another name; "" for none.
func (t *Table) NameOfListed(host string, v View) string {
	for _, p := range t.told {
		for _, l := range v.Linked {
			if p.Static && p.Host == host && l.Name != host && p.isListedAt(l.End) {
				return l.Name
			}
		}
	}
	return ""
}

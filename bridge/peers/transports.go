package peers

import (
	"cmp"
	"fmt"
	"slices"

	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// The operator may choose the transport of a link for each peer: by Peer.Over, or else by the
// first rule for its host that has a transport. Otherwise transport.Endpoint.Dial chooses:
// QUIC, or SCTP where QUIC does not answer in time. A link carries all channels of a peer and
// keeps its transport. When the link falls silent, or a rule asks for the other transport, the
// peer is dialled again, and the new link replaces the old one.

// over returns the only transport that a link with p may use. host is p's name as far as it is
// known. An announcement at the address of a listed peer may be forged, so its choice applies
// only to dials to that announced peer.
func (t *Table) over(p *peer, host string, v View) via.Kind {
	if p.Over != via.Any && p.Source == "" {
		return p.Over
	}
	if p.proof != nil {
		for _, q := range t.entriesOf(p) {
			if q.Over != via.Any && q.Source == "" {
				return q.Over
			}
		}
	}
	return v.over(host)
}

// takes reports whether a session with p may be its link.
func (t *Table) takes(p *peer, s End, v View) bool {
	over := t.over(p, s.Host, v)
	return over == via.Any || over == s.Via
}

// Allows reports whether a session may be the link to its peer, as far as it is
// known who that is.
func (t *Table) Allows(s End, v View) bool {
	forbids := func(p *peer) bool { return p.isListedAt(s) && !t.takes(p, s, v) }
	return !slices.ContainsFunc(t.all(), forbids)
}

// usable returns the addresses of p without those of transports that this node must not use or
// does not have.
func (t *Table) usable(p *peer, v View) (list []transport.Addrs) {
	over := cmp.Or(t.over(p, t.nameOf(p), v), p.Over)
	for _, a := range p.Addrs {
		if t.cfg.Listen.QUIC == nil || over == via.SCTP {
			a.QUIC = nil
		}
		if t.cfg.Listen.SCTP == nil || over == via.QUIC {
			a.SCTP = nil
		}
		if a.QUIC != nil || a.SCTP != nil {
			list = append(list, a)
		}
	}
	return list
}

// onlySCTP returns the addresses for SCTP.
func onlySCTP(addrs []transport.Addrs) (list []transport.Addrs) {
	for _, a := range addrs {
		if a.SCTP != nil {
			list = append(list, transport.Addrs{SCTP: a.SCTP})
		}
	}
	return list
}

// noTransport returns why p cannot be dialled although it has addresses.
func (t *Table) noTransport(p *peer, v View) error {
	theirs := transportsOf(p.Addrs...)
	if p.Over != via.Any {
		return fmt.Errorf("it must be linked over %s, but listens on %s only: start it with --transport=auto, or remove transport=%s from --peer",
			p.Over, theirs, p.Over)
	}
	if over := t.over(p, t.nameOf(p), v); over != via.Any {
		return fmt.Errorf("it must be linked over %s, but listens on %s only: start it with --transport=auto, or remove transport: %s from the mirror and push rules that name it",
			over, theirs, over)
	}
	return fmt.Errorf("it listens on %s only, this node on %s: start one of them with --transport=auto", theirs, transportsOf(t.cfg.Listen))
}

// transportsOf returns the transports that addrs are for, as text.
func transportsOf(addrs ...transport.Addrs) string {
	for _, a := range addrs {
		switch {
		case a.QUIC != nil && a.SCTP != nil:
			return via.QUIC.String() + " and " + via.SCTP.String()
		case a.SCTP != nil:
			return via.SCTP.String()
		}
	}
	return via.QUIC.String()
}

// WhyOver returns why a link runs over its transport, as far as this node knows.
func (t *Table) WhyOver(l *Link, v View) string {
	if l.isByHub() {
		return "there is no direct link"
	}
	for _, p := range t.all() {
		if v.linkTo(p) == l && t.over(p, l.Name, v) == l.Via {
			return "this host's configuration asks for it"
		}
	}
	switch {
	case t.cfg.Listen.QUIC == nil || t.cfg.Listen.SCTP == nil:
		return "this host uses no other"
	case !l.Dialled:
		return l.Name + " dialled, and chose it"
	case l.Via == via.SCTP:
		return l.Name + " did not answer over " + via.QUIC.String() + " in time, or does not listen on it"
	}
	return "it is tried first, and " + l.Name + " answered"
}

// MayUseSCTP reports whether the next link to the peer of l may run over SCTP, as far as is known.
func (t *Table) MayUseSCTP(l *Link, v View) bool {
	hasSCTP := func(a transport.Addrs) bool { return a.SCTP != nil }
	return l.Via == via.SCTP || slices.ContainsFunc(t.all(), func(p *peer) bool {
		return p.node() == l.Node && slices.ContainsFunc(t.usable(p, v), hasSCTP)
	})
}

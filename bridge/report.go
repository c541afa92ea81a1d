package bridge

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"achbridge/bridge/transport"
)

// Status tells what the node does at this moment. What the ages were over time is
// summed up by the caller, some 50 µs for each mirror, while the node goes on.
func (n *Node) Status() Status {
	var s Status
	var mirrors map[string]*mirror
	n.call(func() { s, mirrors = n.status(), maps.Clone(n.mirrors) })
	for i := range s.Mirrors {
		if m := mirrors[s.Mirrors[i].Name]; m != nil {
			s.Mirrors[i].Age = m.agesOver(n.now())
		}
	}
	return s
}

// Glance is Status but for what the ages were over time, which is most of its work.
func (n *Node) Glance() Status {
	var s Status
	n.call(func() { s = n.status() })
	return s
}

// Alive waits until the node answers; false means that it has ended.
func (n *Node) Alive() bool { return n.call(func() {}) }

func (n *Node) status() Status {
	now := n.now()
	s := Status{
		Host: n.cfg.Host, Node: n.cfg.Node.String(), UptimeS: now.Seconds(),
		Links: []LinkStatus{}, Mirrors: []MirrorStatus{}, Exports: []ExportStatus{},
		Pushes: []PushStatus{}, Locals: []LocalStatus{}, Peers: []PeerStatus{}, Events: n.events.counted(),
	}
	for _, l := range n.links {
		link, exports := l.status(now)
		s.Links = append(s.Links, link)
		s.Exports = append(s.Exports, exports...)
	}
	for _, m := range n.mirrors {
		s.Mirrors = append(s.Mirrors, m.status(now))
	}
	s.Mirrors = append(s.Mirrors, n.missing()...)
	for _, p := range n.pushes {
		s.Pushes = append(s.Pushes, PushStatus{Push: p.Push, State: cmp.Or(p.state, stateWaiting), Reason: p.reason, Cause: p.cause})
	}
	for _, l := range n.locals {
		s.Locals = append(s.Locals, l.status())
	}
	for _, p := range n.peers {
		s.Peers = append(s.Peers, n.peerStatus(p))
	}
	slices.SortFunc(s.Links, func(a, b LinkStatus) int { return cmp.Compare(a.Peer, b.Peer) })
	slices.SortFunc(s.Mirrors, func(a, b MirrorStatus) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Exports, func(a, b ExportStatus) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Peer, b.Peer))
	})
	slices.SortFunc(s.Locals, func(a, b LocalStatus) int { return cmp.Compare(a.Channel, b.Channel) })
	slices.SortFunc(s.Peers, func(a, b PeerStatus) int { return cmp.Compare(a.Host, b.Host) })
	return s
}

func (l *link) status(now time.Duration) (LinkStatus, []ExportStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	srtt, _ := l.flight.RTT()
	offset, uncertainty, _ := l.clock.Offset(now)
	s := LinkStatus{
		Peer: l.host, Node: l.peer.String(), Addr: l.s.RemoteAddr().String(), Transport: l.s.Transport(), State: stateUp, Dialled: l.s.Dialled(),
		UpS: (now - l.up).Seconds(), RTTms: ms(cmp.Or(srtt, l.s.RTT())), ClockOffsetMs: ms(offset), ClockUncertaintyMs: ms(uncertainty),
		DatagramBytes: l.s.MaxDatagram(), Traffic: l.traffic.status(now, &l.flight, &l.receipts),
	}
	if path := l.pacer.Path(); path > 0 {
		mbit := path * 8 / 1e6
		s.PathMbit = &mbit
	}
	if l.silent {
		s.State, s.SilentS = stateSilent, (now - l.since).Seconds()
	}
	exports, carried := make([]ExportStatus, 0, len(l.order)), l.flight.Carried()
	for _, e := range l.order {
		export := ExportStatus{
			Channel: e.channel, Peer: l.host, QoS: e.qos, Seq: e.arrived, Bytes: e.size, Accounts: e.accounts(!carried[e.id]),
		}
		if e.trouble != nil && !errors.Is(e.trouble, os.ErrDeadlineExceeded) {
			export.Reason = e.trouble.Error()
		}
		exports = append(exports, export)
	}
	return s, exports
}

func (m *mirror) status(now time.Duration) MirrorStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := MirrorStatus{
		Host: m.host, Channel: m.channel, Name: m.name, State: m.stateNow(), Reason: m.reason, Cause: m.cause,
		Bytes: m.bytes, TransitMs: m.transitMs(), LockWaitS: m.waits.total(now).Seconds(),
		QoS: m.qos.shown(), Seq: m.tag.Seq, Accounts: m.accounts(), Replaced: m.replaced, Foreign: m.foreign, Safe: m.vigil.safe, Temporary: m.peek,
	}
	m.showStale(&s)
	if m.link != nil {
		if m.link.silent && m.state == stateLive {
			s.Reason, s.Cause = m.link.silentText(now), CausePeerSilent
		}
		m.learn(m.link.clockAt(now))
	}
	s.AgeMs = m.ages.now(now)
	return s
}

// stateNow needs m.mu, and belongs to the node's goroutine.
func (m *mirror) stateNow() string {
	switch {
	case m.state != stateLive:
		return cmp.Or(m.state, stateWaiting)
	case m.link != nil && m.link.silent:
		return stateWaiting
	case m.vigil.stale:
		return stateStale
	}
	return stateLive
}

// showStale needs m.mu.
func (m *mirror) showStale(s *MirrorStatus) {
	if !m.vigil.stale {
		return
	}
	now := time.Now()
	s.StaleS = now.Sub(m.vigil.last.Add(m.qos.Deadline)).Seconds()
	if s.State == stateStale {
		s.Reason = cmp.Or(s.Reason, m.staleText(now))
	}
}

// missing are the wishes for one exact channel that nothing serves yet.
func (n *Node) missing() []MirrorStatus {
	var list []MirrorStatus
	told := map[string]bool{}
	for _, w := range slices.Concat(n.wishes(), n.pushed()) {
		name := w.Name(w.Host, w.Channel)
		if isPattern(w.Host) || isPattern(w.Channel) || n.mirrors[name] != nil || told[name] {
			continue
		}
		if rule, ok := n.wishFor(w.Host, w.Channel); !ok || rule.Name(w.Host, w.Channel) != name {
			continue // another goes before it
		}
		told[name] = true
		cause, reason := CausePeerMissing, "no link to "+w.Host
		for _, l := range n.links {
			if l.host == w.Host {
				cause, reason = CauseNoChannel, w.Host+" does not offer it"
			}
		}
		list = append(list, MirrorStatus{Host: w.Host, Channel: w.Channel, QoS: w.QoS.shown(), Name: name, State: stateWaiting, Reason: reason, Cause: cause})
	}
	return list
}

func (l *local) status() LocalStatus {
	s := LocalStatus{Channel: l.name, Exported: l.ch != nil && l.reason == "", Reason: l.reason, Cause: l.cause}
	if l.ch != nil {
		g := l.ch.Geometry()
		s.FrameCount, s.FrameSize, s.Seq = g.FrameCount, g.FrameSize, l.ch.LastSeq()
	}
	return s
}

func (n *Node) peerStatus(p *peer) PeerStatus {
	s := PeerStatus{Host: p.Host, Node: p.Node, Addrs: addrStrings(p.Addrs), State: "known"}
	if p.stop != nil {
		s.State = "dialling"
	}
	if p.err != nil {
		s.Error, s.Cause = p.err.Error(), causeOf(p.err)
	}
	switch {
	case n.linkTo(p) != nil:
		s.State, s.Error, s.Cause = "linked", "", ""
	case p.unlisted:
		s.State = "missed"
	}
	return s
}

// Channels are the channels that linked peers offer, ordered by host and name.
func (n *Node) Channels() []RemoteChannel {
	list := []RemoteChannel{}
	n.call(func() {
		for _, l := range n.links {
			if l.silent && n.now() > l.since+goneAfter {
				continue
			}
			for _, c := range l.catalog {
				r := RemoteChannel{
					Host: l.host, Channel: c.Name, FrameCount: c.FrameCount, FrameSize: c.FrameSize,
					Node: l.peer.String(), Addrs: []string{l.s.RemoteAddr().String()}, Closed: c.Closed,
				}
				if w, ok := n.wishFor(l.host, c.Name); ok && n.mirrors[w.Name(l.host, c.Name)] != nil {
					r.MirroredAs = w.Name(l.host, c.Name)
				}
				list = append(list, r)
			}
		}
	})
	slices.SortFunc(list, func(a, b RemoteChannel) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Channel, b.Channel))
	})
	return list
}

// Exported are the channels that this node offers to everybody, for discovery.
func (n *Node) Exported() []LocalStatus {
	list := []LocalStatus{}
	n.call(func() {
		for _, l := range n.locals {
			if s := l.status(); s.Exported {
				list = append(list, s)
			}
		}
	})
	slices.SortFunc(list, func(a, b LocalStatus) int { return cmp.Compare(a.Channel, b.Channel) })
	return list
}

func addrStrings(addrs []transport.Addrs) []string {
	list := make([]string, 0, len(addrs))
	for _, a := range addrs {
		list = append(list, a.String())
	}
	return list
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package bridge

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"achbridge/bridge/layouts"
	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// Status returns the present state of the node. The caller's goroutine computes the distributions
// of the ages, about 50 µs for each mirror, while the node continues. It then checks whether the
// newest frames have the size of their layouts.
func (n *Node) Status() status.Report {
	var s status.Report
	var mirrors map[string]*binding
	var localChecks, mirrorChecks map[string]layouts.SizeCheck
	n.loop.call(func() {
		s, mirrors = n.status(), maps.Clone(n.mirrors.byName)
		localChecks, mirrorChecks = n.sizeChecks()
	})
	for i := range s.Mirrors {
		if m := mirrors[s.Mirrors[i].Name]; m != nil {
			s.Mirrors[i].Age = m.Ages(n.now())
		}
	}
	for i := range s.Locals {
		if c, known := localChecks[s.Locals[i].Channel]; known {
			s.Locals[i].Mismatch = c.Mismatch()
		}
	}
	for i := range s.Mirrors {
		if c, known := mirrorChecks[s.Mirrors[i].Name]; known {
			s.Mirrors[i].Mismatch = c.Mismatch()
		}
	}
	return s
}

// StatusNow returns the same as Status, without Age, which takes most of the time, and without
// Misfit.
func (n *Node) StatusNow() status.Report {
	var s status.Report
	n.loop.ask(func() { s = n.status() })
	return s
}

// Alive waits until the node answers. It returns false if the node has ended.
func (n *Node) Alive() bool { return n.loop.call(func() {}) }

func (n *Node) status() status.Report {
	now := n.now()
	s := status.Report{
		Host: n.cfg.Host, Node: n.cfg.Node.String(), UptimeS: now.Seconds(), CPUWait: n.cpuWait, NoInotify: n.locals.NoInotify(), Copied: n.machines.ownCopy.report(now),
		Links: []status.Link{}, Mirrors: []status.Mirror{}, Exports: []status.Subscription{},
		Pushes: n.pushes.status(), Locks: n.lockStatus(), Locals: []status.Local{}, Peers: n.peers.Status(now, n.view()), Events: n.events.Counted(),
	}
	if err := n.cfg.Endpoint.MarkingErr(); err != nil {
		s.NoDSCP = err.Error()
	}
	for _, l := range n.links {
		link, exports := l.status(now)
		link.LeftOut, link.CopyAt, link.OtherWay = l.catalog.remote.omittedCount, n.machines.copies[l.peer].report(now), n.otherWay(l)
		s.Links = append(s.Links, link)
		s.Exports = append(s.Exports, exports...)
	}
	for _, m := range n.mirrors.byName {
		mirrorStatus := m.Mirror.Status(now, m.reading(now, n.clocks.suspended), m.silence(now))
		mirrorStatus.TypeHash = n.mirrors.remoteChannel(m).layout.String()
		m.showWay(&mirrorStatus)
		n.showMux(m, &mirrorStatus)
		n.showMerge(m, &mirrorStatus)
		n.showHolder(m, &mirrorStatus)
		mirrorStatus.Unshifted = n.unshifted(m)
		s.Mirrors = append(s.Mirrors, mirrorStatus)
	}
	s.Mirrors = append(s.Mirrors, n.missing()...)
	for _, c := range n.locals.All() {
		s.Locals = append(s.Locals, c.Status())
	}
	slices.SortFunc(s.Links, func(a, b status.Link) int { return cmp.Compare(a.Peer, b.Peer) })
	slices.SortFunc(s.Mirrors, func(a, b status.Mirror) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Exports, func(a, b status.Subscription) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Peer, b.Peer))
	})
	slices.SortFunc(s.Locals, func(a, b status.Local) int { return cmp.Compare(a.Channel, b.Channel) })
	return s
}

func (l *link) status(now time.Duration) (status.Link, []status.Subscription) {
	clock := l.frames.ReadClock(now)
	s := status.Link{
		Peer: l.host, Node: l.peer.String(), Addr: l.s.RemoteAddr().String(), Transport: l.s.Transport(), Way: l.way(), State: status.LinkUp, Dialled: l.s.Dialled(),
		UpS: (now - l.lifecycle.upAt).Seconds(), RTTms: status.Ms(l.rtt()), ClockOffsetMs: status.Ms(clock.Offset), ClockUncertaintyMs: status.Ms(clock.Uncertainty),
		Inbound: inboundPath(l.path.inbound), DatagramBytes: l.s.MaxDatagram(), DSCP: l.s.DSCP().String(), Traffic: l.frames.Traffic(now),
	}
	if _, path := l.frames.Path(now); path > 0 {
		mbit := path * 8 / 1e6
		s.PathMbit = &mbit
	}
	if l.isInSilence() {
		s.State, s.SilentS = status.LinkSilent, (now - l.silence.since).Seconds()
	}
	exports := make([]status.Subscription, 0, len(l.exports.order))
	for _, x := range l.exports.order {
		frameCounters, _ := x.FrameCounters()
		export := status.Subscription{
			Channel: x.channel, Peer: l.host, QoS: x.qos, FrameCounters: frameCounters,
		}
		x.reader.show(&export)
		x.Show(&export)
		if x.unreadable() {
			export.Reason, export.Cause = x.Problem().Error(), causeOf(x.Problem())
		}
		exports = append(exports, export)
	}
	return s, exports
}

// silence returns why the mirror is not fed although it has a link; "" if the link is not silent.
func (m *binding) silence(now time.Duration) string {
	if m.link == nil || !m.link.isInSilence() {
		return ""
	}
	return m.link.silentText(now)
}

// missing returns the requests for one exact channel that have no mirror yet.
func (n *Node) missing() []status.Mirror {
	var list []status.Mirror
	v, listed := n.view(), map[string]bool{}
	for _, w := range n.requests.withPushed() {
		name := w.Name(w.Host, w.Channel)
		if rule.IsPattern(w.Host) || rule.IsPattern(w.Channel) || n.mirrors.byName[name] != nil || listed[name] {
			continue
		}
		if found, ok := n.requests.find(w.Host, w.Channel); !ok || found.Name(w.Host, w.Channel) != name {
			continue // another request takes precedence
		}
		listed[name] = true
		cause, reason := status.CausePeerMissing, "no link to "+w.Host
		if name := n.peers.NameOfListed(w.Host, v); name != "" {
			reason += ": the peer listed as " + w.Host + " is " + name + ", use that name"
		}
		for _, l := range n.links {
			if l.host == w.Host {
				cause, reason = status.CauseNoChannel, w.Host+" does not offer it"
			}
		}
		list = append(list, status.Mirror{Host: w.Host, Channel: w.Channel, QoS: w.QoS.WithoutFrame(), Name: name, State: status.MirrorWaiting, Reason: reason, Cause: cause})
	}
	return list
}

// Channels returns the channels that linked peers offer, ordered by host and name.
func (n *Node) Channels() []status.RemoteChannel {
	list := []status.RemoteChannel{}
	n.loop.ask(func() {
		for _, l := range n.links {
			if l.isInSilence() && n.now() > l.silence.since+goneAfter {
				continue
			}
			for _, c := range l.catalog.remote.channels {
				r := status.RemoteChannel{
					Host: l.host, Channel: c.Name, FrameCount: c.FrameCount, FrameSize: c.FrameSize,
					Node: l.peer.String(), Addrs: []string{l.s.RemoteAddr().String()}, Closed: c.Closed, Way: l.way(), CopyAt: n.machines.copies[l.peer].report(n.now()),
				}
				if c.Kernel {
					r.Kind = status.KindKernel
				}
				if w, ok := n.requests.find(l.host, c.Name); ok && n.mirrors.byName[w.Name(l.host, c.Name)] != nil {
					r.MirroredAs = w.Into(l.host, c.Name)
				}
				list = append(list, r)
			}
		}
	})
	slices.SortFunc(list, func(a, b status.RemoteChannel) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Channel, b.Channel))
	})
	return list
}

// Exported returns the channels that this node offers to all peers, for discovery.
func (n *Node) Exported() []status.Local {
	list := []status.Local{}
	n.loop.call(func() {
		for _, c := range n.locals.All() {
			if s := c.Status(); s.Exported {
				list = append(list, s)
			}
		}
	})
	slices.SortFunc(list, func(a, b status.Local) int { return cmp.Compare(a.Channel, b.Channel) })
	return list
}

// Age watches the age of the mirror called name for a window. It blocks for the whole window. The
// error is fs.ErrNotExist if there is no such mirror, or that of ctx.
func (n *Node) Age(ctx context.Context, name string, window time.Duration) (status.AgeReport, error) {
	var m *binding
	n.loop.call(func() { m = n.mirrors.byName[name] })
	if m == nil {
		return status.AgeReport{}, fmt.Errorf("no mirror %s%.0w", name, fs.ErrNotExist)
	}
	watch := m.WatchAge(n.now())
	pause(ctx, window)
	var at mirror.Reading
	n.loop.call(func() { at = m.reading(n.now(), n.clocks.suspended) })
	return m.EndWatch(watch, n.now(), at), ctx.Err()
}

// Newest returns a function that returns the number in the ring and the age of the newest frame that the mirror called name has
// put; known is false while the age is unknown. The function takes the mirror's lock, and may be called from any goroutine.
// Newest returns nil if there is no such mirror.
func (n *Node) Newest(name string) func() (seq uint64, age time.Duration, known bool) {
	var m *binding
	n.loop.call(func() { m = n.mirrors.byName[name] })
	if m == nil {
		return nil
	}
	return func() (uint64, time.Duration, bool) {
		p := m.NewestPut()
		return p.Seq, n.now() - p.Captured, p.Captured != 0
	}
}

// AgesSinceLast returns the ages of all mirrors since its last call, in no order. Only one caller
// may use it, to plot the ages over time. It takes about 1 µs for each mirror.
func (n *Node) AgesSinceLast() []status.AgeLately {
	var list []status.AgeLately
	n.loop.call(func() {
		for _, m := range n.mirrors.byName {
			list = append(list, m.Lately(n.now(), m.reading(n.now(), n.clocks.suspended)))
		}
	})
	return list
}

// Events returns the events after number after; 0 returns all. If there are none, it waits until
// ctx ends, and then returns an empty list. The error is that the node has ended. The node keeps
// the newest 512 events; Missed is the number of older ones that the caller missed.
func (n *Node) Events(ctx context.Context, after uint64) (status.EventList, error) {
	for {
		list, missed, more := n.events.Since(after)
		l := status.EventList{Run: fmt.Sprintf("%016x", n.run), Missed: missed, Events: list}
		if len(list) > 0 {
			return l, nil
		}
		l.Events = []status.Event{}
		select {
		case <-more:
		case <-ctx.Done():
			return l, nil
		case <-n.loop.done:
			return l, fmt.Errorf("events: the daemon has ended: %w", net.ErrClosed)
		}
	}
}

// LogEvent logs a message and records e as an event of the node. It sets e's Seq and Time. args are
// further attributes of the log line.
func (n *Node) LogEvent(level slog.Level, message string, e status.Event, args ...any) {
	n.events.Record(level, message, e, args...)
}

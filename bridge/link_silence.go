package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"achbridge/bridge/logline"
	"achbridge/bridge/status"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/bridge/unit"
)

// silence records whether a link is silent: no packets arrive although some are due. It belongs to
// the node's goroutine.
type silence struct {
	packets    uint64        // number of the peer's packets at the last check
	receivedAt time.Duration // when packets last increased
	since      time.Duration // when the present silence began
	isLogged   bool          // an event about the present silence was logged
	logLimit   logline.Limit // limits events about silences
}

// goneAfter is the silence of a link after which its peer's channels are no longer listed.
const goneAfter = 2 * time.Second

// quiet reports whether a link is silent at now, and since when. A link is silent if the peer has
// not acknowledged frames that we keep sending for max(300 ms, 4 RTT), even if other packets
// arrive. If we send no frames, it is silent if no packet at all has arrived for that time and one
// interval of the transport's keep-alives.
func (l *link) quiet(now time.Duration) (since time.Duration, silent bool) {
	l.heardAt(now)
	if l.overHub() {
		return l.silence.receivedAt, now-l.silence.receivedAt >= l.patience()
	}
	if now-l.silence.receivedAt >= session.KeepAlive+max(300*time.Millisecond, 4*l.s.RTT()) {
		return l.silence.receivedAt, true
	}
	return l.frames.Unanswered(now)
}

// heardAt returns when a packet of the peer was noticed last.
func (l *link) heardAt(now time.Duration) time.Duration {
	if n := l.s.ReceivedPackets(); n != l.silence.packets {
		l.silence.packets, l.silence.receivedAt = n, now
	}
	return l.silence.receivedAt
}

// silentText returns the reason why the mirrors of a silent link are not fed.
func (l *link) silentText(now time.Duration) string {
	return fmt.Sprintf("%s is silent for %s", l.host, unit.Time((now - l.silence.since).Round(100*time.Millisecond)))
}

// listen handles the beginning and the end of a link's silence. A silent link stays, since it is
// the quickest way to notice that the path works again. If nothing at all arrives, dialWanted
// dials its peer meanwhile, in case the link does not recover.
func (n *Node) listen(l *link) {
	if l.overHub() {
		n.listenHub(l)
		return
	}
	since, silent := l.quiet(n.now())
	l.silence.since = since
	if silent == l.isInSilence() {
		return
	}
	if silent {
		l.move(linkSilent)
	} else {
		l.move(linkLive)
	}
	n.loop.changed()
	for _, in := range l.inbound {
		if silent {
			in.m.FellSilent()
		} else {
			in.m.OriginReturned()
		}
	}
	if silent {
		n.reportSilent(l)
		n.peers.FellSilent(n.now(), l.known())
		n.succeed(l)
		return
	}
	if l.silence.isLogged {
		l.silence.isLogged = false
		n.events.Record(slog.LevelInfo, "link heard again", status.Event{Kind: status.EventLinkReceives, Host: l.host, Text: "heard again"}, "node", l.peer.String())
	}
	n.peers.Recovered(l.known())
}

// Limits of the events about a link that is repeatedly silent: silenceBurst events at once, then
// one every silenceEvery, with the number of silences.
const (
	silenceBurst = 4
	silenceEvery = 10 * time.Second
)

func (n *Node) reportSilent(l *link) {
	l.silence.logLimit.Burst, l.silence.logLimit.Period = silenceBurst, silenceEvery
	var count int
	if count, l.silence.isLogged = l.silence.logLimit.Cause(n.now()); !l.silence.isLogged {
		return
	}
	e := status.Event{Kind: status.EventLinkSilent, Host: l.host, Text: l.silentText(n.now())}
	if count > 1 {
		e.Count = count
	}
	n.events.Record(slog.LevelInfo, "link silent", e, "node", l.peer.String(), "count", count)
}

// succeed ends a silent link whose host has returned as another node. That node has the same name,
// and its link started after the last packet of the silent link.
func (n *Node) succeed(l *link) {
	for _, other := range n.links {
		if other == l || other.isInSilence() || other.s.Peer().Host != l.s.Peer().Host || other.lifecycle.upAt < l.silence.receivedAt-tick {
			continue
		}
		n.linkDown(l, errors.New("its host is node "+other.peer.String()+" now"))
		if n.hostName(other.s) != other.host {
			n.linkDown(other, errors.New("it comes back under a name of its own"))
		}
		return
	}
}

// With both transports the largest packet of a link is fixed when the link begins. When the
// path later carries only smaller packets, these still arrive, and all large ones are lost.
// Only that loss shows the change.

// narrowed ends a link on which only small packets arrive, so that the next link uses small
// packets. The next link runs over SCTP, since QUIC needs packets of 1252 bytes. If SCTP is not
// allowed, or the peer's SCTP address is unknown, the link stays and carries only small frames.
func (n *Node) narrowed(l *link) (ended bool) {
	if !l.frames.IsNarrow(n.now()) {
		l.warned.narrow = false
		return false
	}
	if n.peers.MayUseSCTP(l.known(), n.view()) {
		n.linkDown(l, unwelcome(fmt.Sprintf("the path carries no packets of %d bytes any more", l.s.MaxDatagram())))
		return true
	}
	if !l.warned.narrow {
		l.warned.narrow = true
		n.cfg.Log.Warn("only small packets arrive, SCTP could send only those", "peer", l.host, "transport", l.s.Transport(), "bytes", l.s.MaxDatagram())
	}
	return false
}

// errDirect ends a session through the hub.
const errDirect = unwelcome("there is a direct link")

// Two nodes may open a second session: both dialled at once, one was restarted, or one receives
// nothing on their link and dials again. Both ends must keep the same session, although each knows
// only its own view. So the node that dialled the second session decides: it sends Hello on that
// session if the session is to become the link. Until then both nodes keep the session as a spare,
// and they keep their link. The node that was dialled sends Hello at once. That Hello identifies
// the machine that has answered (machine.go).

// linkUp makes a new session the link to its peer, or a spare.
func (n *Node) linkUp(s *session.Session) {
	if !n.peers.Allows(endOf(s), n.view()) {
		n.cfg.Log.Info("session refused, the peer must link over another transport", "peer", s.Peer().Host,
			"addr", s.RemoteAddr().String(), "transport", s.Transport())
		n.loop.work.Go(func() { s.Close("not over " + s.Transport().String() + ": this node wants the other transport") })
		return
	}
	old := n.links[s.Peer().Node]
	if old != nil && old.s.Peer().Host != s.Peer().Host {
		n.endLinks(old, errors.New("its host is called "+s.Peer().Host+" now")) // a host keeps its name while its daemon runs, so this is another daemon
		old = nil
	}
	if overHub(s) && old != nil && !old.overHub() && !old.isSilent() {
		n.loop.work.Go(func() { s.Close(string(errDirect)) })
		return
	}
	if old == nil && !n.peers.HasRoom(endOf(s), n.view()) {
		n.turnAway(s)
		return
	}
	if old == nil {
		l := n.newLink(s, n.hostName(s))
		l.serve()
		n.take(l)
		return
	}
	l := n.newLink(s, old.host)
	l.serve()
	if former := n.spares[l.standbyKey()]; former != nil {
		n.dropStandby(former, errors.New("a newer link takes its place"))
	}
	n.spares[l.standbyKey()] = l
	if !s.Dialled() {
		l.sayHello()
	}
}

// standbysOf returns the spares of a peer: first the one that the peer dialled.
func (n *Node) standbysOf(peer trust.NodeID) (list []*link) {
	for _, dialled := range []bool{false, true} {
		if l := n.spares[standbyKey{peer, dialled}]; l != nil {
			list = append(list, l)
		}
	}
	return list
}

// linksAndSpares returns the links of all peers, then the spares.
func (n *Node) linksAndSpares() []*link {
	return slices.AppendSeq(slices.Collect(maps.Values(n.links)), maps.Values(n.spares))
}

// dropStandby removes a spare and ends its goroutines.
func (n *Node) dropStandby(l *link, cause error) {
	delete(n.spares, l.standbyKey())
	l.move(linkEnded)
	l.cancel(cause)
}

// challenge compares a spare with the peer's link, after the spare's peer has sent Hello. It
// replaces the link by the spare if replaces returns true. If not, it drops a spare that this node
// dialled. A spare that leads to another machine stays until standbyTimeout, since the link may have
// ended unnoticed.
func (n *Node) challenge(l *link) {
	old := n.links[l.peer]
	if l.lifecycle.phase != linkStandby || !l.hello.isReceived || old == nil {
		return
	}
	switch {
	case n.machines.isCopy(l, old):
		n.refuseCopy(l, old)
	case l.dial.trial != nil && l.isSameMachine(old) && !old.isSilent():
		n.goOn(l, old)
	case n.replaces(l, old):
		n.take(l)
	case l.s.Dialled() && l.isSameMachine(old):
		n.dropStandby(l, unwelcome("there is a link already"))
	}
}

// isSilent reports whether a link is silent now (quiet).
func (l *link) isSilent() bool {
	_, silent := l.quiet(l.n.now())
	return silent
}

// replaces reports whether l replaces old. If l leads to another machine, it replaces old
// only when old is gone, or when commands last went to the machine of l. Of two working links to
// one machine, the one that the node with the lower id dialled stays. If the same node dialled
// both, the newer one stays.
func (n *Node) replaces(l, old *link) bool {
	if old.hello.isReceived && !l.isSameMachine(old) {
		return old.isGone(n.now()) || n.machines.isRight(l, old)
	}
	if old.overHub() && !l.overHub() {
		return true
	}
	if old.isSilent() || !n.peers.Allows(endOf(old.s), n.view()) {
		return true
	}
	if old.hello.isReceived && l.hello.run != old.hello.run {
		return true // the peer has restarted
	}
	if l.overHub() && !old.overHub() {
		return false
	}
	return l.s.Dialled() == old.s.Dialled() || l.s.Dialled() == n.cfg.Node.Less(l.peer)
}

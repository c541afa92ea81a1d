package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// silence is what the node has noticed of a link on which nothing is heard
// although it should be. It belongs to the node's goroutine.
type silence struct {
	packets uint64        // of the peer, as counted last
	heard   time.Duration // when that had grown
	silent  bool          // it is silent
	noted   bool          // so the events have it
	tells   allowance     // of silences that are told
	untold  int           // of those since the last one that was
	since   time.Duration // nothing was heard, if silent
}

// goneAfter is for how long a link may be silent before its peer's channels are
// not listed any more.
const goneAfter = 2 * time.Second

// quiet reports whether a link is silent at now, and since when. What should have
// been heard is, for max(300 ms, 4 RTT): the answer to frames that we keep sending,
// even if other things are heard; or else anything at all, which the transport's
// keep-alives bring when nothing is sent.
func (l *link) quiet(now time.Duration) (since time.Duration, silent bool) {
	if n := l.s.Heard(); n != l.packets {
		l.packets, l.heard = n, now
	}
	if now-l.heard >= transport.KeepAlive+max(300*time.Millisecond, 4*l.s.RTT()) {
		return l.heard, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flight.Unanswered(now)
}

// silentText says why the mirrors that a silent link feeds are not fed.
func (l *link) silentText(now time.Duration) string {
	return fmt.Sprintf("%s is silent for %v", l.host, (now - l.since).Round(100*time.Millisecond))
}

// listen notices that a link fell silent, or is heard again. A silent link stays,
// since it is the quickest way to know that the path is back; meanwhile its peer
// is dialled (dialWanted), in case the link will not come back with the path.
func (n *Node) listen(l *link) {
	since, silent := l.quiet(n.now())
	l.since = since
	if silent == l.silent {
		return
	}
	l.silent, n.changed = silent, true
	for _, m := range l.subs {
		m.Hush(silent)
	}
	if silent {
		n.tellSilent(l)
		n.succeed(l)
		return
	}
	if l.noted {
		l.noted = false
		n.events.Tell(slog.LevelInfo, "link heard again", status.Event{Kind: status.EventLinkHeard, Host: l.host, Text: "heard again"}, "node", l.peer.String())
	}
	for _, p := range n.peers {
		if p.node() == l.peer.String() {
			p.again()
		}
	}
}

// Of a link that is silent again and again, so many silences are told at once, and then
// one in a while, with their number.
const (
	silenceBurst = 4
	silenceEvery = 10 * time.Second
)

func (n *Node) tellSilent(l *link) {
	if l.tells.burst == 0 {
		l.tells = allowance{burst: silenceBurst, every: silenceEvery}
	}
	l.untold++
	if l.noted = l.tells.take(n.now()); !l.noted {
		return
	}
	e := status.Event{Kind: status.EventLinkSilent, Host: l.host, Text: l.silentText(n.now())}
	if l.untold > 1 {
		e.Count = l.untold
	}
	n.events.Tell(slog.LevelInfo, "link silent", e, "node", l.peer.String(), "count", l.untold)
	l.untold = 0
}

// succeed ends a silent link whose host has come back as another node: one that
// calls itself the same and came up when this one was heard last, or later.
func (n *Node) succeed(l *link) {
	for _, other := range n.links {
		if other == l || other.silent || other.s.Peer().Host != l.s.Peer().Host || other.up < l.heard-tick {
			continue
		}
		n.linkDown(l, errors.New("its host is node "+other.peer.String()+" now"))
		if n.hostName(other.s) != other.host {
			n.linkDown(other, errors.New("it comes back under a name of its own"))
		}
		return
	}
}

// ListedMissing reports whether a peer that was listed, and not only discovered, has
// no link, or one on which nothing is heard.
func (n *Node) ListedMissing() (missing bool) {
	n.call(func() {
		for _, p := range n.peers {
			here := false
			for _, l := range n.links {
				here = here || !l.silent && p.isListedAt(l.s)
			}
			missing = missing || p.Static && !here
		}
	})
	return missing
}

// How large a packet may be is settled when a link begins, with both transports. When
// its path carries less later, what is small still arrives, and nothing but the loss of
// all that is large tells of it.

// narrowed ends a link on which only small packets arrive, so that another is made that
// keeps to them: over SCTP, as QUIC needs packets of 1252 bytes and its dial fails now.
// Where only QUIC may be used, or is known of, the link stays for what is small.
func (n *Node) narrowed(l *link) (ended bool) {
	l.mu.Lock()
	narrow := l.flight.Narrow(n.now())
	l.mu.Unlock()
	if !narrow {
		l.narrow = false
		return false
	}
	if n.mayUseSCTP(l) {
		n.linkDown(l, unwelcome(fmt.Sprintf("the path carries no packets of %d bytes any more", l.s.MaxDatagram())))
		return true
	}
	if !l.narrow {
		l.narrow = true
		n.cfg.Log.Warn("only small packets arrive, SCTP would send nothing else", "peer", l.host, "transport", l.s.Transport(), "bytes", l.s.MaxDatagram())
	}
	return false
}

// mayUseSCTP reports whether the next link to the same peer may run over SCTP, as far
// as is known.
func (n *Node) mayUseSCTP(l *link) bool {
	if l.s.Transport() == via.SCTP {
		return true
	}
	for _, p := range n.peers {
		if p.node() != l.peer.String() {
			continue
		}
		for _, a := range n.dialAddrs(p) {
			if a.SCTP != nil {
				return true
			}
		}
	}
	return false
}

package bridge

import (
	"time"

	"achbridge/bridge/peers"
	"achbridge/bridge/via"
)

// Some networks drop packets that have a DSCP. A link over such a network becomes silent soon after its packets got one.
const (
	// markTrial is how long a link's packets must have a DSCP before a silence is no longer attributed to it.
	markTrial = 5 * time.Second
	// markPause is the time for which packets to the peer then have no DSCP.
	markPause = time.Hour
)

// mark sets the DSCP of the packets of l. Call it at each tick. A silent link gets no DSCP. If the silence began soon after the
// packets got a DSCP, they have none for markPause.
func (n *Node) mark(l *link) {
	d, now := via.CS0, n.now()
	if !n.cfg.NoDSCP && now >= n.unmarkedUntil[l.peer] {
		d = l.frames.DSCP()
	}
	switch {
	case d == via.CS0:
		l.markedAt = 0
	case l.markedAt == 0 && l.isInSilence():
		d = via.CS0
	case l.markedAt == 0:
		l.markedAt = now
	case l.isInSilence() && l.silence.since < l.markedAt+markTrial:
		n.cfg.Log.Warn("link silent since its packets are marked, sending them without marks", "peer", l.host, "dscp", l.s.DSCP().String(), "for", markPause)
		if len(n.unmarkedUntil) >= peers.MaxLinks {
			clear(n.unmarkedUntil)
		}
		n.unmarkedUntil[l.peer] = now + markPause
		d, l.markedAt = via.CS0, 0
	}
	l.s.SetDSCP(d)
}

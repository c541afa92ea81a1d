package bridge

import (
	"time"

	"achbridge/bridge/peers"
	"achbridge/bridge/via"
)

// Some networks drop packets with a DSCP. The link is then silent soon after its packets got one.
const (
	// markTrial is the time after which a silence is no longer attributed to the mark.
	markTrial = 5 * time.Second
	// markPause is how long the packets to a peer have no mark after such a silence.
	markPause = time.Hour
)

// mark sets the DSCP of the packets of l, at each tick.
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

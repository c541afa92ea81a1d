package bridge

import (
	"fmt"

	"achbridge/bridge/via"
)

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

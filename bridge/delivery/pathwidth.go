package delivery

import "time"

// pathWidth detects a PMTU black hole: the path begins to lose all large packets, for example
// because its traffic now goes through a tunnel, while small ones still arrive. The zero
// value is ready.
//
// pathWidth counts rounds. In a round large packets are lost, and then a smaller packet
// arrives that was sent after them. When a packet as large as the largest lost one arrives,
// the count starts over. An interruption of the path makes only one round, since packets of
// all sizes arrive after it.
type pathWidth struct {
	missing [widths]bool  // size classes in which a packet was lost, and no packet that large has arrived since
	since   time.Duration // when the first of the lost packets was sent
	latest  time.Duration // when the last of the lost packets was sent
	open    bool          // the round is not complete: no packet sent after latest has arrived
	rounds  int
}

const (
	// alwaysCarried is the size of datagrams, in bytes, that fit on every path: those over
	// SCTP on a path with an MTU of 576 bytes.
	alwaysCarried = 472

	widthStep    = 64 // bytes
	widths       = 32
	narrowRounds = 12 // at 30 % random loss, 12 large packets in a row are lost once in 2 million times
	narrowTime   = time.Second
)

func widthOf(size int) int { return min(size/widthStep, widths-1) }

// lost records that a datagram of size bytes, sent at sent, was lost.
func (w *pathWidth) lost(sent time.Duration, size int) {
	if size <= alwaysCarried {
		return
	}
	if !w.any() {
		w.since, w.latest, w.rounds = sent, sent, 0
	}
	w.missing[widthOf(size)], w.latest, w.open = true, max(w.latest, sent), true
}

// arrived records that a datagram of size bytes, sent at sent, has arrived.
func (w *pathWidth) arrived(sent time.Duration, size int) {
	if !w.any() {
		return
	}
	clear(w.missing[:widthOf(size)+1])
	if w.open && sent > w.latest {
		w.open = false
		w.rounds++
	}
}

// narrow reports whether no large packet has arrived for a second, although large ones were
// lost in narrowRounds rounds and smaller ones arrived.
func (w *pathWidth) narrow(now time.Duration) bool {
	return w.any() && w.rounds >= narrowRounds && now-w.since >= narrowTime
}

func (w *pathWidth) any() bool { return w.missing != [widths]bool{} }

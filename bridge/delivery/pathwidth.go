package delivery

import "time"

// pathWidth notices when a path begins to lose all large packets, for example because its
// traffic now goes through a tunnel. Then large packets are lost for ever, although the
// link is still heard. The zero value is ready.
//
// pathWidth counts rounds. In a round large packets are lost, and then a smaller packet
// arrives that left after them. When a packet arrives that is as large as any lost one, the
// count begins again. A cut of the path makes one round, since everything arrives after it.
type pathWidth struct {
	missing [widths]bool  // by size: a packet was lost, and none of this size or larger has arrived since
	since   time.Duration // when the first of the lost packets left
	latest  time.Duration // when the last of them left
	open    bool          // the round is not complete: no smaller packet that left later has arrived
	rounds  int
}

const (
	// alwaysCarried is the size of datagrams, in bytes, that no path loses for being
	// too large: those over SCTP on a path of 576 bytes.
	alwaysCarried = 472

	widthStep    = 64 // bytes
	widths       = 32
	narrowRounds = 12 // at 30 % random loss, 12 large packets in a row are lost once in 2 million times
	narrowTime   = time.Second
)

func widthOf(size int) int { return min(size/widthStep, widths-1) }

// lost records a datagram of size bytes that left at sent and was lost.
func (w *pathWidth) lost(sent time.Duration, size int) {
	if size <= alwaysCarried {
		return
	}
	if !w.any() {
		w.since, w.latest, w.rounds = sent, sent, 0
	}
	w.missing[widthOf(size)], w.latest, w.open = true, max(w.latest, sent), true
}

// arrived records a datagram of size bytes that left at sent and arrived.
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
// sent and smaller ones arrived.
func (w *pathWidth) narrow(now time.Duration) bool {
	return w.any() && w.rounds >= narrowRounds && now-w.since >= narrowTime
}

func (w *pathWidth) any() bool { return w.missing != [widths]bool{} }

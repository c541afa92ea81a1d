package fresh

import "time"

// pathWidth notices that a path has come to carry small packets only, since its traffic
// goes through a tunnel now, say. What needs large ones is then lost for ever, while
// the link is heard as before. The zero value is ready.
//
// What it counts are rounds: large packets were lost, and a smaller one arrived that
// left after them. One that is as large as any lost one ends the count. A cut, after
// which everything arrives again, is one round.
type pathWidth struct {
	missing [widths]bool  // since one as large arrived, by size
	since   time.Duration // when the first of them left
	latest  time.Duration // and the last
	open    bool          // no smaller one has arrived that left after it
	rounds  int
}

const (
	// alwaysCarried is the size of datagrams, in bytes, that no path loses for being
	// too large: those over SCTP on a path of 576 bytes.
	alwaysCarried = 472

	widthStep    = 64 // bytes
	widths       = 32
	narrowRounds = 12 // at 30 % random loss as many large packets in a row are lost once in 2 million times
	narrowTime   = time.Second
)

func widthOf(size int) int { return min(size/widthStep, widths-1) }

// lost takes a datagram of size bytes that left at sent and did not arrive.
func (w *pathWidth) lost(sent time.Duration, size int) {
	if size <= alwaysCarried {
		return
	}
	if !w.any() {
		w.since, w.latest, w.rounds = sent, sent, 0
	}
	w.missing[widthOf(size)], w.latest, w.open = true, max(w.latest, sent), true
}

// arrived takes one that did.
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

// narrow reports that for a second nothing large has arrived, though it was tried and
// smaller things have.
func (w *pathWidth) narrow(now time.Duration) bool {
	return w.any() && w.rounds >= narrowRounds && now-w.since >= narrowTime
}

func (w *pathWidth) any() bool { return w.missing != [widths]bool{} }

package bridge

// The order of locks. Who holds one takes only those below it, and never two of the
// same rank:
//
//	mirror.mu                a mirror's file and what became of its frames
//	link.mu                  what pump and receive share
//	news.mu                  which subscriptions have news for the pump
//	note.mu                  what the watcher tells of a channel
//	snapshots.mu             the copies of a channel's large frames
//	memory.mu, space.mu      what all copies, and all mirrors, take
//	link.outMu               control messages that are not written yet
//
// Under the first two nobody sleeps or waits for another program; what they log goes
// through a writer that never waits (package logline). Builds with the tag lockorder check
// the order (lock_checked.go), which CI tests with.
type (
	ofMirror    struct{}
	ofLink      struct{}
	ofNews      struct{}
	ofNote      struct{}
	ofSnapshots struct{}
	ofLeaf      struct{}
)

// rank is the place of a lock in the order, from 1, which is taken first.
type rank interface {
	rank() (place int, name string)
}

func (ofMirror) rank() (int, string)    { return 1, "mirror.mu" }
func (ofLink) rank() (int, string)      { return 2, "link.mu" }
func (ofNews) rank() (int, string)      { return 3, "news.mu" }
func (ofNote) rank() (int, string)      { return 4, "note.mu" }
func (ofSnapshots) rank() (int, string) { return 5, "snapshots.mu" }
func (ofLeaf) rank() (int, string)      { return 6, "memory.mu, space.mu or link.outMu" }

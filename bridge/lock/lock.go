// Package lock has mutexes with a place in the order in which they are taken:
//
//	mu lock.Mutex[lock.Link]
//
// The order of locks: who holds one takes only those below it, and never two of the
// same rank:
//
//	hubway.Consumer.mu       what came of a channel from the hub
//	mirror.mu                a mirror's file and what became of its frames
//	send.Link.mu             what sending and receiving share
//	hubway.publisher.mu      what is put at the hub of a channel, and for whom
//	news.mu                  which subscriptions have news for the pump
//	ring.Arrivals.mu         what the watcher tells of a channel
//	ring.Snapshots.mu        the copies of a channel's large frames
//	Budget.mu, space.mu      what all copies, and all mirrors, take
//	controlQueue.mu          control messages that are not written yet
//
// Under the first three nobody sleeps or waits for another program; what they log goes
// through a writer that never waits (package logline). Builds with the tag lockorder check
// the order (checked.go), which CI tests with.
package lock

// The locks, by the package and field that has them.
type (
	Consumer  struct{}
	Mirror    struct{}
	Link      struct{}
	Publisher struct{}
	News      struct{}
	Arrivals  struct{}
	Snapshots struct{}
	Leaf      struct{}
)

// rank is the place of a lock in the order, from 1, which is taken first.
type rank interface {
	rank() (place int, name string)
}

func (Consumer) rank() (int, string)  { return 1, "hubway.Consumer.mu" }
func (Mirror) rank() (int, string)    { return 2, "mirror.mu" }
func (Link) rank() (int, string)      { return 3, "send.Link.mu" }
func (Publisher) rank() (int, string) { return 4, "hubway.publisher.mu" }
func (News) rank() (int, string)      { return 5, "news.mu" }
func (Arrivals) rank() (int, string)  { return 6, "ring.Arrivals.mu" }
func (Snapshots) rank() (int, string) { return 7, "ring.Snapshots.mu" }
func (Leaf) rank() (int, string)      { return 8, "Budget.mu, space.mu or controlQueue.mu" }

// Package lock provides mutexes that have a rank in the locking order:
//
//	mu lock.Mutex[lock.Link]
//
// A goroutine that holds a lock may take only locks below it in this list, and never two of the same rank:
//
//	hubway.Consumer.mu       a channel's frames received from the hub
//	mirror.mu                a mirror's file and the outcomes of its frames
//	send.Link.mu             state shared by sending and receiving
//	hubway.publisher.mu      a channel published to the hub, and its subscribers
//	news.mu                  subscriptions with new frames for the send loop
//	ring.Arrivals.mu         a channel's new frames as reported by the watcher
//	ring.Snapshots.mu        copies of a channel's large frames
//	Budget.mu, space.mu      memory used by all copies, and by all mirrors
//	controlQueue.mu          control messages that are not written yet
//
// A goroutine that holds one of the first three must not sleep or wait for another program. Its log output goes
// through a writer that never blocks (package logline). Builds with the tag lockorder check the order
// (checked.go); CI tests with this tag.
package lock

// Ranks of locks, named after the package or type that has the lock.
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

// rank returns a lock's position in the order. Locks of rank 1 are taken first.
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

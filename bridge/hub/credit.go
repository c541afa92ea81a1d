package hub

import "time"

// credit decides how many fetches a reader has in flight. There must be enough that the hub need
// not wait for the next one. There must not be more, since frames sent early wait on a thin path.
// credit is pure: it has no clock and no I/O.
//
// If the hub replaced frames before they were sent, the reader is slower than the origin. Then
// either there are too few fetches and frames wait at the hub, or too many and frames wait in the
// path. In both cases the delay exceeds the shortest one. So credit tries a change, and reverts it
// if the reader's newest frame did not become younger.
type credit struct {
	fetches   int
	beside    bool // large frames arrive too, and delay these
	began     bool
	last      stored
	lastCame  time.Duration
	least     time.Duration // shortest delay, by both hosts' clocks; only differences are meaningful
	leastAt   time.Duration
	delay     time.Duration                       // average excess over the shortest delay
	interval  time.Duration                       // average time between frames
	frames    int                                 // frames counted since fetches changed; negative while the first frames are ignored
	replaced  bool                                // frames were replaced at the hub
	before    int                                 // value of fetches before the present try; 0 means no try
	ageBefore time.Duration                       // age of the newest frame before the try
	failed    struct{ more, fewer time.Duration } // until when a reverted change is not tried again
}

const (
	// creditFrames is the number of frames after which fetches may change.
	creditFrames = 12
	// creditHolds is how long the shortest delay stays valid.
	creditHolds = 30 * time.Second
	// creditJump is a change of the delay that means that the hub's clock was set.
	creditJump = 10 * time.Second
	// creditWeight is the weight of the previous average relative to a new value.
	creditWeight = 7
	// creditTries is how long a reverted change is not tried again.
	creditTries = 5 * time.Second
)

func newCredit() credit { return credit{fetches: maxFetches} }

// frame handles a frame that arrived at now, by a monotonic clock. trip is the path's shortest
// round trip.
func (c *credit) frame(now time.Duration, s stored, trip time.Duration) {
	delay := now - s.at
	if !c.began || delay < c.least || delay > c.least+creditJump || now-c.leastAt > creditHolds {
		c.least, c.leastAt = delay, now
	}
	if !c.began || s.number <= c.last.number {
		c.began, c.last, c.lastCame = true, s, now
		return
	}
	interval := now - c.lastCame
	if c.frames <= 0 {
		c.delay, c.interval, c.replaced = delay-c.least, interval, false
	}
	c.delay = (creditWeight*c.delay + delay - c.least) / (creditWeight + 1)
	c.interval = (creditWeight*c.interval + interval) / (creditWeight + 1)
	c.replaced = c.replaced || s.number > c.last.number+1
	c.last, c.lastCame = s, now
	if c.frames++; c.frames >= creditFrames && c.replaced {
		c.judge(now, trip)
	}
}

// judge tries a change of fetches, or reverts one that did not make the reader's newest frame
// younger.
func (c *credit) judge(now, trip time.Duration) {
	fewest := 1
	if c.beside { // these fetches do not cause the delay
		fewest = 2
	}
	age, fetches, before := c.delay+c.interval/2, c.fetches, c.before
	c.frames, c.before = 0, 0
	switch {
	case c.fetches < fewest:
		c.fetches = fewest
	case before > fetches && age >= c.ageBefore:
		c.fetches, c.failed.fewer = before, now+creditTries
	case before >= fewest && before < fetches && age >= c.ageBefore:
		c.fetches, c.failed.more = before, now+creditTries
	case c.fetches < maxFetches && c.idle(trip) && now >= c.failed.more:
		c.fetches++
		c.before, c.ageBefore = fetches, age
	case c.fetches > fewest && c.delay > c.interval/2 && now >= c.failed.fewer:
		c.fetches--
		c.before, c.ageBefore = fetches, age
	}
	if c.fetches != fetches {
		c.frames = -max(fetches, c.fetches) // frames in flight were fetched before the change
	}
}

// idle reports whether the path has time for one more frame while a fetch is in flight.
func (c *credit) idle(trip time.Duration) bool {
	fetches := time.Duration(c.fetches)
	sending := max(fetches*c.interval-trip, 0) // time to send one frame: each fetch returns one frame in a round trip plus this time
	return fetches*sending <= trip*5/4
}

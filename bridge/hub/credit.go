package hub

import "time"

// credit decides how many pulls a reader has under way: enough that the hub need not wait for the next one,
// and no more, since what is sent on a thin path before it is needed waits there. It is pure.
//
// Where the hub replaced frames before they were sent, the reader is slower than the origin. Then pulls
// are either too few, and a frame waits at the hub for the next one, or too many, and it waits in the path. Both look alike:
// the frame's delay is above the shortest one. So a change is tried, and taken back when the reader's newest frame has not
// become younger by it.
type credit struct {
	pulls    int
	beside   bool // large frames come, too, for which these wait
	began    bool
	last     stored
	lastCame time.Duration
	least    time.Duration // shortest delay, by both hosts' clocks: only differences mean something
	leastAt  time.Duration
	delay    time.Duration                       // above the shortest, on the mean
	interval time.Duration                       // between frames, on the mean
	frames   int                                 // that were looked at since pulls was; negative: those that come first do not count
	replaced bool                                // frames were
	before   int                                 // what pulls was before the try that is going on; 0: there is none
	was      time.Duration                       // the age then
	failed   struct{ more, fewer time.Duration } // until when neither is tried again, since it was taken back
}

const (
	// creditFrames is after how many frames pulls may change.
	creditFrames = 12
	// creditHolds is how long the shortest delay is believed.
	creditHolds = 30 * time.Second
	// creditJump is a change of the delay that is none: the hub's clock was set.
	creditJump = 10 * time.Second
	// creditWeight is the weight of the mean so far, against that of a new value.
	creditWeight = 7
	// creditTries is how long the same is not tried again that was taken back.
	creditTries = 5 * time.Second
)

func newCredit() credit { return credit{pulls: maxPulls} }

// frame takes a frame that came now, by any clock of ours that is not set, over a path with this shortest round trip.
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

// judge changes pulls, if that makes the reader's newest frame younger.
func (c *credit) judge(now, trip time.Duration) {
	fewest := 1
	if c.beside { // it is not they that make the delay
		fewest = 2
	}
	age, pulls, before := c.delay+c.interval/2, c.pulls, c.before
	c.frames, c.before = 0, 0
	switch {
	case c.pulls < fewest:
		c.pulls = fewest
	case before > pulls && age >= c.was:
		c.pulls, c.failed.fewer = before, now+creditTries
	case before >= fewest && before < pulls && age >= c.was:
		c.pulls, c.failed.more = before, now+creditTries
	case c.pulls < maxPulls && c.idle(trip) && now >= c.failed.more:
		c.pulls++
		c.before, c.was = pulls, age
	case c.pulls > fewest && c.delay > c.interval/2 && now >= c.failed.fewer:
		c.pulls--
		c.before, c.was = pulls, age
	}
	if c.pulls != pulls {
		c.frames = -max(pulls, c.pulls) // what is under way was asked for before
	}
}

// idle reports whether the path has time for one more frame while a pull travels.
func (c *credit) idle(trip time.Duration) bool {
	pulls := time.Duration(c.pulls)
	sending := max(pulls*c.interval-trip, 0) // of one frame: each pull brings one in a trip and this
	return pulls*sending <= trip*5/4
}

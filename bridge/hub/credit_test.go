package hub

import (
	"testing"
	"time"
)

// downlink plays a reader on a thin downlink: frame after frame, each sent when a pull is there, the newest of
// an origin that puts all the time.
func downlink(c *credit, send, trip time.Duration, frames int) {
	start := 1000 * time.Second // by the hub's clock
	free := time.Duration(0)    // when the link is idle
	var pulls []time.Duration   // when they are at the hub
	for range c.pulls {
		pulls = append(pulls, 0)
	}
	now := time.Duration(0)
	for range frames {
		at := pulls[0]
		pulls = pulls[1:]
		number := uint64(at/time.Millisecond) + 1
		free = max(free, at) + send
		now = free + trip/2
		c.frame(now, stored{at: start + at, number: number}, trip)
		for len(pulls) < c.pulls {
			pulls = append(pulls, now+trip/2)
		}
		if len(pulls) > c.pulls {
			pulls = pulls[:c.pulls]
		}
	}
}

func TestPullsAreAsManyAsThePathNeeds(t *testing.T) {
	for _, k := range []struct {
		name       string
		send, trip time.Duration
		want       []int
	}{
		{"1 kB on 1 Mbit/s, 20 ms", 9 * time.Millisecond, 20 * time.Millisecond, []int{3}},
		{"1 kB on 1 Mbit/s, 2 ms", 9 * time.Millisecond, 2 * time.Millisecond, []int{1}},
		{"50 kB on 1 Mbit/s, 20 ms", 400 * time.Millisecond, 20 * time.Millisecond, []int{1}},
		{"1 kB on 100 Mbit/s, 20 ms", 100 * time.Microsecond, 20 * time.Millisecond, []int{3}},
	} {
		c := newCredit()
		downlink(&c, k.send, k.trip, 200)
		ok := false
		for _, want := range k.want {
			ok = ok || c.pulls == want
		}
		if !ok {
			t.Errorf("%s: got %d pulls, want %v", k.name, c.pulls, k.want)
		}
	}
}

func TestPullsStayWhereNothingIsReplaced(t *testing.T) {
	c := newCredit()
	for i := range 200 {
		at := time.Duration(i) * 20 * time.Millisecond
		c.frame(at+time.Duration(i%10)*3*time.Millisecond, stored{at: 1000*time.Second + at, number: uint64(i)}, 20*time.Millisecond)
	}
	if c.pulls != maxPulls {
		t.Errorf("got %d pulls, want %d", c.pulls, maxPulls)
	}
}

// The delay is taken by the hub's clock, which may be set while frames come.
func TestPullsStayWhenTheClockOfTheHubIsSet(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -30 * 365 * 24 * time.Hour, "ahead": 30 * 365 * 24 * time.Hour, "back by a minute": -time.Minute} {
		c := newCredit()
		for i := range 200 {
			now := time.Duration(i) * 20 * time.Millisecond
			at := 40*365*24*time.Hour + now - 10*time.Millisecond
			if i >= 100 {
				at += step
			}
			c.frame(now, stored{at: at, number: uint64(2 * i)}, 20*time.Millisecond)
			if c.pulls != maxPulls {
				t.Errorf("%s: got %d pulls at frame %d, want %d", name, c.pulls, i, maxPulls)
				break
			}
		}
	}
}

func TestPullsBesideLargeFramesAreAtLeastTwo(t *testing.T) {
	c := newCredit()
	c.beside = true
	downlink(&c, 9*time.Millisecond, 2*time.Millisecond, 200)
	if c.pulls != 2 {
		t.Errorf("got %d pulls, want 2: it may be the large frames for which small ones wait", c.pulls)
	}
}

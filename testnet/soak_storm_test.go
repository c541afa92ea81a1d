package testnet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// randomFaults injects random faults into the hosts of a soak, one after the other. They
// depend only on the seed.
type randomFaults struct {
	*soak
	random     *rand.Rand
	unmirrored map[string]bool // channels that the PC does not mirror now
	counts     counts
}

// counts is the number of faults of each kind.
type counts struct{ cuts, links, subscriptions, restarts int }

func (c counts) String() string {
	return fmt.Sprintf("%d cuts, %d other changes of a link, %d subscriptions ended or begun, %d restarts of the operator's daemon",
		c.cuts, c.links, c.subscriptions, c.restarts)
}

// fine has the initial parameters of a link.
const fine = "up,delay=5ms,jitter=0,rate=none,queue=none,loss=0,burst=none,dup=0,reorder=0"

// inject injects one fault and waits until it is over.
func (s *randomFaults) inject() {
	s.t.Helper()
	host := []string{"robot", "pc", "operator"}[s.random.IntN(3)]
	between := func(least, most int) int { return least + s.random.IntN(most-least+1) }
	switch n := s.random.IntN(20); {
	case n < 4:
		s.counts.cuts++
		s.link(host, "cut")
		s.sleepBetween(100, 1500)
		s.link(host, "up")
	case n < 11:
		s.counts.links++
		s.link(host, []string{
			fmt.Sprintf("loss=%d%%,burst=%d", between(1, 20), between(1, 5)),
			fmt.Sprintf("rate=%dmbit,queue=%dKiB", between(2, 60), between(16, 256)),
			fmt.Sprintf("delay=%dms,jitter=%dms", between(0, 80), between(0, 20)),
			fmt.Sprintf("dup=%d%%,reorder=%d%%", between(1, 20), between(1, 20)),
		}[s.random.IntN(4)])
		s.sleepBetween(200, 3000)
		s.link(host, fine)
	case n < 18:
		s.counts.subscriptions++
		s.subscribe(soakNames()[s.random.IntN(30)])
		s.sleepBetween(0, 300)
	case n < 19:
		s.counts.restarts++
		s.operator.kill()
		s.sleepBetween(0, 2000)
		s.startOperator()
	default:
		s.sleepBetween(0, 1000)
	}
	s.sleepBetween(0, 500)
}

// sleepBetween sleeps for a random number of milliseconds, the length of a fault.
func (s *randomFaults) sleepBetween(least, most int) {
	time.Sleep(time.Duration(least+s.random.IntN(most-least+1)) * time.Millisecond)
}

// subscribe ends the PC's mirror of a channel, or begins it again.
func (s *randomFaults) subscribe(channel string) {
	s.t.Helper()
	switch remove := s.random.IntN(2) == 0; {
	case slices.Contains(slow, channel):
		return
	case s.unmirrored[channel]:
		s.must("pc", "mirror", "robot/"+channel)
	case remove:
		s.must("pc", "unmirror", "robot/"+channel, "--rm")
	default:
		s.must("pc", "unmirror", "robot/"+channel)
	}
	s.unmirrored[channel] = !s.unmirrored[channel]
}

// restore ends all faults.
func (s *randomFaults) restore() {
	s.t.Helper()
	for _, host := range []string{"robot", "pc", "operator"} {
		s.link(host, fine)
	}
	for _, channel := range soakNames() {
		if s.unmirrored[channel] {
			s.subscribe(channel)
		}
	}
}

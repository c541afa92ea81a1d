package bridge

import (
	"math"
	"time"
)

// lateBinding selects the content of a packet at the moment when it can be sent: the newest
// frames, by priority, then by age²/size. It finishes a large frame that it has begun. The oracle
// uses it. Times are by the network's clock.
type lateBinding struct {
	loads   []load
	parts   []int
	first   []time.Duration // time of the first frame of each load
	current []uint64        // newest frame of which a part was sent; 0 means none
	next    []int           // next fragment of begun
	before  []time.Duration // put time of the frame that was sent before begun
}

// cargo is a frame in a packet, or one fragment of a large frame.
type cargo struct {
	load  int
	frame uint64
	part  int
}

const (
	simRoom   = 1180 // bytes for frames in a packet of several
	simRecord = 25   // overhead of a frame in such a packet, bytes
)

func newLateBinding(r radioRun, zero time.Duration) *lateBinding {
	n := len(r.loads)
	c := &lateBinding{loads: r.loads, current: make([]uint64, n), next: make([]int, n), before: make([]time.Duration, n)}
	for i, l := range r.loads {
		c.parts = append(c.parts, partCount(l.size))
		c.first = append(c.first, zero+r.phases[i])
	}
	return c
}

func (c *lateBinding) put(i int, frame uint64) time.Duration {
	return c.first[i] + time.Duration(frame-1)*c.loads[i].period
}

func (c *lateBinding) newest(i int, now time.Duration) uint64 {
	if now < c.first[i] {
		return 0
	}
	return uint64((now-c.first[i])/c.loads[i].period) + 1
}

// unfinished reports whether fragments of load i's frame remain to be sent.
func (c *lateBinding) unfinished(i int) bool { return c.current[i] > 0 && c.next[i] < c.parts[i] }

// ready returns when there is data to send: now or later.
func (c *lateBinding) ready(now time.Duration) time.Duration {
	at := time.Duration(math.MaxInt64)
	for i := range c.loads {
		newest := c.newest(i, now)
		if c.unfinished(i) || newest > c.current[i] {
			return now
		}
		at = min(at, c.put(i, newest+1))
	}
	return at
}

// take fills a packet, and returns its size with all headers; 0 means that there is no data.
func (c *lateBinding) take(now time.Duration) (list []cargo, size int) {
	used := 0
	for {
		i := c.turn(now, list)
		if i < 0 {
			break
		}
		l := c.loads[i]
		if len(list) > 0 && (c.parts[i] > 1 || used+l.size+simRecord > simRoom) {
			break
		}
		if !c.unfinished(i) {
			if c.current[i] > 0 {
				c.before[i] = c.put(i, c.current[i])
			}
			c.current[i], c.next[i] = c.newest(i, now), 0
		}
		list = append(list, cargo{i, c.current[i], c.next[i]})
		c.next[i]++
		used += l.size/c.parts[i] + simRecord
		if c.parts[i] > 1 {
			break
		}
	}
	if len(list) == 0 {
		return nil, 0
	}
	return list, used + oracleOverhead - simRecord
}

// turn returns the next load for a packet that has has already; -1 means none.
func (c *lateBinding) turn(now time.Duration, has []cargo) (best int) {
	best, bestLevel, bestGain := -1, -1, 0.0
	for i, l := range c.loads {
		if !c.unfinished(i) && c.newest(i, now) <= c.current[i] || carries(has, i) {
			continue
		}
		had := c.before[i] // put time of the frame that the mirror shows until then
		if !c.unfinished(i) && c.current[i] > 0 {
			had = c.put(i, c.current[i])
		}
		age := (now - had).Seconds()
		level, gain := l.qos.Priority.Level(), age*age/float64(l.size+simRecord)
		if level > bestLevel || level == bestLevel && gain > bestGain {
			best, bestLevel, bestGain = i, level, gain
		}
	}
	return best
}

func carries(list []cargo, load int) bool {
	for _, c := range list {
		if c.load == load {
			return true
		}
	}
	return false
}

// simMirrors simulates the mirrors. A large frame arrives with its last fragment. A newer frame
// replaces an incomplete one.
type simMirrors struct {
	sent   *lateBinding
	coming []uint64 // frame of each load of which fragments have arrived
	there  [][]bool // fragments of coming that have arrived
	count  []int
	stamps []time.Duration // put time of the newest frame of each load
	from   time.Duration   // data that arrives before does not count
	bytes  int
}

func newSimMirrors(sent *lateBinding, from time.Duration) *simMirrors {
	n := len(sent.loads)
	m := &simMirrors{sent: sent, coming: make([]uint64, n), there: make([][]bool, n), count: make([]int, n), stamps: make([]time.Duration, n), from: from}
	for i := range m.there {
		m.there[i] = make([]bool, sent.parts[i])
	}
	return m
}

func (m *simMirrors) arrive(now time.Duration, size int, list []cargo) {
	if now >= m.from {
		m.bytes += size
	}
	for _, c := range list {
		i := c.load
		if m.sent.parts[i] > 1 && !m.complete(c) {
			continue
		}
		m.stamps[i] = max(m.stamps[i], m.sent.put(i, c.frame))
	}
}

func (m *simMirrors) complete(c cargo) bool {
	i := c.load
	if c.frame < m.coming[i] {
		return false
	}
	if c.frame > m.coming[i] {
		m.coming[i], m.count[i] = c.frame, 0
		clear(m.there[i])
	}
	if !m.there[i][c.part] {
		m.there[i][c.part] = true
		m.count[i]++
	}
	return m.count[i] == m.sent.parts[i]
}

package discovery

import (
	"net/netip"
	"time"
)

// What is read: twenty hosts that are switched on at once send less. A source that sends more has the rest left out before it
// is parsed, so that a flood of announcements costs no whole processor, and leaves the other sources what they send. All sources
// together are read at an even pace: else whoever forges sources could use up each second in its first moment.
const (
	maxPackets         = 4000 // in a second,
	maxPacketsAtOnce   = 400  // after a pause
	maxPacketsOfSource = 200  // in a second
)

// intake counts the packets of the present second by source, and paces them all.
type intake struct {
	since time.Time
	of    map[netip.Addr]int
	paid  time.Time // when what was read is paid for by time
}

// takes reports whether to read a packet that came from a source, and counts it if so.
func (i *intake) takes(now time.Time, from netip.Addr) bool {
	const each = time.Second / maxPackets
	if i.of == nil || now.Sub(i.since) >= time.Second || now.Before(i.since) {
		i.since, i.of = now, make(map[netip.Addr]int)
	}
	if ahead := i.paid.Sub(now); ahead < 0 || ahead > maxPacketsAtOnce*each { // the latter: the clock was set back
		i.paid = now
	}
	if i.paid.Sub(now) > (maxPacketsAtOnce-1)*each || i.of[from] >= maxPacketsOfSource {
		return false
	}
	i.paid = i.paid.Add(each)
	i.of[from]++
	return true
}

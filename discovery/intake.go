package discovery

import (
	"net/netip"
	"time"
)

// Limits of the packets that are read; twenty hosts that are switched on at once send fewer. Packets over the limit are
// dropped before they are parsed. So a flood of announcements does not use up a processor, and one source cannot crowd
// out the others. The packets of all sources together are read at an even pace: otherwise an attacker that forges
// sources could use up the limit of each second in its first moment.
const (
	maxPackets         = 4000 // a second, from all sources
	maxPacketsAtOnce   = 400  // after a pause, from all sources
	maxPacketsOfSource = 200  // a second, from one source
)

// intake counts the packets of the present second by source, and paces them all.
type intake struct {
	since time.Time
	of    map[netip.Addr]int
	paid  time.Time // when the packets read so far would have been read at the even pace
}

// takes reports whether to read a packet of this source, and counts it if so.
func (i *intake) takes(now time.Time, from netip.Addr) bool {
	const each = time.Second / maxPackets
	if i.of == nil || now.Sub(i.since) >= time.Second || now.Before(i.since) {
		i.since, i.of = now, make(map[netip.Addr]int)
	}
	if ahead := i.paid.Sub(now); ahead < 0 || ahead > maxPacketsAtOnce*each { // too far ahead: the clock was set back
		i.paid = now
	}
	if i.paid.Sub(now) > (maxPacketsAtOnce-1)*each || i.of[from] >= maxPacketsOfSource {
		return false
	}
	i.paid = i.paid.Add(each)
	i.of[from]++
	return true
}

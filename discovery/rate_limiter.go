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
	maxPacketRate  = 4000 // a second, from all sources
	maxPacketBurst = 400  // after a pause, from all sources
	maxSourceRate  = 200  // a second, from one source
)

// rateLimiter counts the packets of the present second by source, and paces them all.
type rateLimiter struct {
	second     time.Time
	perSource  map[netip.Addr]int
	pacedUntil time.Time // when the packets read so far would have been read at the even pace
}

// allow reports whether to read a packet of this source, and counts it if so.
func (i *rateLimiter) allow(now time.Time, from netip.Addr) bool {
	const each = time.Second / maxPacketRate
	if i.perSource == nil || now.Sub(i.second) >= time.Second || now.Before(i.second) {
		i.second, i.perSource = now, make(map[netip.Addr]int)
	}
	if ahead := i.pacedUntil.Sub(now); ahead < 0 || ahead > maxPacketBurst*each { // too far ahead: the clock was set back
		i.pacedUntil = now
	}
	if i.pacedUntil.Sub(now) > (maxPacketBurst-1)*each || i.perSource[from] >= maxSourceRate {
		return false
	}
	i.pacedUntil = i.pacedUntil.Add(each)
	i.perSource[from]++
	return true
}

package discovery

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"
)

// Limits of the packets that are parsed. Packets over a limit are dropped before they are parsed, so that a flood of
// announcements neither uses up a CPU nor displaces the packets of other sources. The rate of all packets is limited
// evenly: otherwise an attacker that forges sources could use up the limit of each second in its first moment. Twenty
// hosts that are switched on together stay below the limits.
const (
	maxPacketRate  = 4000 // packets a second from all sources
	maxPacketBurst = 400  // packets from all sources after a pause
	maxSourceRate  = 200  // packets a second from one source
)

// rateLimiter limits the packets of each source in a second, and the rate of all packets.
type rateLimiter struct {
	second    time.Time
	perSource map[netip.Addr]int
	all       *rate.Limiter
}

func newRateLimiter() *rateLimiter {
	return &rateLimiter{all: rate.NewLimiter(maxPacketRate, maxPacketBurst)}
}

// allow reports whether to read a packet from this source, and if so counts it.
func (i *rateLimiter) allow(now time.Time, from netip.Addr) bool {
	if i.perSource == nil || now.Sub(i.second) >= time.Second || now.Before(i.second) {
		i.second, i.perSource = now, make(map[netip.Addr]int)
	}
	if i.perSource[from] >= maxSourceRate || !i.all.AllowN(now, 1) {
		return false
	}
	i.perSource[from]++
	return true
}

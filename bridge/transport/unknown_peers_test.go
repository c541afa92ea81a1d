package transport

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/bridge/transport/quic"
)

// dialAsANodeDoes dials like package bridge until it has a session. It returns the time and the number of failed dials.
func dialAsANodeDoes(ctx context.Context, from, to *Endpoint) (took time.Duration, failed int, err error) {
	begun := time.Now()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		dctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		s, err := from.Dial(dctx, to.LocalAddrs())
		cancel()
		if err == nil {
			s.Close("")
			return time.Since(begun), failed, nil
		}
		failed++
		select {
		case <-ctx.Done():
			return time.Since(begun), failed, err
		case <-time.After(wait):
		}
	}
}

// inTime is the time limit for a robot's session during an attack by unknown peers.
const inTime = 3 * time.Second

// besieged runs a scenario for a node under each kind of attack by unknown peers.
func besieged(t *testing.T, s func(t *testing.T, l *lab, pc *Endpoint)) {
	for _, c := range attacks {
		listen := Listen
		if c.sctp {
			listen = listenOverSCTP
		}
		t.Run(c.name, inBubble(listen, func(t *testing.T, l *lab) {
			pc := l.node(t, "pc")
			var mu sync.Mutex
			port := uint16(1024)
			defer siege{do: c.attack, pause: time.Second, bind: func(i int) net.PacketConn {
				mu.Lock()
				defer mu.Unlock()
				port++
				return l.bind(t, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 7, 0, byte(1 + i)}), port))
			}}.begin(pc)()
			time.Sleep(2 * time.Second)
			s(t, l, pc)
		}))
	}
}

// linksInTime checks that robot soon has a session with pc.
func linksInTime(t *testing.T, robot, pc *Endpoint) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*inTime)
	defer cancel()
	if took, failed, err := dialAsANodeDoes(ctx, robot, pc); err != nil || took > inTime {
		t.Errorf("%v: got a session after %v and %d failed dials, %v, want one in %v", robot.localAddr(), took, failed, err, inTime)
	}
}

// The robots' addresses are not known. First they are in the network of the attackers, then
// eight at a time behind one address.
func TestRobotsLinkDespiteManyUnknownPeers(t *testing.T) {
	besieged(t, func(t *testing.T, l *lab, pc *Endpoint) {
		for i := range byte(3) {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 7, 0, 252 + i}), 8076)
			linksInTime(t, l.startAt(t, at, Config{Key: l.keys[0], Node: nodeOf("robot"), Host: "robot"}), pc)
		}
		var wg sync.WaitGroup
		for i := range 8 {
			robot := l.node(t, fmt.Sprint("robot", i))
			l.air.translate(robot.localAddr(), &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 40000 + i})
			wg.Go(func() { linksInTime(t, robot, pc) })
		}
		wg.Wait()
		lines, most := l.logs[pc].lines(""), 2+int(2*inTime/refusalPeriod)
		reported := l.logs[pc].lines("too many handshakes, dropping the oldest")
		if len(reported) == 0 || len(lines) > most || len(lines) != len(reported) {
			t.Errorf("log: got %q, want that there are too many handshakes, 1 to %d times", lines, most)
		}
	})
}

// placesOf returns the handshakes of an endpoint with one socket.
func placesOf(e *Endpoint) *handshakes {
	if e.sctp != nil {
		return &e.unfinished.sctp
	}
	return &e.unfinished.quic
}

// Places are reserved for peers at listed addresses and at addresses of recent members, once
// they have proved these addresses.
func TestPlacesAreReservedForMembersAndListedPeers(t *testing.T) {
	for _, c := range attacks[1:3] { // one over QUIC, one over SCTP
		listen := Listen
		if c.sctp {
			listen = listenOverSCTP
		}
		t.Run(c.name, inBubble(listen, func(t *testing.T, l *lab) {
			pc := l.node(t, "pc")
			accepted, _ := l.join(t, pc, l.node(t, "robot"))
			member := accepted.RemoteAddr().(*net.UDPAddr).AddrPort().Addr()
			accepted.Close("")
			listed, unknownPeer := netip.MustParseAddr("10.8.0.1"), netip.MustParseAddr("10.8.0.2")
			pc.Expect([]Addrs{{QUIC: net.UDPAddrFromAddrPort(netip.AddrPortFrom(listed, 8076))}})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			for i, at := range append(slices.Repeat([]netip.Addr{unknownPeer}, quic.RetryThreshold), member, listed) {
				conn := l.bind(t, netip.AddrPortFrom(at, uint16(2000+i)))
				wg.Go(func() { c.attack(ctx, func() net.PacketConn { return conn }, pc) })
				time.Sleep(10 * oneWay)
			}
			places := placesOf(pc)
			places.mu.Lock()
			defer places.mu.Unlock()
			kept := make(map[netip.Addr]bool)
			for _, h := range places.pending {
				if h.isKept {
					kept[h.addr] = true
				}
			}
			if !kept[member] || !kept[listed] || len(kept) != 2 {
				t.Errorf("kept places: got %v of %d, want those of %v and %v", kept, len(places.pending), member, listed)
			}
		}))
	}
}

// A peer that has not proved a listed address gets none of the places reserved for it.
func TestForgedAddressGetsNoReservedPlace(t *testing.T) {
	inBubble(Listen, func(t *testing.T, l *lab) {
		pc := l.node(t, "pc")
		at := netip.MustParseAddrPort("10.8.0.1:8076")
		pc.Expect([]Addrs{{QUIC: net.UDPAddrFromAddrPort(at)}})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		conn := l.bind(t, at)
		wg.Go(func() { wholeOverQUIC(ctx, func() net.PacketConn { return conn }, pc) })
		time.Sleep(10 * oneWay)
		places := placesOf(pc)
		places.mu.Lock()
		defer places.mu.Unlock()
		if len(places.pending) != 1 || places.pending[0].isKept || places.pending[0].addr.IsValid() {
			t.Errorf("pending: got %d, want one that counts for no address", len(places.pending))
		}
	})(t)
}

// A peer that has sent half of a ClientHello is refused after a second. A peer that has sent a
// complete one has more time, since its path may be slow. For SCTP see
// TestHalfOpenHandshakesAreBoundedOverSCTP.
func TestIncompleteClientHelloIsDroppedUnderLoad(t *testing.T) {
	for want, attack := range map[int]attack{0: halfOverQUIC, 2 * quic.RetryThreshold: wholeOverQUIC} {
		inBubble(Listen, func(t *testing.T, l *lab) {
			pc := l.node(t, "pc")
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			var going atomic.Int32
			for i := range 2 * quic.RetryThreshold {
				conn := l.bind(t, netip.AddrPortFrom(netip.MustParseAddr("10.8.0.1"), uint16(2000+i)))
				going.Add(1)
				wg.Go(func() {
					attack(ctx, func() net.PacketConn { return conn }, pc)
					going.Add(-1)
				})
				time.Sleep(4 * oneWay)
			}
			time.Sleep(greetingTimeout + 10*oneWay)
			places := placesOf(pc)
			places.mu.Lock()
			defer places.mu.Unlock()
			if pending := len(places.pending); pending != want {
				t.Errorf("pending: got %d, want %d", pending, want)
			}
			if got := going.Load(); want == 0 && got != 0 {
				t.Errorf("got %d peers without a refusal, want none", got)
			}
		})(t)
	}
}

package transport

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestKnownAddrLastsADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a knownAddrs
		at, moved, listed := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1%wlan0"), netip.MustParseAddr("10.0.0.3")
		expect := func(when string, want ...bool) {
			t.Helper()
			for i, addr := range []netip.Addr{at, moved, listed} {
				if got := a.has(addr); got != want[i] {
					t.Errorf("%s: %v is known: got %t, want %t", when, addr, got, want[i])
				}
			}
		}
		expect("at first", false, false, false)
		a.begins(at)
		a.list([]Addrs{{QUIC: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 3), Port: 1}}})
		time.Sleep(48 * time.Hour)
		expect("while the session lives", true, false, true)
		a.ends(at, moved)
		time.Sleep(knownFor)
		expect("a day later", true, true, true)
		time.Sleep(time.Nanosecond)
		expect("after more than that", false, false, true)
		a.list(nil)
		expect("when the list is empty", false, false, false)
	})
}

// A member may have many addresses.
func TestKnownAddrsAreBounded(t *testing.T) {
	var a knownAddrs
	live, first := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	a.begins(live)
	a.begins(first)
	a.ends(first, first)
	var last netip.Addr
	for i := range 2 * maxKnownAddrs {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 0x0b000000+uint32(i))
		last = netip.AddrFrom4(b)
		a.begins(last)
		a.ends(last, last)
	}
	if len(a.linked) != maxKnownAddrs || !a.has(live) || !a.has(last) || a.has(first) {
		t.Errorf("got %d; the live one %t, the last %t, the first %t, want %d, true, true, false",
			len(a.linked), a.has(live), a.has(last), a.has(first), maxKnownAddrs)
	}
}

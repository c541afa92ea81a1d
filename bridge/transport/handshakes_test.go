package transport

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/transport/session"
)

// door is a handshakes whose known addresses the test sets, and which counts dropped handshakes.
type door struct {
	handshakes
	knownAddrs map[netip.Addr]bool
	dropped    map[string]int // number of dropped handshakes by address
}

func newDoor() *door {
	d := &door{knownAddrs: make(map[netip.Addr]bool), dropped: make(map[string]int)}
	d.handshakes = handshakes{isKnown: func(a netip.Addr) bool { return d.knownAddrs[a] }, ousted: func() {}}
	return d
}

// from adds a handshake from an address, "" if it is not proved, and advances it to a stage.
func (d *door) from(addr string, at session.Stage) *handshake {
	var proved netip.Addr
	if addr != "" {
		proved = netip.MustParseAddr(addr)
	}
	h := d.Enter(proved, func() { d.dropped[addr]++ }).(*handshake)
	h.Reached(at)
	return h
}

// counts returns the number of greetings and of later handshakes.
func (d *door) counts() (greetings, handshakes int) {
	for _, h := range d.pending {
		if h.at == session.AtGreeting {
			greetings++
		} else {
			handshakes++
		}
	}
	return greetings, handshakes
}

func TestNewHandshakeIsAlwaysAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, at := range []session.Stage{session.AtGreeting, session.AtHandshake, session.AtWelcome} {
			d := newDoor()
			for i := range 3 * maxHandshakes {
				if h := d.from(fmt.Sprintf("10.0.%d.%d", i/200, i%200), at); h.at != at {
					t.Fatalf("newcomer %d has to make room itself", i)
				}
			}
			if g, m := d.counts(); g+m != maxHandshakes {
				t.Errorf("pending: got %d, want %d", g+m, maxHandshakes)
			}
			for len(d.pending) > 0 {
				d.pending[0].Leave()
			}
		}
	})
}

// If one more place is needed, the oldest handshake of the largest source must be dropped.
func TestOldestHandshakeOfLargestSourceIsDropped(t *testing.T) {
	many := func(network string, n int) (addrs []string) {
		for i := range n {
			addrs = append(addrs, fmt.Sprintf(network, i+1))
		}
		return addrs
	}
	for _, c := range []struct {
		name    string
		pending []string // filled up with addresses of 172.16.i.1
		want    string
	}{
		{"an address with two", []string{"10.0.0.1", "10.0.1.1", "10.0.1.1", "10.0.2.1"}, "10.0.1.1"},
		{"a network with many addresses", append(many("10.0.0.%d", 30), "10.1.1.1", "10.1.1.1"), "10.0.0.1"},
		{"the address with most in it", append(many("10.0.0.%d", 30), "10.0.0.99", "10.0.0.99"), "10.0.0.99"},
		{"a /64, whatever the address", append([]string{"10.0.0.1", "10.0.0.1"}, many("2001:db8::%x", 60)...), "2001:db8::1"},
		{"not another /64", []string{"2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:2::2", "2001:db8:0:3::1"}, "2001:db8:0:2::1"},
		{"a crowd rather than many behind one address", append(slices.Repeat([]string{"10.9.9.9"}, 20), many("10.0.0.%d", 100)...), "10.0.0.1"},
		{"those who prove no address", []string{"10.0.0.1", "10.0.0.1", "", "", ""}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoor()
				for i := range maxHandshakes - len(c.pending) {
					d.from(fmt.Sprintf("172.16.%d.1", i), session.AtHandshake)
				}
				for _, addr := range c.pending {
					d.from(addr, session.AtHandshake)
				}
				d.from("192.168.1.1", session.AtHandshake)
				if len(d.dropped) != 1 || d.dropped[c.want] != 1 {
					t.Errorf("made room: got %v, want %q", d.dropped, c.want)
				}
			})
		})
	}
}

func TestAdvancedHandshakeKeepsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		robot := d.from("10.0.0.1", session.AtHandshake)
		d.from("10.0.0.2", session.AtHandshake)
		robot.Reached(session.AtWelcome)
		for i := range maxHandshakes {
			d.from(fmt.Sprintf("10.0.0.%d", 3+i), session.AtHandshake)
		}
		if d.dropped["10.0.0.1"] != 0 || d.dropped["10.0.0.2"] != 1 {
			t.Errorf("dropped: got %v, want only the unknown peer, not the older member", d.dropped)
		}
		for i := range 2 * maxGreetings {
			d.from(fmt.Sprintf("10.0.9.%d", i%250+1), session.AtGreeting)
		}
		if d.dropped["10.0.0.1"] != 0 {
			t.Error("greetings take the place of a meeting")
		}
		robot.Leave()
		robot.Reached(session.AtHandshake) // too late
		for _, h := range d.pending {
			if h == robot {
				t.Error("it is there again")
			}
		}
	})
}

func TestPlacesAreReservedForKnownAddrs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		for i := range maxKept {
			d.knownAddrs[netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})] = true
		}
		var kept []*handshake
		for range 2 * keptEach { // one who shares a known address
			kept = append(kept, d.from("10.0.0.0", session.AtHandshake))
		}
		for i := range maxKept {
			kept = append(kept, d.from(fmt.Sprintf("10.0.0.%d", i), session.AtHandshake))
		}
		for i := range 3 * maxHandshakes {
			d.from(fmt.Sprintf("10.0.1.%d", i%250), session.AtHandshake)
		}
		lost := 0
		for _, h := range kept {
			if h.at == session.AtEnd {
				lost++
			}
		}
		if want := len(kept) - maxKept; lost > want || len(d.pending) != maxHandshakes+maxKept {
			t.Errorf("known addresses: %d of %d lost their places, want at most %d; pending %d, want %d",
				lost, len(kept), want, len(d.pending), maxHandshakes+maxKept)
		}
		for i := range maxKept - keptEach {
			if addr := fmt.Sprintf("10.0.0.%d", i+1); d.dropped[addr] != 0 {
				t.Errorf("%s has had to make room", addr)
			}
		}
	})
}

func TestGreetingTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		d.from("10.0.0.1", session.AtGreeting)
		d.from("10.0.0.2", session.AtHandshake)
		time.Sleep(greetingTimeout - 1)
		synctest.Wait()
		d.mu.Lock()
		if len(d.dropped) != 0 {
			t.Errorf("ended before %v: %v", greetingTimeout, d.dropped)
		}
		d.mu.Unlock()
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.dropped["10.0.0.1"] != 1 || d.dropped["10.0.0.2"] != 0 {
			t.Errorf("ended after %v: got %v, want the one without a ClientHello", greetingTimeout, d.dropped)
		}
	})
}

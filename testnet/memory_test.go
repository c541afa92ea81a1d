package testnet

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pair returns a network of two hosts with a socket each.
func pair(t *testing.T, seed uint64, link string) (n *Network, a, b *Conn) {
	t.Helper()
	n = NewNetwork(seed)
	open := func(name string) *Conn {
		c, err := n.Host(name, params(t, link)).Listen(4000)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	return n, open("robot"), open("pc")
}

func send(t *testing.T, from, to *Conn, size int) {
	t.Helper()
	if _, err := from.WriteTo(make([]byte, size), to.LocalAddr()); err != nil {
		t.Fatal(err)
	}
}

// receive waits for a datagram and returns the time since start.
func receive(t *testing.T, c *Conn, start time.Time) time.Duration {
	t.Helper()
	if _, _, err := c.ReadFrom(make([]byte, 2000)); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

func TestNetworkDeliversAtModelTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t, 1, "delay=10ms,rate=1mbit")
		start := time.Now()
		for range 3 {
			send(t, a, b, 972) // 1000 bytes including the headers
		}
		for i := range 3 {
			if got, want := receive(t, b, start), time.Duration(i+1)*8*ms+10*ms; got != want {
				t.Errorf("datagram %d: got %v, want %v", i, got, want)
			}
		}
	})
}

func TestIPv6HeadersAddTwentyBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(1)
		a, _ := n.Host("robot", params(t, "rate=1mbit")).Listen6(0)
		b, _ := n.Host("pc", Params{}).Listen6(4000)
		start := time.Now()
		send(t, a, b, 952)
		if got := receive(t, b, start); got != 8*ms {
			t.Errorf("got %v, want 8ms", got)
		}
		if _, err := a.WriteTo([]byte{1}, &net.UDPAddr{IP: net.IPv4(10, 80, 76, 2), Port: 1}); err == nil {
			t.Error("got no error for an IPv4 address on an IPv6 socket")
		}
	})
}

func TestSocketsOfOneHostShareItsEgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := pair(t, 1, "rate=1mbit")
		other, err := n.hosts[0].Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		send(t, a, b, 972)
		send(t, other, b, 972)
		receive(t, b, start)
		if got := receive(t, b, start); got != 16*ms {
			t.Errorf("got %v, want 16ms: behind the other socket's packet", got)
		}
		send(t, a, other, 972)
		if got := receive(t, other, start); got != 16*ms {
			t.Errorf("got %v, want at once within the host", got)
		}
	})
}

func TestLinkDirectionsHaveSeparateParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := pair(t, 1, "delay=10ms")
		if err := n.Change("robot>pc", "delay=50ms"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		send(t, a, b, 10)
		if got := receive(t, b, start); got != 50*ms {
			t.Errorf("robot to pc: got %v, want 50ms", got)
		}
		start = time.Now()
		send(t, b, a, 10)
		if got := receive(t, a, start); got != 10*ms {
			t.Errorf("pc to robot: got %v, want 10ms", got)
		}
	})
}

func TestCutHostNeitherSendsNorReceives(t *testing.T) {
	for target, want := range map[string][2]bool{ // robot to pc, pc to robot
		"robot": {false, false}, "pc": {false, false}, "": {false, false},
		"robot>pc": {false, true}, "pc>robot": {true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, a, b := pair(t, 1, "delay=1ms")
			passes := func(from, to *Conn) bool {
				send(t, from, to, 10)
				to.SetReadDeadline(time.Now().Add(time.Second))
				_, _, err := to.ReadFrom(make([]byte, 10))
				return err == nil
			}
			if err := n.Change(target, "cut"); err != nil {
				t.Fatal(err)
			}
			if got := [2]bool{passes(a, b), passes(b, a)}; got != want {
				t.Errorf("%q cut: got %v, want %v", target, got, want)
			}
			if err := n.Change(target, "up"); err != nil {
				t.Fatal(err)
			}
			if !passes(a, b) || !passes(b, a) {
				t.Errorf("%q up: got silence, want both directions", target)
			}
		})
	}
}

func TestUnknownTargetError(t *testing.T) {
	n := NewNetwork(1)
	n.Host("robot", Params{})
	n.Host("pc", Params{})
	for target, want := range map[string]string{
		"krang": `no host "krang"; hosts are robot, pc`, "robot>krang": `"krang"`, "robot>robot": "without the network",
	} {
		if err := n.Change(target, "cut"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", target, err, want)
		}
	}
}

func TestDeadlineAndCloseWakeReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t, 1, "delay=1ms")
		result := make(chan error)
		read := func() {
			_, _, err := a.ReadFrom(make([]byte, 1))
			result <- err
		}
		go read()
		synctest.Wait()
		start := time.Now()
		a.SetReadDeadline(start.Add(time.Hour))
		a.SetReadDeadline(start.Add(time.Second))
		var timeout net.Error
		if err := <-result; !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) != time.Second {
			t.Errorf("got %v after %v, want the deadline after 1s", err, time.Since(start))
		}
		a.SetReadDeadline(time.Time{})
		go read()
		synctest.Wait()
		a.Close()
		if err := <-result; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want net.ErrClosed", err)
		}
		if _, err := a.WriteTo([]byte{1}, b.LocalAddr()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write: got %v, want net.ErrClosed", err)
		}
		if again, err := a.host.Listen(4000); err != nil {
			t.Errorf("port after close: got %v, want it free", err)
		} else {
			again.Close()
		}
	})
}

func TestFullReceiveBufferDiscardsDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := pair(t, 1, "up")
		var discarded int
		n.Tap(func(e Event) {
			if e.What == WhatDiscarded {
				discarded++
			}
		})
		b.SetReadBuffer(10 * (100 + Overhead4))
		for range 15 {
			send(t, a, b, 100)
		}
		if got := b.Discarded(); got != 5 || discarded != 5 {
			t.Errorf("Discarded() = %d and %d events, want 5", got, discarded)
		}
		start := time.Now()
		for range 10 {
			receive(t, b, start)
		}
		b.SetReadDeadline(time.Now().Add(time.Second))
		if _, _, err := b.ReadFrom(nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want an empty buffer", err)
		}
	})
}

func TestSameSeedGivesSameEvents(t *testing.T) {
	run := func(seed uint64) (events []Event) {
		synctest.Test(t, func(t *testing.T) {
			n, a, b := pair(t, seed, "delay=5ms,jitter=3ms,rate=2mbit,queue=8KiB,loss=5%,burst=2,dup=5%,reorder=5%")
			n.Tap(func(e Event) { e.Payload = nil; events = append(events, e) })
			for i := range 500 {
				send(t, a, b, 100+i)
				send(t, b, a, 100+i)
				time.Sleep(ms)
			}
			time.Sleep(time.Second)
		})
		return events
	}
	a, b := run(5), run(5)
	if other := run(6); len(other) == len(a) && other[len(a)-1].At == a[len(a)-1].At {
		t.Error("got the same events from two seeds")
	}
	if len(a) != len(b) || len(a) < 1500 {
		t.Fatalf("got %d and %d events, want the same", len(a), len(b))
	}
	for i := range a {
		if a[i].At != b[i].At || a[i].What != b[i].What || a[i].From != b[i].From || a[i].Sent != b[i].Sent {
			t.Fatalf("event %d: got %+v and %+v from one seed", i, a[i], b[i])
		}
	}
}

func TestSendToUnusedPortSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, _ := pair(t, 1, "up")
		var whats []What
		n.Tap(func(e Event) { whats = append(whats, e.What) })
		for _, addr := range []*net.UDPAddr{{IP: net.IPv4(10, 80, 76, 2), Port: 9}, {IP: net.IPv4(192, 0, 2, 1), Port: 9}} {
			if _, err := a.WriteTo([]byte{1}, addr); err != nil {
				t.Errorf("%v: got %v, want no error", addr, err)
			}
		}
		if len(whats) != 3 || whats[1] != WhatNobody || whats[2] != WhatSent {
			t.Errorf("got %v, want sent, nobody, sent", whats)
		}
	})
}

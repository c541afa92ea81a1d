package testnet_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Whoever forges announcements names addresses of others, which the attacker's host has here, at ports from
// firstForged on.
const (
	firstForged   = 20000
	forgedAddrs   = 100
	forgedPackets = 100 // a second, each with forgedHosts
	forgedHosts   = 8
)

// others are the addresses that forged announcements name.
func (s *site) others(attacker string) (list []net.IP) {
	s.t.Helper()
	own, err := s.lab.Addr(attacker)
	if err != nil {
		s.t.Fatal(err)
	}
	s.eth0(attacker, func(h *netlink.Handle, eth netlink.Link) error {
		for i := range forgedAddrs {
			b := own.As4()
			ip := net.IPv4(b[0], b[1], b[2], byte(100+i)).To4()
			list = append(list, ip)
			if err := h.AddrAdd(eth, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}}); err != nil {
				return err
			}
		}
		return nil
	})
	return list
}

// forge packs announcements of nodes that there are not.
func forge(number int, network string, others []net.IP) ([]byte, error) {
	var m dns.Msg
	m.Response, m.Compress = true, true
	for range forgedHosts {
		number++
		head := func(name string, kind uint16) dns.RR_Header {
			return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: 120}
		}
		name := fmt.Sprintf("robot%d._achbridge._udp.local.", number)
		target := fmt.Sprintf("h%d.local.", number)
		port := uint16(firstForged + number%30000)
		m.Answer = append(m.Answer,
			&dns.PTR{Hdr: head("_achbridge._udp.local.", dns.TypePTR), Ptr: name},
			&dns.SRV{Hdr: head(name, dns.TypeSRV), Port: port, Target: target},
			&dns.TXT{Hdr: head(name, dns.TypeTXT), Txt: []string{"v=1", "net=" + network, fmt.Sprintf("node=%032x", number),
				fmt.Sprint("port=", port), "life=3600", "ch.imu=16x64", "more=9"}},
			&dns.A{Hdr: head(target, dns.TypeA), A: others[number%len(others)]})
	}
	return m.Pack()
}

// multicasts opens the mDNS port on a host, to send to the group from.
func (s *site) multicasts(host string) (out *net.UDPConn) {
	s.t.Helper()
	pid, err := s.lab.PID(host)
	if err != nil {
		s.t.Fatal(err)
	}
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := netns.GetFromPid(pid)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err == nil {
			out, err = net.DialUDP("udp4", &net.UDPAddr{Port: 5353}, &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353})
		}
		opened <- err
	}()
	if err := <-opened; err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { out.Close() })
	return out
}

// floods forges announcements on a host until the test ends; sent is how many packets are out.
func (s *site) floods(attacker, network string, others []net.IP) (sent *atomic.Int32) {
	s.t.Helper()
	out := s.multicasts(attacker)
	ended := make(chan struct{})
	s.t.Cleanup(func() { close(ended) })
	sent = &atomic.Int32{}
	go func() {
		tick := time.NewTicker(time.Second / forgedPackets)
		defer tick.Stop()
		for {
			if b, err := forge(int(sent.Load())*forgedHosts, network, others); err == nil {
				_, _ = out.Write(b)
			}
			sent.Add(1)
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
	}()
	return sent
}

// toOthers counts what a host sends to ports that are forged.
func (s *site) toOthers(from string) *atomic.Int32 {
	var count atomic.Int32
	s.lab.Listen(func(host string, frame []byte) {
		const header, ip, udp = 14, 20, 17
		if host != from || len(frame) < header+ip+8 || frame[12] != 8 || frame[13] != 0 || frame[header+9] != udp {
			return
		}
		if port := binary.BigEndian.Uint16(frame[header+ip+2:]); port >= firstForged && port < firstForged+30001 {
			count.Add(1)
		}
	})
	return &count
}

// resident is the memory of a process, in KiB.
func (p *process) resident() (kib int) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		p.t.Fatal(err)
	}
	return kib
}

// Somebody without the key announces hosts without end, at the addresses of others, to a PC that wants the channels of
// all hosts. A real robot that is switched on then is mirrored, and the others get next to nothing.
func TestRobotIsMirroredBesideForgedAnnouncements(t *testing.T) {
	longRun(t)
	s := newSite(t, "robot", "pc", "attacker")
	const span = 20 * time.Second
	s.publish("robot", "imu:200:64")
	others := s.others("attacker")
	network := s.network("pc")
	count := s.toOthers("pc")
	pc := s.run("pc", "--mirror", "*/*")
	pc.awaitLog("msg=running", met)
	before := s.status("pc")
	memory := pc.resident()
	sent := s.floods("attacker", network, others)
	await(t, met, func() error {
		if n := sent.Load(); n < 2*forgedPackets {
			return fmt.Errorf("%d packets are out", n)
		}
		return nil
	})
	began := now()
	s.run("robot")
	const view = "keep:robot.imu"
	readers := s.observe("pc", view)
	t.Logf("mirrored after %v, beside %d packets of %d forged hosts", readers.follows(began, 3*time.Second, view), sent.Load(), forgedHosts)
	time.Sleep(span) // the time that is looked at
	got, packets := s.status("pc"), int(count.Load())
	t.Logf("%v later: %d packets to others, %d goroutines (%d before), %d KiB (%d before), %d peers", span, packets, got.Goroutines, before.Goroutines,
		pc.resident(), memory, len(got.Peers))
	seconds := int(span/time.Second) + 6
	if most := 10 * (8 + 4*seconds); packets > most {
		t.Errorf("got %d packets to others, want at most %d", packets, most)
	}
	if most := before.Goroutines + 200; got.Goroutines > most {
		t.Errorf("got %d goroutines, want at most %d", got.Goroutines, most)
	}
	if most := memory + 64<<10; pc.resident() > most {
		t.Errorf("got %d KiB, want at most %d", pc.resident(), most)
	}
}

// Announcements come through a reflector, of hosts that are on no network of this one.
func TestHostBehindAReflectorIsToldWithTheCure(t *testing.T) {
	s := newSite(t, "pc", "visitor", "reflector")
	b, err := forge(0, s.network("pc"), []net.IP{net.IPv4(10, 9, 0, 2)})
	if err != nil {
		t.Fatal(err)
	}
	out := s.multicasts("reflector")
	s.run("pc", "--mirror", "robot1/*").awaitLog("msg=running", met)
	const cure = "--peer 10.9.0.2"
	for what, ask := range map[string]func() string{
		"ls":                  func() string { _, stderr, _ := s.verb("pc", "ls", "robot1", "--timeout", "200ms"); return stderr },
		"ls without a daemon": func() string { _, stderr, _ := s.verb("visitor", "ls", "robot1"); return stderr },
		"why":                 func() string { stdout, _, _ := s.verb("pc", "why", "robot1/imu", "--window", "100ms"); return stdout },
		"doctor":              func() string { list, _ := s.doctor("visitor"); return list["hosts"].Text + "\n" + list["hosts"].Cure },
	} {
		await(t, 2*met, func() error {
			go out.Write(b) // while it is asked, too: who looks by himself hears nothing else
			later := time.AfterFunc(500*time.Millisecond, func() { out.Write(b) })
			defer later.Stop()
			if text := ask(); !strings.Contains(text, cure) || !strings.Contains(text, "robot1 is announced at 10.9.0.2") {
				return fmt.Errorf("%s: got %q, want why robot1 is not dialled, and %s", what, text, cure)
			}
			return nil
		})
	}
	for _, p := range s.status("pc").Peers {
		t.Errorf("got the peer %+v, want none to dial", p)
	}
}

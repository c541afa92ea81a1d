package testnet_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

// announcement returns an announcement of robot1 from another network, where its address is at.
func (s *site) announcement(at net.IP) []byte {
	s.t.Helper()
	const service, name, machine = "_achbridge._udp.local.", "robot1._achbridge._udp.local.", "robot1.local."
	head := func(name string, kind uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: 3600}
	}
	var m dns.Msg
	m.Response, m.Compress = true, true
	m.Answer = []dns.RR{
		&dns.PTR{Hdr: head(service, dns.TypePTR), Ptr: name},
		&dns.SRV{Hdr: head(name, dns.TypeSRV), Port: 8076, Target: machine},
		&dns.TXT{Hdr: head(name, dns.TypeTXT), Txt: []string{"v=1", "net=" + s.network, "node=" + strings.Repeat("0", 31) + "1",
			"port=8076", "life=3600", "ch.imu=16x64", "more=9"}},
		&dns.A{Hdr: head(machine, dns.TypeA), A: at},
	}
	b, err := m.Pack()
	if err != nil {
		s.t.Error(err)
	}
	return b
}

// mdnsSocket opens a socket on the mDNS port of a host, to send to the group.
func (s *site) mdnsSocket(host string) *net.UDPConn {
	s.t.Helper()
	out, err := hosts.In(s.lab, host, func() (*net.UDPConn, error) {
		return net.DialUDP("udp4", &net.UDPAddr{Port: 5353}, &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353})
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { out.Close() })
	return out
}

// A reflector passes on announcements of hosts that are on other networks.
func TestHostBehindReflectorIsReportedWithFix(t *testing.T) {
	need.Long(t)
	s := newSite(t, "pc", "visitor", "reflector")
	b := s.announcement(net.IPv4(10, 9, 0, 2))
	out := s.mdnsSocket("reflector")
	s.run("pc", "--mirror", "robot1/*").awaitLog("daemon started")
	const fix = "--peer 10.9.0.2"
	for what, ask := range map[string]func() string{
		"ls":                  func() string { _, stderr, _ := s.achbridge("pc", "ls", "robot1", "--timeout", "200ms"); return stderr },
		"ls without a daemon": func() string { _, stderr, _ := s.achbridge("visitor", "ls", "robot1"); return stderr },
		"why": func() string {
			stdout, _, _ := s.achbridge("pc", "why", "robot1/imu", "--window", "100ms")
			return stdout
		},
		"doctor": func() string { list, _ := s.doctor("visitor"); return list["hosts"].Text + "\n" + list["hosts"].Cure },
	} {
		await.NoError(t, func() error {
			go out.Write(b) // also while ls runs, which receives only announcements of that time
			later := time.AfterFunc(500*time.Millisecond, func() { out.Write(b) })
			defer later.Stop()
			if text := ask(); !strings.Contains(text, fix) || !strings.Contains(text, "robot1 is announced at 10.9.0.2") {
				return fmt.Errorf("%s: got %q, want why robot1 is not dialled, and %s", what, text, fix)
			}
			return nil
		})
	}
	for _, p := range s.status("pc").Peers {
		t.Errorf("got the peer %+v, want none to dial", p)
	}
}

package testnet_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"

	"achbridge/bridge/status"
	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
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
	s.eth0(attacker, func(h *netlink.Handle, eth netlink.Link) error {
		for i := range forgedAddrs {
			ip := net.IPv4(10, 80, 76, byte(100+i)).To4()
			list = append(list, ip)
			if err := h.AddrAdd(eth, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}}); err != nil {
				return err
			}
		}
		return nil
	})
	return list
}

// claim is what an announcement says, as anybody can make it of what is public on the network.
type claim struct {
	host, node string
	port       int
	at         net.IP
}

// announcement packs claims.
func (s *site) announcement(claims ...claim) []byte {
	const service = "_achbridge._udp.local."
	var m dns.Msg
	m.Response, m.Compress = true, true
	for _, c := range claims {
		head := func(name string, kind uint16) dns.RR_Header {
			return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: 3600}
		}
		name, machine := c.host+"."+service, c.host+".local."
		m.Answer = append(m.Answer,
			&dns.PTR{Hdr: head(service, dns.TypePTR), Ptr: name},
			&dns.SRV{Hdr: head(name, dns.TypeSRV), Port: uint16(c.port), Target: machine},
			&dns.TXT{Hdr: head(name, dns.TypeTXT), Txt: []string{"v=1", "net=" + s.network, "node=" + c.node,
				fmt.Sprint("port=", c.port), "life=3600", "ch.imu=16x64", "more=9"}},
			&dns.A{Hdr: head(machine, dns.TypeA), A: c.at})
	}
	b, err := m.Pack()
	if err != nil {
		s.t.Error(err)
	}
	return b
}

// multicasts opens the mDNS port on a host, to send to the group from.
func (s *site) multicasts(host string) *net.UDPConn {
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

// floods announces nodes that there are not, and among them again and again what is given, until the test
// ends. It returns when two seconds' worth is out.
func (s *site) floods(attacker string, others []net.IP, again []byte) {
	s.t.Helper()
	out := s.multicasts(attacker)
	var sent atomic.Int32
	go func() {
		tick := time.NewTicker(time.Second / forgedPackets)
		defer tick.Stop()
		for number := 1; ; sent.Add(1) {
			var list []claim
			for range forgedHosts {
				list = append(list, claim{fmt.Sprint("robot", number), fmt.Sprintf("%032x", number), firstForged + number%30000, others[number%len(others)]})
				number++
			}
			b := s.announcement(list...)
			if sent.Load()%10 == 0 {
				b = again
			}
			if _, err := out.Write(b); err != nil {
				return // closed
			}
			<-tick.C
		}
	}()
	await.True(s.t, "the flood has not begun", func() bool { return sent.Load() >= 2*forgedPackets })
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

// Somebody without the key announces hosts without end, at the addresses of others, to a PC that wants the channels
// of all hosts, and says all that takes krang's name away: that arm is krang, that krang is nobody, and that a node
// with a lower id is krang. Krang, switched on then, is mirrored under its name, with the rules for it, and again
// after its daemon was killed; the others get next to nothing.
func TestForgedAnnouncementsHarmNobody(t *testing.T) {
	need.Long(t)
	s := newSite(t, "krang", "arm", "evil", "pc")
	const span = 10 * time.Second
	ids, robots := map[string]string{}, map[string]*process{}
	for _, host := range []string{"krang", "arm"} {
		s.publish(host, imu)
		robots[host] = s.run(host, "--name", host, "--mirror", "pc/plan")
		ids[host] = s.status(host).Node
	}
	robots["krang"].leave()
	s.publish("pc", "plan:100:64")
	count := s.toOthers("pc")
	pc := s.run("pc", "--mirror", "*/*", "--export", "plan,hosts=krang", "--http", "127.0.0.1:8078")
	pc.awaitLog("msg=running")
	before, memory := s.status("pc"), pc.resident()
	others := s.others("evil")
	s.floods("evil", others, s.announcement(
		claim{"krang", ids["arm"], 8076, net.ParseIP(s.addr("arm"))},
		claim{"nobody", ids["krang"], 8076, net.ParseIP(s.addr("evil"))},
		claim{"krang", strings.Repeat("0", 31) + "1", 8076, net.ParseIP(s.addr("evil"))}))

	began := now()
	robots["krang"] = s.run("krang", "--name", "krang", "--mirror", "pc/plan")
	atPC, atKrang := s.observe("pc", "keep:krang.imu"), s.observe("krang", "keep:pc.plan")
	t.Logf("mirrored after %v", atPC.follows(began, 3*time.Second, "keep:krang.imu"))
	atKrang.follows(now(), met, "keep:pc.plan")
	time.Sleep(span) // the time that is looked at
	got, packets := s.status("pc"), int(count.Load())
	t.Logf("%v later: %d packets to others, %d goroutines (%d before), %d KiB (%d before), %d peers", span, packets, got.Goroutines, before.Goroutines,
		pc.resident(), memory, len(got.Peers))
	if most := 10 * (8 + 4*int(time.Duration(now()-began)/time.Second+4)); packets > most {
		t.Errorf("got %d packets to others, want at most %d", packets, most)
	}
	if most := before.Goroutines + 200; got.Goroutines > most {
		t.Errorf("got %d goroutines, want at most %d", got.Goroutines, most)
	}
	if most := memory + 64<<10; pc.resident() > most {
		t.Errorf("got %d KiB, want at most %d", pc.resident(), most)
	}
	s.namesAgree("pc", ids)

	robots["krang"].kill()
	s.run("krang", "--name", "krang", "--mirror", "pc/plan")
	t.Logf("mirrored after %v when the robot was killed and started", atPC.follows(now(), met, "keep:krang.imu"))
	atKrang.follows(now(), met, "keep:pc.plan")
	s.namesAgree("pc", ids)
	if m := s.status("arm").Mirrors; len(m) != 1 || m[0].State == "live" {
		t.Errorf("arm has got what is for krang alone: %+v", m)
	}
}

// namesAgree fails the test unless all that tells names on a host calls krang the node that
// is it, and nobody else so.
func (s *site) namesAgree(host string, ids map[string]string) {
	s.t.Helper()
	live := false
	for _, m := range s.status(host).Mirrors {
		live = live || m.Name == "krang.imu" && m.State == "live"
	}
	if !live {
		s.t.Errorf("status: got mirrors %+v, want krang.imu live", s.status(host).Mirrors)
	}
	for _, l := range s.status(host).Links {
		if ids[l.Peer] != l.Node {
			s.t.Errorf("status: got a link to %s as %s, want %v", l.Node, l.Peer, ids)
		}
	}
	var list []status.RemoteChannel
	if err := json.Unmarshal([]byte(s.must(host, "ls", "--json")), &list); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range list {
		if c.Node == ids["krang"] && (c.Host != "krang" || c.Unproved) || c.Node != ids["krang"] && c.Host == "krang" && !c.Unproved {
			s.t.Errorf("ls: got %+v, want krang for %s alone", c, ids["krang"])
		}
	}
	if out, _, _ := s.verb(host, "why", "krang/imu"); !strings.Contains(out, "krang/imu") || strings.Contains(out, "nobody") {
		s.t.Errorf("why: got %s", out)
	}
	const ask = `exec 3<>/dev/tcp/127.0.0.1/8078; printf 'GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3; cat <&3`
	metrics, err := s.lab.Command(host, "bash", "-ec", ask).CombinedOutput()
	if err != nil {
		s.t.Fatalf("metrics: %v\n%s", err, metrics)
	}
	if want := `achbridge_link_up{peer="krang"`; !bytes.Contains(metrics, []byte(want)) || bytes.Contains(metrics, []byte("nobody")) || bytes.Contains(metrics, []byte(`peer="krang-`)) {
		s.t.Errorf("metrics: got %s, want %s", metrics, want)
	}
	if out := s.must(host, "events", "--json"); strings.Contains(out, `"krang-`) || strings.Contains(out, `"link_up","host":"nobody"`) {
		s.t.Errorf("events: got %s, want krang under no other name", out)
	}
}

// Announcements come through a reflector, of hosts that are on no network of this one.
func TestHostBehindAReflectorIsToldWithTheCure(t *testing.T) {
	need.Long(t)
	s := newSite(t, "pc", "visitor", "reflector")
	b := s.announcement(claim{"robot1", strings.Repeat("0", 31) + "1", firstForged, net.IPv4(10, 9, 0, 2)})
	out := s.multicasts("reflector")
	s.run("pc", "--mirror", "robot1/*").awaitLog("msg=running")
	const cure = "--peer 10.9.0.2"
	for what, ask := range map[string]func() string{
		"ls":                  func() string { _, stderr, _ := s.verb("pc", "ls", "robot1", "--timeout", "200ms"); return stderr },
		"ls without a daemon": func() string { _, stderr, _ := s.verb("visitor", "ls", "robot1"); return stderr },
		"why":                 func() string { stdout, _, _ := s.verb("pc", "why", "robot1/imu", "--window", "100ms"); return stdout },
		"doctor":              func() string { list, _ := s.doctor("visitor"); return list["hosts"].Text + "\n" + list["hosts"].Cure },
	} {
		await.NoError(t, func() error {
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

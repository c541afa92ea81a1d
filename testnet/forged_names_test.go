package testnet_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"achbridge/bridge/status"
)

// asForger has the test program send multicast packets for ever.
const asForger = "ACHBRIDGE_TEST_FORGER"

// sendForever sends each packet, in base64, five times a second from the port of mDNS.
func sendForever(packets []string) int {
	group := &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}
	conn, err := net.DialUDP("udp4", &net.UDPAddr{Port: 5353}, group)
	if err != nil {
		fmt.Fprintln(os.Stderr, "forger:", err)
		return 1
	}
	for {
		for _, text := range packets {
			b, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				fmt.Fprintln(os.Stderr, "forger:", err)
				return 1
			}
			_, _ = conn.Write(b) // the cable may be cut
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// announcement is a packet by which a node would announce itself, in base64.
func (s *site) announcement(host, node, at string) string {
	s.t.Helper()
	addr, err := s.lab.Addr(at)
	if err != nil {
		s.t.Fatal(err)
	}
	const service = "_achbridge._udp.local."
	name, machine := host+"."+service, host+".local."
	head := func(name string, kind uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: 3600}
	}
	m := &dns.Msg{Answer: []dns.RR{
		&dns.PTR{Hdr: head(service, dns.TypePTR), Ptr: name},
		&dns.SRV{Hdr: head(name, dns.TypeSRV), Port: 8076, Target: machine},
		&dns.TXT{Hdr: head(name, dns.TypeTXT), Txt: []string{"v=1", "net=" + s.network("pc"), "node=" + node, "port=8076", "life=3600", "ch.imu=16x64"}},
		&dns.A{Hdr: head(machine, dns.TypeA), A: addr.AsSlice()},
	}}
	m.Response, m.Authoritative = true, true
	b, err := m.Pack()
	if err != nil {
		s.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// forges has a host without the key say all that takes krang's name away: that arm is
// krang, that krang is nobody, and that a node with a lower id is krang.
func (s *site) forges(host, krang, arm string) {
	s.t.Helper()
	cmd := s.lab.Command(host, os.Args[0], s.announcement("krang", arm, "arm"), s.announcement("nobody", krang, host), s.announcement("krang", strings.Repeat("0", 31)+"1", host))
	cmd.Env = append(os.Environ(), asForger+"=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		_ = cmd.Wait() // killed is what it says
	})
}

// Three packets, made of what is public on the network, gave a robot's name to another,
// with the rules and wishes for it, and left it out when its link had ended. The attack
// begins before the daemons meet, or while they are linked.
func TestForgedAnnouncementsTakeNoNameAway(t *testing.T) {
	t.Parallel()
	for what, early := range map[string]bool{"before the first link": true, "while linked": false} {
		t.Run(what, func(t *testing.T) {
			if !early {
				longRun(t)
			}
			s := newSite(t, "krang", "arm", "evil", "pc")
			ids := map[string]string{}
			var robots []*process
			for _, host := range []string{"krang", "arm"} {
				s.publish(host, "imu:200:64")
				robots = append(robots, s.run(host, "--name", host, "--mirror", "pc/plan"))
				await(t, met, func() error {
					out, _, code := s.verb(host, "status", "--json")
					var got daemonStatus
					if code != 0 || json.Unmarshal([]byte(out), &got) != nil {
						return fmt.Errorf("no status of %s", host)
					}
					ids[host] = got.Node
					return nil
				})
			}
			s.publish("pc", "plan:100:64")
			if early {
				s.forges("evil", ids["krang"], ids["arm"])
				time.Sleep(time.Second) // it is there first
			}
			s.run("pc", "--mirror", "krang/imu", "--export", "plan,hosts=krang", "--http", "127.0.0.1:8078")
			pc, krang := s.observe("pc", "keep:krang.imu"), s.observe("krang", "keep:pc.plan")
			t.Logf("mirrored after %v", pc.follows(now(), met, "keep:krang.imu"))
			krang.follows(now(), met, "keep:pc.plan")
			if !early {
				s.forges("evil", ids["krang"], ids["arm"])
			}
			time.Sleep(2 * time.Second) // of the attack
			s.namesAgree("pc", ids)
			pc.follows(now(), time.Second, "keep:krang.imu")

			robots[0].kill()
			s.run("krang", "--name", "krang", "--mirror", "pc/plan")
			t.Logf("mirrored after %v when the robot was killed and started", pc.follows(now(), met, "keep:krang.imu"))
			krang.follows(now(), met, "keep:pc.plan")
			s.namesAgree("pc", ids)
			if m := s.status("arm").Mirrors; len(m) != 1 || m[0].State == "live" {
				t.Errorf("arm has got what is for krang alone: %+v", m)
			}
		})
	}
}

// namesAgree fails the test unless all that tells names on a host calls krang the node that
// is it, and nobody else so.
func (s *site) namesAgree(host string, ids map[string]string) {
	s.t.Helper()
	got := s.status(host)
	for _, l := range got.Links {
		if ids[l.Peer] != l.Node {
			s.t.Errorf("status: got a link to %s as %s, want %v", l.Node, l.Peer, ids)
		}
	}
	if len(got.Mirrors) != 1 || got.Mirrors[0].Name != "krang.imu" || got.Mirrors[0].State != "live" {
		s.t.Errorf("status: got mirrors %+v, want krang.imu live", got.Mirrors)
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

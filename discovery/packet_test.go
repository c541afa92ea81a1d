package discovery

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func announcementPacket(t testing.TB, ttl time.Duration) []byte {
	t.Helper()
	b, err := encodeAnnouncement(record{peer: robot(), port: 8076, addrs: []netip.Addr{
		netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")}}, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustParse(t *testing.T, b []byte) packet {
	t.Helper()
	if !mentionsService(b) {
		t.Fatal("the quick look missed our service")
	}
	p, err := parsePacket(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustEncode(t *testing.T, msg dns.Msg) []byte {
	t.Helper()
	b, err := msg.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func response(t *testing.T, records ...string) []byte {
	t.Helper()
	var msg dns.Msg
	msg.Response = true
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		msg.Answer = append(msg.Answer, rr)
	}
	return mustEncode(t, msg)
}

func TestAnnouncementRoundTrip(t *testing.T) {
	b := announcementPacket(t, 10*time.Second)
	got := mustParse(t, b)
	want := packet{announcements: []record{{robot(), 8076, []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(b) > 1400 {
		t.Errorf("got %d bytes, want one Ethernet packet", len(b))
	}
}

func TestLargestAnnouncementFitsInPacket(t *testing.T) {
	r := record{peer: robot(), port: 65535}
	for range 200 {
		r.peer.Channels = append(r.peer.Channels, Channel{"some-name", 16, 512})
	}
	for i := range maxAddrs {
		r.addrs = append(r.addrs, netip.AddrFrom16([16]byte{0xfd, 15: byte(i)}))
	}
	b, err := encodeAnnouncement(r, time.Minute)
	if err != nil || len(b) > 1800 {
		t.Errorf("got %d bytes, %v, want a datagram far below 9000", len(b), err)
	}
}

func TestGoodbyeRoundTrip(t *testing.T) {
	got := mustParse(t, announcementPacket(t, 0))
	if want := (packet{finalGoodbyes: []Peer{robot()}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestGoodbyeWithoutTXTNamesTheHost(t *testing.T) {
	got := mustParse(t, response(t, `_achbridge._udp.local. 0 IN PTR my\.robot._achbridge._udp.local.`))
	if want := (packet{goodbyes: []Peer{{Host: "my.robot"}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParsePacketDetectsQueryForAllHosts(t *testing.T) {
	var q dns.Msg
	q.SetQuestion(serviceName, dns.TypePTR)
	if p := mustParse(t, mustEncode(t, q)); !p.isQuery {
		t.Error("a query for all hosts was not detected")
	}
	known, _ := dns.NewRR("_achbridge._udp.local. 60 IN PTR robot._achbridge._udp.local.")
	q.Answer = []dns.RR{known}
	if p := mustParse(t, mustEncode(t, q)); p.isQuery {
		t.Error("a question that suppresses answers passed for one that does not")
	}
	q.SetQuestion("robot."+serviceName, dns.TypePTR)
	q.Answer = nil
	if p := mustParse(t, mustEncode(t, q)); p.isQuery {
		t.Error("a probe was treated as a query for all hosts")
	}
}

func TestHostNameWithDotsRoundTrip(t *testing.T) {
	r := record{peer: robot(), port: 8076}
	r.peer.Host = "robot.lab_1.example"
	b, err := encodeAnnouncement(r, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustParse(t, b).announcements; len(got) != 1 || got[0].peer.Host != r.peer.Host {
		t.Errorf("got %+v, want %s", got, r.peer.Host)
	}
}

func TestParsePacketIgnoresForeignRecords(t *testing.T) {
	txt := ` 60 IN TXT "v=1" "net=11111111" "node=` + node("a1") + `"`
	for name, records := range map[string][]string{
		"no port":           {`robot._achbridge._udp.local.` + txt},
		"port 0":            {`robot._achbridge._udp.local.` + txt, `robot._achbridge._udp.local. 60 IN SRV 0 0 0 h.local.`},
		"two labels":        {`a.b._achbridge._udp.local.` + txt, `a.b._achbridge._udp.local. 60 IN SRV 0 0 1 h.local.`},
		"host with control": {`a\007b._achbridge._udp.local.` + txt, `a\007b._achbridge._udp.local. 60 IN SRV 0 0 1 h.local.`},
		"host with blank":   {`a\ b._achbridge._udp.local.` + txt, `a\ b._achbridge._udp.local. 60 IN SRV 0 0 1 h.local.`},
		"hidden host":       {`\.a._achbridge._udp.local.` + txt, `\.a._achbridge._udp.local. 60 IN SRV 0 0 1 h.local.`},
		"bad TXT":           {`robot._achbridge._udp.local. 60 IN TXT "v=1"`, `robot._achbridge._udp.local. 60 IN SRV 0 0 1 h.local.`},
	} {
		if p, err := parsePacket(response(t, records...)); len(p.announcements)+len(p.goodbyes) > 0 || err == nil {
			t.Errorf("%s: got %+v, %v, want nothing and an error", name, p, err)
		}
	}
	if p, err := parsePacket(response(t, `robot._http._tcp.local.`+txt)); len(p.announcements) > 0 || err != nil {
		t.Errorf("another service: got %+v, %v, want nothing", p, err)
	}
}

func TestParsePacketSkipsOnlyBadServices(t *testing.T) {
	p, err := parsePacket(response(t,
		`bad._achbridge._udp.local. 60 IN TXT "v=1"`,
		`robot._achbridge._udp.local. 60 IN TXT "v=1" "net=11111111" "node=`+node("a1")+`"`,
		`robot._achbridge._udp.local. 60 IN SRV 0 0 1 h.local.`))
	if len(p.announcements) != 1 || err == nil {
		t.Errorf("got %+v, %v, want the good one and an error", p, err)
	}
}

func TestParsePacketBoundsCounts(t *testing.T) {
	var records []string
	for range 100 {
		records = append(records, `h.local. 60 IN A 10.0.0.1`)
	}
	records = append(records, `robot._achbridge._udp.local. 60 IN SRV 0 0 1 h.local.`,
		`robot._achbridge._udp.local. 60 IN TXT "v=1" "net=11111111" "node=`+node("a1")+`"`)
	if p := mustParse(t, response(t, records...)); len(p.announcements) != 1 || len(p.announcements[0].addrs) != maxAddrs {
		t.Errorf("got %+v, want %d addresses", p, maxAddrs)
	}
	records = nil
	for i := range maxInstances + 1 {
		records = append(records, `_achbridge._udp.local. 0 IN PTR h`+string(rune('A'+i))+`._achbridge._udp.local.`)
	}
	if p, err := parsePacket(response(t, records...)); len(p.goodbyes) > maxInstances || err == nil {
		t.Errorf("got %d services, %v, want at most %d and an error", len(p.goodbyes), err, maxInstances)
	}
}

func FuzzPacket(f *testing.F) {
	f.Add(announcementPacket(f, 10*time.Second))
	f.Add(announcementPacket(f, 0))
	f.Add([]byte("\x00\x00\x84\x00\x00\x00\x00\x01\x00\x00\x00\x00\x0a_achbridge\x04_udp"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, _ := parsePacket(b)
		if n := len(p.announcements) + len(p.goodbyes) + len(p.finalGoodbyes); n > maxInstances {
			t.Fatalf("got %d services", n)
		}
		for _, r := range p.announcements {
			cfg := Config{Self: r.peer, Port: int(r.port)}
			if err := cfg.checkAnnounce(); err != nil || len(r.addrs) > maxAddrs {
				t.Fatalf("accepted what cannot be announced: %v, %d addresses", err, len(r.addrs))
			}
		}
		for _, who := range append(p.goodbyes, p.finalGoodbyes...) {
			if checkName(who.Host) != nil {
				t.Fatalf("accepted the host name %q", who.Host)
			}
		}
	})
}

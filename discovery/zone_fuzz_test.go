package discovery

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// hostileReplies are the answers of a hostile name server in the order of the queries, each after its length.
type hostileReplies []byte

func (r *hostileReplies) answer(_ context.Context, _ string, kind uint16) (answer, error) {
	if len(*r) < 2 {
		return answer{}, errors.New("no answer")
	}
	n := min(int(binary.BigEndian.Uint16(*r)), len(*r)-2)
	text := (*r)[2 : 2+n]
	*r = (*r)[2+n:]
	var m dns.Msg
	if err := m.Unpack(text); err != nil {
		return answer{}, err
	}
	return parseAnswer(&m, kind), nil
}

// asZone encodes a zone as the answers to the queries for its first host.
func asZone(t testing.TB, text string) (all []byte) {
	t.Helper()
	records := zoneOf(t, text)
	for _, q := range []struct {
		name string
		kind uint16
	}{
		{"_achbridge._udp.robots.example.com.", dns.TypePTR}, {"krang._achbridge._udp.robots.example.com.", dns.TypeSRV},
		{"krang._achbridge._udp.robots.example.com.", dns.TypeTXT}, {"krang.robots.example.com.", dns.TypeA}, {"krang.robots.example.com.", dns.TypeAAAA},
	} {
		var m dns.Msg
		m.Response = true
		for _, rr := range records {
			if rr.Header().Rrtype == q.kind && rr.Header().Name == q.name {
				m.Answer = append(m.Answer, rr)
			}
		}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		all = append(binary.BigEndian.AppendUint16(all, uint16(len(b))), b...)
	}
	return all
}

// FuzzZone reads zones from a hostile name server. The hosts that are not omitted must have valid names and addresses.
func FuzzZone(f *testing.F) {
	const one = `
_achbridge._udp       60 PTR krang._achbridge._udp
krang._achbridge._udp 20 SRV 0 0 8076 krang
krang._achbridge._udp 20 TXT "v=1" "net=11111111" "node=a1ffffffffffffffffffffffffffffff" "life=60" "ch.imu=16x64" "more=3"
krang                 5  A    192.0.2.7
krang                 30 AAAA 2001:db8::7
`
	f.Add(asZone(f, one))
	f.Add(asZone(f, zoneText))
	f.Add([]byte("\x00\x0c\x00\x00\x84\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	links := []link{testLink(2, "eth0", "10.0.0.1/24")}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := hostileReplies(b)
		list, err := r.answer(t.Context(), "", dns.TypePTR)
		if err != nil {
			return
		}
		z := zone{}
		z.shortenTTL(list)
		for _, name := range instancesOf(list, robots) {
			read, host, err := readHost(t.Context(), r.answer, name)
			z.shortenTTL(read...)
			if err == nil {
				z.hosts = append(z.hosts, host)
			}
		}
		if wait := z.validFor(); wait < minLifetime || wait > maxLifetime {
			t.Fatalf("got %v until the zone is read again", wait)
		}
		table := newTable(Peer{Host: "pc", Node: node("99"), Network: "11111111"})
		var peers []Peer
		for _, h := range z.hosts {
			checkZoneHost(t, h)
			p := h.peer
			for _, a := range (packetSource{links: links}).addresses(h) {
				p.Addrs = append(p.Addrs, a.AddrPort)
			}
			peers = append(peers, p)
		}
		table.setZone("robots.example.com", peers)
		table.expire(t0.Add(time.Hour))
		if got := len(Hosts(table.peers())); got > len(peers) {
			t.Fatalf("got %d hosts of %d", got, len(peers))
		}
	})
}

func checkZoneHost(t *testing.T, h record) {
	t.Helper()
	if checkName(h.peer.Host) != nil || h.port == 0 || len(h.addrs) == 0 || len(h.addrs) > maxAddrs {
		t.Fatalf("kept a host %q, port %d, with %d addresses", h.peer.Host, h.port, len(h.addrs))
	}
	for _, a := range h.addrs {
		if !a.IsValid() || a != a.Unmap() || a.IsLinkLocalUnicast() || a.Zone() != "" || a == (netip.Addr{}) {
			t.Fatalf("kept the address %v", a)
		}
	}
	if h.peer.Node == "" {
		return
	}
	p := h.peer
	if err := (Config{Self: p, Port: int(h.port)}).checkAnnounce(); err != nil {
		t.Fatalf("kept what nobody could announce: %v", err)
	}
}

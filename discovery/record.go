package discovery

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// hostTarget returns the DNS name for our address records. It contains the node id and not the machine's name, since an
// avahi-daemon on this machine owns that name, and two machines with one name would mix their addresses.
func hostTarget(node string) string { return "achbridge-" + node[:12] + "." + domain + "." }

// byeString in the TXT record of a goodbye means that the host leaves. zeroconf sends a goodbye without it also when one
// registration replaces another.
const byeString = "bye=1"

// encodeAnnouncement encodes r as an unsolicited response (RFC 6762, section 8.3) whose records have the given TTL. With
// ttl 0 it encodes a goodbye (section 10.1) with byeString.
func encodeAnnouncement(r record, ttl time.Duration) ([]byte, error) {
	name := label(r.peer.Host) + "." + serviceName
	target := hostTarget(r.peer.Node)
	seconds := uint32(ttl / time.Second)
	head := func(name string, rrtype, class uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: rrtype, Class: class, Ttl: seconds}
	}
	const unique = dns.ClassINET | classFlush
	txt := buildTXT(r.peer, int(r.port))
	if ttl == 0 {
		txt = append(txt, byeString)
	}
	msg := dns.Msg{Compress: true}
	msg.Response = true
	msg.Authoritative = true
	msg.Answer = []dns.RR{
		&dns.PTR{Hdr: head(serviceName, dns.TypePTR, dns.ClassINET), Ptr: name},
		&dns.SRV{Hdr: head(name, dns.TypeSRV, unique), Port: r.port, Target: target},
		&dns.TXT{Hdr: head(name, dns.TypeTXT, unique), Txt: txt},
	}
	for _, a := range r.addrs {
		if a.Is4() {
			msg.Answer = append(msg.Answer, &dns.A{Hdr: head(target, dns.TypeA, unique), A: net.IP(a.AsSlice())})
		} else {
			msg.Answer = append(msg.Answer, &dns.AAAA{Hdr: head(target, dns.TypeAAAA, unique), AAAA: net.IP(a.AsSlice())})
		}
	}
	b, err := msg.Pack()
	if err != nil {
		return nil, fmt.Errorf("announcement of %s: %w", r.peer.Host, err)
	}
	return b, nil
}

// announcedAddrs returns the addresses of l that we announce on l. Like zeroconf it returns an IPv6 link-local address only
// if l has no other IPv6 address, so that both announce the same.
func announcedAddrs(l link) []netip.Addr {
	var near, all []netip.Addr
	global6 := false
	for _, p := range l.prefixes {
		if a := p.Addr(); a.Is6() && a.IsLinkLocalUnicast() {
			near = append(near, a)
		} else {
			global6 = global6 || a.Is6()
			all = append(all, a)
		}
	}
	if !global6 {
		all = append(all, near...)
	}
	return all[:min(len(all), maxAddrs)]
}

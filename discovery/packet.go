package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Names of the DNS-SD service (RFC 6763). A host has one service for all of its channels.
const (
	service     = "_achbridge._udp"
	domain      = "local"
	serviceName = service + "." + domain + "."
)

const (
	maxPacket    = 9000 // largest packet in bytes (RFC 6762, section 17)
	maxInstances = 8    // maximum number of achbridge services in one packet; a host has one
	maxAddrs     = 16   // maximum number of addresses of one service
)

// classFlush is the cache-flush bit of a unique record's class (RFC 6762, section 10.2).
const classFlush = 1 << 15

// packet is what an mDNS message contains about our service.
type packet struct {
	isQuery       bool     // a query for all hosts, without known answers
	announcements []record // complete announcements
	goodbyes      []Peer   // goodbyes without bye=1; without a TXT record only Host is set, not Node
	finalGoodbyes []Peer   // goodbyes with bye=1
}

// record is one host's announcement.
type record struct {
	peer  Peer // Host, Node, Network, Ports, lifetime, Channels and More are set
	port  uint16
	addrs []netip.Addr // have no zones
}

// mentionsService is a cheap check that discards most packets: it reports whether b may be about our service.
func mentionsService(b []byte) bool {
	return len(b) <= maxPacket && bytes.Contains(b, []byte("\x0a_achbridge\x04_udp"))
}

// parsePacket parses an mDNS message of any sender. It omits invalid services and returns the rest of the packet, with an
// error about the last invalid service.
func parsePacket(b []byte) (packet, error) {
	var msg dns.Msg
	if err := msg.Unpack(b); err != nil {
		return packet{}, err
	}
	if msg.Opcode != dns.OpcodeQuery {
		return packet{}, nil
	}
	if !msg.Response {
		return packet{isQuery: len(msg.Answer) == 0 && asksForAll(msg.Question)}, nil
	}
	return collect(append(msg.Answer, msg.Extra...))
}

// asksForAll reports whether a query is for all hosts and is answered by multicast. A question with the topmost bit of the
// class set requests unicast answers (RFC 6762, section 5.4).
func asksForAll(queries []dns.Question) bool {
	for _, q := range queries {
		if q.Qclass&classFlush == 0 && q.Name == serviceName && (q.Qtype == dns.TypePTR || q.Qtype == dns.TypeANY) {
			return true
		}
	}
	return false
}

// instance gathers the records of one service name.
type instance struct {
	name    string
	srv     *dns.SRV
	txt     *dns.TXT
	goodbye bool
}

func collect(rrs []dns.RR) (packet, error) {
	instances, addrs, err := gather(rrs)
	var p packet
	for _, in := range instances {
		host, herr := fromLabel(strings.TrimSuffix(in.name, "."+serviceName))
		if herr != nil {
			err = herr
			continue
		}
		if in.txt == nil {
			if in.goodbye {
				p.goodbyes = append(p.goodbyes, Peer{Host: host})
			}
			continue
		}
		peer, port, terr := parseTXT(in.txt.Txt)
		if terr != nil {
			err = terr
			continue
		}
		peer.Host = host
		if in.goodbye {
			if slices.Contains(in.txt.Txt, byeString) {
				p.finalGoodbyes = append(p.finalGoodbyes, peer)
			} else {
				p.goodbyes = append(p.goodbyes, peer)
			}
			continue
		}
		r := record{peer: peer, port: uint16(port)}
		if in.srv != nil {
			r.port = in.srv.Port
			r.addrs = addrs[in.srv.Target]
		}
		if r.port == 0 {
			err = errors.New("announcement without a port")
			continue
		}
		p.announcements = append(p.announcements, r)
	}
	return p, err
}

// gather groups records by service, in the order of the packet, and addresses by host.
func gather(rrs []dns.RR) ([]*instance, map[string][]netip.Addr, error) {
	var instances []*instance
	var err error
	of := func(name string, ttl uint32) *instance {
		for _, in := range instances {
			if in.name == name {
				in.goodbye = in.goodbye || ttl == 0
				return in
			}
		}
		if len(instances) == maxInstances {
			err = fmt.Errorf("packet: more than %d services", maxInstances)
			return &instance{}
		}
		instances = append(instances, &instance{name: name, goodbye: ttl == 0})
		return instances[len(instances)-1]
	}
	addrs := make(map[string][]netip.Addr)
	for _, rr := range rrs {
		h := rr.Header()
		switch rr := rr.(type) {
		case *dns.PTR:
			if h.Name == serviceName && isInstance(rr.Ptr) {
				of(rr.Ptr, h.Ttl)
			}
		case *dns.SRV:
			if isInstance(h.Name) {
				of(h.Name, h.Ttl).srv = rr
			}
		case *dns.TXT:
			if isInstance(h.Name) {
				of(h.Name, h.Ttl).txt = rr
			}
		case *dns.A:
			addAddr(addrs, h, rr.A)
		case *dns.AAAA:
			addAddr(addrs, h, rr.AAAA)
		}
	}
	return instances, addrs, err
}

func isInstance(name string) bool { return strings.HasSuffix(name, "."+serviceName) }

func addAddr(addrs map[string][]netip.Addr, h *dns.RR_Header, ip []byte) {
	a, ok := netip.AddrFromSlice(ip)
	if ok && h.Ttl > 0 && len(addrs[h.Name]) < maxAddrs {
		addrs[h.Name] = append(addrs[h.Name], a.Unmap())
	}
}

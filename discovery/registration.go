package discovery

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/grandcat/zeroconf"
)

// grandcat/zeroconf v1.0.0 registers the service and answers queries. It has limits for which we compensate with miekg/dns
// on our own sockets of the same port:
//
//   - Every service has two sockets that parse each multicast packet. So we use one service per host.
//   - SetText races with the answers. So we never call it. When the channels change, we register again, at most every five
//     seconds.
//   - Shutdown always sends a goodbye for the host. So we begin the new registration before we end the old one, and send a
//     complete announcement right after the goodbye. RFC 6762, section 10.1 provides for this: listeners keep records for
//     a second after a goodbye, so that another announcement can rescue them. Our table keeps them for half a second. When
//     a host really leaves, it also sends goodbyes with bye=1, and listeners drop it at once.
//   - Shutdown waits on a WaitGroup that the receivers add themselves to. So we do not shut down a server that is younger
//     than minServerAge. The race detector still reports that WaitGroup, and TTL (see silence), but nothing else. The
//     prober sleeps for up to 3.5 s after Shutdown. Its writes then fail, which does no harm.
//   - Register keeps the interfaces that it is called with. So we list them once a second. If an interface, or an address
//     family on one, was added or removed, we register again. If an address or an interface's flags have changed, we repeat
//     the announcement. We give Register no addresses, so it reads those of the interface for each answer.
//   - zeroconf announces the service only in the first seconds. So we repeat the announcement four times per lifetime, and
//     at least every 30 s. Listeners then know without queries which hosts are up, and drop a killed host within its
//     lifetime. Records of zeroconf have a TTL of 3200 s, those of our announcements have the lifetime as TTL.
//   - The resolver stops querying after the first answer. It reports neither changes nor removals, only one host for each
//     name, and no addresses of packets. So we do not use it, but send queries ourselves (see querySchedule).
//   - The responder does not handle name conflicts. Our table keeps the claims of each source apart, and links distinguish
//     two hosts with one name.
//   - zeroconf logs to the standard logger if an address family is missing. We cannot change that.
//   - The sockets are bound to the wildcard address, so they may receive unicast answers for an avahi-daemon of this host.
//     Both receive multicast.
//   - zeroconf answers queries for unicast answers from any source.

// minServerAge is the age from which a zeroconf server may be shut down. The receivers of younger servers may still add
// themselves to the WaitGroup on which Shutdown waits.
const minServerAge = 100 * time.Millisecond

// registration is a zeroconf service, which answers queries for rec. Our own code sends repeated announcements and the
// second goodbye.
type registration struct {
	server    *zeroconf.Server
	rec       record
	links     []link
	startedAt time.Time
}

// newRegistration registers rec on links. zeroconf then sends probes, and two announcements within 1.5 s.
func newRegistration(rec record, links []link) (*registration, error) {
	p := rec.peer
	// Without addresses, zeroconf answers with those of the interface.
	server, err := zeroconf.RegisterProxy(label(p.Host), service, domain, int(rec.port), hostTarget(p.Node), nil,
		buildTXT(p, int(rec.port)), interfacesOf(links))
	if err != nil {
		return nil, fmt.Errorf("mdns service on %s: %w", strings.Join(namesOf(links), ", "), err)
	}
	return &registration{server: server, rec: rec, links: links, startedAt: time.Now()}, nil
}

// silence sets the TTL of all records to 0, which makes every later packet of the service a goodbye. Unlike end it does not
// block. The race detector reports TTL against zeroconf's answers. TTL writes one machine word, so an answer has either the
// old value or the new one.
func (r *registration) silence() { r.server.TTL(0) }

// end shuts the service down, which sends a goodbye for the host. It waits for minServerAge, and for the kernel to close
// the sockets.
func (r *registration) end() {
	time.Sleep(minServerAge - time.Since(r.startedAt))
	r.server.Shutdown()
}

// announcedRecord is a record and the links on which it was announced. The zero value has no links.
type announcedRecord struct {
	rec   record
	links []link
}

// send multicasts the record with a TTL of ttl; 0 is a goodbye. It fails only if no packet could be sent. It does not wait
// for the kernel's lock of networks (see stopTimeout), since its sockets join no group.
func (s announcedRecord) send(ttl time.Duration) error {
	var errs []error
	sent := false
	for _, f := range []family{ip4, ip6} {
		out, err := openSocket(f)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, l := range s.links {
			if !l.has(f) {
				continue
			}
			rec := s.rec
			rec.addrs = announcedAddrs(l)
			b, err := encodeAnnouncement(rec, ttl)
			if err == nil && ttl == 0 {
				err = out.sendGoodbye(rec, b, l.iface)
			} else if err == nil {
				err = out.send(b, l.iface)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("announcement on %s: %w", l.iface.Name, err))
			}
			sent = sent || err == nil
		}
		out.Close()
	}
	if sent {
		return nil
	}
	return errors.Join(errs...)
}

// sendGoodbye sends a goodbye from an address of the record if possible. Such a goodbye ends all claims that list the address
// (see table.handleFinalGoodbye). Otherwise the kernel chooses the source; for IPv6 that is the link-local address, which may not be
// announced.
func (s *socket) sendGoodbye(rec record, b []byte, i net.Interface) error {
	for _, a := range rec.addrs {
		if a.Is6() == (s.family == ip6) && s.sendFrom(a, b, i) == nil {
			return nil
		}
	}
	return s.send(b, i)
}

// noInterface returns the error for a host without an interface for multicast.
func noInterface(names []string) error {
	what := "no interface is up that can multicast"
	if len(names) > 0 {
		what = "none of the interfaces " + strings.Join(names, ", ") + " is up"
	}
	return fmt.Errorf("%s: see `ip link`, or list peers with --peer HOST:PORT", what)
}

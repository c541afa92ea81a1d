package discovery

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/grandcat/zeroconf"
)

// What zeroconf lacks, and what we do instead:
//
// grandcat/zeroconf v1.0.0 registers the service and answers questions. The rest is our code, with miekg/dns on our own
// sockets of the same port:
//
//   - Every service of zeroconf has two sockets that parse each multicast packet. So there is one service per host.
//   - SetText races with the answers. We never call it: when the list of channels changes, we register again, at most
//     every five seconds.
//   - Shutdown always sends a goodbye for the host. So we begin the new registration before we end the old one, and send
//     a complete announcement right after the goodbye. RFC 6762, section 10.1 provides for this: listeners keep records
//     for a second after a goodbye, so that others can rescue them. Our table keeps them for half a second, so the host
//     is never gone meanwhile. A host that really leaves sends goodbyes with bye=1 before and after that of zeroconf:
//     then listeners drop the host at once.
//   - Shutdown waits on a WaitGroup that the receivers enter by themselves. So we do not shut down a server that is
//     younger than 100 ms. The race detector still reports that WaitGroup, and TTL (see silence); it reports nothing
//     else. The prober sleeps for up to 3.5 s after Shutdown. Its writes then fail, which does no harm.
//   - Register fixes the interfaces. We list them once a second. We register again when an interface, or an address
//     family on one, has come or gone; we announce again when an address or the state of a cable has changed. We give
//     Register no addresses: then it looks up those of the interface for each answer.
//   - zeroconf announces nothing after the first seconds. We repeat the announcement four times per life, and at least
//     every 30 s. So a listener knows without questions which hosts are up, and loses a killed host within its life.
//     Answers of zeroconf have a TTL of 3200 s, for caches that do not know life; our answers have life as TTL.
//   - The resolver of zeroconf stops asking after the first answer. It reports neither changes nor removals, only one
//     host for each name, and not where a packet came from or was sent to. We do not use it. We ask in rounds that are
//     1, 2, 4 ... 60 s apart. We leave a round out when another host has just asked the same, since all answers are
//     multicast. A responder answers on both address families when it is asked on one: so after two rounds on both
//     families, we ask on them in turn. Our listener hears answers, announcements, changes and goodbyes.
//   - The responder does not handle conflicts. Our table keeps the claims of each source apart; two hosts with one name
//     are told apart once they are linked.
//   - zeroconf logs to the standard logger when an address family is missing. We cannot change that.
//   - The sockets of zeroconf are bound to the wildcard address. They may receive unicast answers meant for an
//     avahi-daemon of the same host. Multicast reaches both.
//   - zeroconf answers a question that asks for a unicast answer, from any source.

// minServerAge is how old a zeroconf server must be before Shutdown. Younger ones may still enter the WaitGroup that Shutdown
// waits on.
const minServerAge = 100 * time.Millisecond

// registration is one zeroconf service, which answers questions. We send the unsolicited packets (repetitions and the
// second goodbye) ourselves, from the same record.
type registration struct {
	server    *zeroconf.Server
	rec       record
	links     []link
	startedAt time.Time
}

// newRegistration announces rec on links; zeroconf sends probes and two announcements within 1.5 s.
func newRegistration(rec record, links []link) (*registration, error) {
	p := rec.peer
	// Without addresses, zeroconf puts those of the outgoing interface into each answer.
	server, err := zeroconf.RegisterProxy(label(p.Host), service, domain, int(rec.port), hostTarget(p.Node), nil,
		buildTXT(p, int(rec.port)), interfacesOf(links))
	if err != nil {
		return nil, fmt.Errorf("mdns service on %s: %w", strings.Join(namesOf(links), ", "), err)
	}
	return &registration{server: server, rec: rec, links: links, startedAt: time.Now()}, nil
}

// silence makes every later packet of the service a goodbye, since all records then have a TTL of 0. It does not block:
// end does, while the kernel is slow to close a socket. The race detector reports TTL against zeroconf's answers; it
// writes one word, and an answer has the old value or the new one.
func (r *registration) silence() { r.server.TTL(0) }

// end closes the service, which sends a goodbye for the host. It takes at most settled.
func (r *registration) end() {
	time.Sleep(minServerAge - time.Since(r.startedAt))
	r.server.Shutdown()
}

// announcedRecord is a record and the links on which it was announced; the zero value was announced nowhere.
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

// noInterface is the error when no interface can multicast.
func noInterface(names []string) error {
	what := "no interface is up that can multicast"
	if len(names) > 0 {
		what = "none of the interfaces " + strings.Join(names, ", ") + " is up"
	}
	return fmt.Errorf("%s: see `ip link`, or list peers with --peer HOST:PORT", what)
}

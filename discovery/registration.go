package discovery

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/grandcat/zeroconf"
)

// Where zeroconf falls short, and what we do:
//
// grandcat/zeroconf v1.0.0 registers the service and answers questions. The rest is ours, with
// miekg/dns on our own sockets of the same port:
//
//   - Every service costs two sockets that parse each multicast packet of the link. So there is one per host.
//   - SetText races with the answers. It is never called: a changed list is a new registration, at most every five
//     seconds.
//   - Shutdown always says goodbye for the host; nothing in the interface prevents it. The new registration is
//     there before the old one ends, and a complete announcement follows right behind the goodbye. RFC 6762,
//     section 10.1 wants it so: listeners keep records for a second after a goodbye, so that others can rescue
//     them. Our table keeps a peer for half of one; the host is never gone in between. A host that leaves sends a
//     goodbye of its own before and behind that one, which says that it is meant (bye=1): listeners drop the host at once.
//   - Shutdown waits on a WaitGroup that the receivers enter by themselves. Younger than 100 ms a server is not
//     shut down. The race detector still reports that WaitGroup; it is the one report that remains. The prober
//     sleeps on for up to 3.5 s after Shutdown and its writes then fail, which does nothing.
//   - Interfaces are fixed at Register. We look at them once a second, register anew when one came or went (or an
//     address family on it), and announce anew when an address or the cable did. Register is given no addresses:
//     then it looks up those of the interface for each answer.
//   - Nothing is announced after the first seconds. We repeat the announcement four times per life, and every 30 s
//     at least, so that a listener needs no questions to know who lives, and lose a host within its life after SIGKILL. zeroconf's own
//     answers say 3200 s to caches that do not know life; ours say life.
//   - Its resolver stops asking after the first answer, reports neither changes nor removals, one host per name, and
//     not where a packet came from or was sent to. It is not used. We ask in rounds, 1, 2, 4 ... 60 s apart; a
//     round is left out when another host just asked the same, since all answers are multicast. A responder answers
//     on both address families what it hears on one: after two rounds on both, the families take turns. What counts
//     is heard by our listener: answers, announcements, changes, goodbyes.
//   - Its responder has no conflict handling. The table goes by who says what; two hosts of one name are told apart
//     where they are linked.
//   - It logs to the standard logger when a family is missing. That we cannot change.
//   - Its sockets are bound to the wildcard address and may be handed unicast answers meant for an avahi-daemon of
//     the same host. Multicast reaches both.
//   - It answers a question that asks for a unicast answer, wherever it comes from.

// settled is how old a zeroconf server must be before Shutdown: its receivers enter a WaitGroup by themselves,
// and Shutdown must not wait on it meanwhile.
const settled = 100 * time.Millisecond

// registration is one zeroconf service: it answers questions. What is said unasked (repetitions, the second
// goodbye) we send ourselves, from the same record.
type registration struct {
	server *zeroconf.Server
	rec    record
	links  []link
	born   time.Time
}

// newRegistration announces rec on links; zeroconf sends probes and two announcements within 1.5 s.
func newRegistration(rec record, links []link) (*registration, error) {
	p := rec.peer
	// No addresses: zeroconf then gives in every answer the present ones of the interface it leaves by.
	server, err := zeroconf.RegisterProxy(label(p.Host), service, domain, int(rec.port), hostTarget(p.Node), nil,
		buildTXT(p, int(rec.port)), interfacesOf(links))
	if err != nil {
		return nil, fmt.Errorf("mdns service on %s: %w", strings.Join(namesOf(links), ", "), err)
	}
	return &registration{server: server, rec: rec, links: links, born: time.Now()}, nil
}

// end closes the service, which says goodbye for the host. It takes settled at most.
func (r *registration) end() {
	time.Sleep(settled - time.Since(r.born))
	r.server.Shutdown()
}

// spoken is a record, and where it is said; the zero value is said nowhere.
type spoken struct {
	rec   record
	links []link
}

// say multicasts the record, to live for ttl; 0 is a goodbye. It fails only where nothing went out. It never waits for
// what others do with networks: its sockets join no group.
func (s spoken) say(ttl time.Duration) error {
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
			rec.addrs = addrsOf(l)
			b, err := announcement(rec, ttl)
			if err == nil && ttl == 0 {
				err = out.leave(rec, b, l.iface)
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

// leave sends a goodbye, if it can, from an address of the record: it ends all that others have heard of that one (see
// table.hasLeft). For the group of IPv6 the kernel takes the link-local address, which need not be announced.
func (s *socket) leave(rec record, b []byte, i net.Interface) error {
	for _, a := range rec.addrs {
		if a.Is6() == (s.family == ip6) && s.sendFrom(a, b, i) == nil {
			return nil
		}
	}
	return s.send(b, i)
}

// noInterface is the error for a host that multicast cannot leave.
func noInterface(names []string) error {
	what := "no interface is up that can multicast"
	if len(names) > 0 {
		what = "none of the interfaces " + strings.Join(names, ", ") + " is up"
	}
	return fmt.Errorf("%s: see `ip link`, or list peers with --peer HOST:PORT", what)
}

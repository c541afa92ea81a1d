package discovery

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grandcat/zeroconf"
)

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
			if err == nil {
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

// noInterface is the error for a host that multicast cannot leave.
func noInterface(names []string) error {
	what := "no interface is up that can multicast"
	if len(names) > 0 {
		what = "none of the interfaces " + strings.Join(names, ", ") + " is up"
	}
	return fmt.Errorf("discovery: %s: see `ip link`, or list peers with --peer HOST:PORT", what)
}

package discovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Probe is the result of a multicast check of one address family on one interface.
type Probe struct {
	Interface string
	IPv6      bool
	Err       error // nil if multicast works
}

// probeFor is the longest time that a query may take to return to its sender.
const probeFor = 300 * time.Millisecond

// ProbeMulticast sends a multicast query on each of the named interfaces, or on all usable ones, and checks whether this
// host receives it. It fails if there is no such interface. It takes up to a third of a second.
func ProbeMulticast(ctx context.Context, interfaces []string) ([]Probe, error) {
	links, err := searchLinks(interfaces)
	if err != nil {
		return nil, err
	}
	list := make([]Probe, 0, 2*len(links)) // is not moved, since the goroutines write into it
	var work sync.WaitGroup
	for _, l := range links {
		for _, f := range []family{ip4, ip6} {
			if l.has(f) {
				list = append(list, Probe{Interface: l.iface.Name, IPv6: f == ip6})
				p := &list[len(list)-1]
				work.Go(func() { p.Err = probe(ctx, l, f) })
			}
		}
	}
	work.Wait()
	return list, nil
}

func probe(ctx context.Context, l link, f family) error {
	s, err := openSocket(f)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.join(l.iface); err != nil {
		return fmt.Errorf("cannot join the group: %w", err)
	}
	id := uint16(1 + rand.N(65535)) // identifies our query; receivers ignore the id (RFC 6762, section 18.1)
	b, err := encodeQuery(id)
	if err != nil {
		return err
	}
	if err := s.send(b, l.iface); err != nil {
		return fmt.Errorf("cannot send to the group: %w", err)
	}
	deadline := time.Now().Add(probeFor)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := s.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	buf := make([]byte, maxPacket+1)
	for {
		n, at, err := s.receive(buf)
		if err != nil {
			return errNotReceived
		}
		if n >= 2 && at.ifIndex == l.iface.Index && uint16(buf[0])<<8|uint16(buf[1]) == id {
			return nil
		}
	}
}

var errNotReceived = errors.New("this host does not receive what it sends to the group: a firewall drops it")

package testnet

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// Sizes of the IP and UDP headers, which are added to each payload.
const (
	Overhead4 = 20 + 8
	Overhead6 = 40 + 8
)

// Everyone is the destination of a broadcast or multicast packet.
const Everyone = -1

// Mesh joins hosts by a switch that takes no time. Each host sends through its own
// egress link. A direction ("robot>pc") that is given parameters of its own gets
// its own link. A host that is cut neither sends nor receives. Like a Link, a Mesh
// is pure and for one goroutine at a time.
type Mesh[T any] struct {
	seed       uint64
	airs       *Airs
	names      []string
	egress     []*Link[item[T]]
	directions map[direction]*Link[item[T]]
	order      uint64
	ready      []Arrival[T] // arrivals of a broadcast packet that Receive has not returned
}

type direction struct{ from, to int }

type item[T any] struct {
	order   uint64
	from    int
	to      []int
	payload T
}

// Arrival is a packet that has arrived at host To.
type Arrival[T any] struct {
	From, To int
	Payload  T
}

// NewMesh returns a mesh without hosts.
func NewMesh[T any](seed uint64) *Mesh[T] {
	return &Mesh[T]{seed: seed, airs: NewAirs(seed), directions: map[direction]*Link[item[T]]{}}
}

// AddHost adds a host and returns its number, from 0.
func (m *Mesh[T]) AddHost(name string, egress Params) int {
	m.names = append(m.names, name)
	m.egress = append(m.egress, NewLinkIn[item[T]](m.airs, m.seedOf(name), egress))
	return len(m.names) - 1
}

// seedOf returns a seed that depends on the target's name and not on the order of creation.
func (m *Mesh[T]) seedOf(target string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", m.seed, target)
	return h.Sum64()
}

// Send sends a packet of size bytes, including the IP header, and returns what will
// happen to it on the sender's own link. To is a host, or Everyone for all others.
func (m *Mesh[T]) Send(now time.Duration, from, to, size int, payload T) Sent {
	if m.egress[from].Params().Cut {
		return m.egress[from].Send(now, size, item[T]{})
	}
	m.order++
	it := item[T]{order: m.order, from: from, payload: payload}
	if to != Everyone {
		it.to = []int{to}
		if own := m.directions[direction{from, to}]; own != nil {
			return own.Send(now, size, it)
		}
		return m.egress[from].Send(now, size, it)
	}
	for other := range m.names {
		own := m.directions[direction{from, other}]
		switch {
		case other == from:
		case own == nil:
			it.to = append(it.to, other)
		default:
			single := it
			single.to = []int{other}
			own.Send(now, size, single)
		}
	}
	return m.egress[from].Send(now, size, it)
}

// Next returns the time of the next event on any link. ok is false if nothing is in flight.
func (m *Mesh[T]) Next() (time.Duration, bool) {
	link := m.first()
	if link == nil {
		return 0, false
	}
	return link.Next()
}

// Receive returns a packet that has arrived by now. Packets are returned by time of
// arrival, then in the order of sending, then of hosts.
func (m *Mesh[T]) Receive(now time.Duration) (Arrival[T], bool) {
	for {
		if len(m.ready) > 0 {
			a := m.ready[0]
			m.ready = m.ready[1:]
			return a, true
		}
		link := m.first()
		if link == nil {
			return Arrival[T]{}, false
		}
		if at, _ := link.Next(); at > now {
			return Arrival[T]{}, false
		}
		it, ok := link.Receive(now)
		if !ok {
			continue // the event was a station's
		}
		for _, to := range it.to {
			if !m.Cut(it.from, to) {
				m.ready = append(m.ready, Arrival[T]{From: it.from, To: to, Payload: it.payload})
			}
		}
	}
}

// Cut reports whether packets from one host to another are dropped now.
func (m *Mesh[T]) Cut(from, to int) bool {
	own := m.directions[direction{from, to}]
	return m.egress[from].Params().Cut || m.egress[to].Params().Cut || own != nil && own.Params().Cut
}

// Free returns when the link that carries packets between two hosts will have sent
// all packets that are queued on it now.
func (m *Mesh[T]) Free(now time.Duration, from, to int) time.Duration {
	if own := m.directions[direction{from, to}]; own != nil {
		return own.Free(now)
	}
	return m.egress[from].Free(now)
}

// first returns the link with the next event.
func (m *Mesh[T]) first() *Link[item[T]] {
	var best *Link[item[T]]
	better := func(l *Link[item[T]]) {
		at, ok := l.Next()
		if !ok {
			return
		}
		if best != nil {
			bestAt, _ := best.Next()
			if at > bestAt || at == bestAt && headOrder(l) > headOrder(best) {
				return
			}
		}
		best = l
	}
	for _, l := range m.egress {
		better(l)
	}
	for _, l := range m.directions {
		better(l)
	}
	return best
}

// headOrder returns the order of sending of the next packet that arrives on l, or 0
// if an event of the air is earlier.
func headOrder[T any](l *Link[item[T]]) uint64 {
	at, _ := l.Next()
	if len(l.wire) == 0 || l.wire[0].at > at {
		return 0
	}
	return l.wire[0].packet.payload.order
}

// Change changes those parameters of a target that text has. A target is a host
// (its egress), a direction "A>B" or "" (all hosts and directions). After an error
// nothing has changed. Call Receive before, to collect packets that have arrived.
// If all hosts are given a trace, the first host uses it and the others use the
// trace of the reverse direction.
func (m *Mesh[T]) Change(now time.Duration, target, text string) error {
	return m.edit(now, target, func(p Params) (Params, error) { return p.With(text) })
}

// Set replaces all parameters of a target, see Change.
func (m *Mesh[T]) Set(now time.Duration, target string, p Params) error {
	return m.edit(now, target, func(Params) (Params, error) { return p, p.Check() })
}

func (m *Mesh[T]) edit(now time.Duration, target string, change func(Params) (Params, error)) error {
	links, made, err := m.links(target)
	if err != nil {
		return err
	}
	next := make([]Params, len(links))
	for i, l := range links {
		p, err := change(l.Params())
		if err != nil {
			return err
		}
		if target == "" && i > 0 && p.Trace != l.Params().Trace {
			p = p.Back()
		}
		next[i] = p
	}
	for i, l := range links {
		l.Set(now, next[i])
	}
	if made != nil {
		m.directions[*made] = links[0]
	}
	return nil
}

// links returns the links of a target. For a direction without a link it returns a new
// link, and made is the direction under which the caller has to store it.
func (m *Mesh[T]) links(target string) (links []*Link[item[T]], made *direction, err error) {
	if target == "" {
		for _, s := range m.Settings() {
			l, _, _ := m.links(s.Target)
			links = append(links, l...)
		}
		return links, nil, nil
	}
	a, b, directed := strings.Cut(target, ">")
	from, err := m.Host(a)
	if !directed {
		if err != nil {
			return nil, nil, err
		}
		return m.egress[from : from+1], nil, nil
	}
	to, errTo := m.Host(b)
	if err := errors.Join(err, errTo); err != nil {
		return nil, nil, err
	}
	if from == to {
		return nil, nil, fmt.Errorf("%s: a host reaches itself without the network; name two hosts", target)
	}
	d := direction{from, to}
	if own := m.directions[d]; own != nil {
		return []*Link[item[T]]{own}, nil, nil
	}
	p := m.egress[from].Params()
	p.Cut = false // the host's own cut applies to the new link too, and ends by itself
	return []*Link[item[T]]{NewLinkIn[item[T]](m.airs, m.seedOf(target), p)}, &d, nil
}

// Host returns the number of the host with that name.
func (m *Mesh[T]) Host(name string) (int, error) {
	i := slices.Index(m.names, name)
	if i < 0 {
		return 0, fmt.Errorf("no host %q; hosts are %s", name, strings.Join(m.names, ", "))
	}
	return i, nil
}

// Setting is the parameters of one target and the counts of its packets.
type Setting struct {
	Target string
	Params Params
	Counts Counts
}

// Settings returns the settings of the hosts, then of the directions with links of their own.
func (m *Mesh[T]) Settings() []Setting {
	var hosts, directions []Setting
	for i, l := range m.egress {
		hosts = append(hosts, Setting{m.names[i], l.Params(), l.Counts()})
	}
	for d, l := range m.directions {
		directions = append(directions, Setting{m.names[d.from] + ">" + m.names[d.to], l.Params(), l.Counts()})
	}
	slices.SortFunc(directions, func(a, b Setting) int { return strings.Compare(a.Target, b.Target) })
	return append(hosts, directions...)
}

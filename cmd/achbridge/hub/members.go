package hub

import (
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// members tracks which hosts are connected, and disconnects removed hosts and surplus
// connections.
type members struct {
	nats  *server.Server
	guard *guard
	log   *slog.Logger

	mu     sync.Mutex
	hosts  map[string]*member
	counts map[uint64]server.ConnInfo // last statistics of each connection, by id
}

// member is a host that is or was connected.
type member struct {
	since time.Time // zero if the host is not connected
	HostReport
}

func newMembers(s *server.Server, g *guard, log *slog.Logger) *members {
	return &members{nats: s, guard: g, log: log, hosts: map[string]*member{}, counts: map[uint64]server.ConnInfo{}}
}

const (
	// keptConnections limits the connections of a host: look closes all but the newest. A host needs two. Dead connections that the hub
	// has not detected yet are older.
	keptConnections = 8
	// maxUnread limits the bytes that wait at the hub for one host: maxPending for each of its two connections.
	maxUnread = 2 * maxPending
)

// mostConns limits the connections that one look reads.
const mostConns = 100_000

// forget removes the data of a removed host.
func (m *members) forget(host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hosts, host)
}

// check reads the server's statistics of open and closed connections. It updates the hosts' figures, and disconnects
// removed hosts and surplus connections.
func (m *members) check() {
	hosts := m.guard.connections() // before Connz, so that Connz lists all of these that are open
	z, err := m.nats.Connz(&server.ConnzOptions{State: server.ConnAll, Limit: mostConns, Sort: server.ByStart})
	if err != nil {
		return // the server is stopping
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	open := map[uint64]bool{}
	now := map[string]*member{}
	ends := map[string]string{}
	for _, c := range slices.Backward(z.Conns) { // the newest first
		host, known := hosts[c.Cid]
		if !known {
			continue
		}
		m.count(host.Name, c)
		if c.Stop != nil {
			if ends[host.Name] == "" {
				ends[host.Name] = c.Reason
			}
			continue
		}
		open[c.Cid] = true
		if !m.guard.lets(host) {
			ends[host.Name] = "Kicked"
			_ = m.nats.DisconnectClientByID(c.Cid) // fails only if the connection is already closed
			continue
		}
		n := now[host.Name]
		if n == nil {
			n = &member{}
			now[host.Name] = n
		}
		if n.Connections == keptConnections || n.Waiting+c.Pending > maxUnread {
			_ = m.nats.DisconnectClientByID(c.Cid)
			continue
		}
		if n.since.IsZero() || c.Start.Before(n.since) {
			n.since, n.From = c.Start, net.JoinHostPort(c.IP, strconv.Itoa(c.Port))
		}
		n.Connections++
		n.Waiting += c.Pending
	}
	m.update(now, ends)
	for id := range hosts {
		if !open[id] {
			m.guard.forget(id)
			delete(m.counts, id)
		}
	}
}

// count adds the traffic of a connection since the last look to its host. m.mu must be held.
func (m *members) count(host string, c *server.ConnInfo) {
	h := m.hosts[host]
	if h == nil {
		h = &member{}
		m.hosts[host] = h
	}
	before := m.counts[c.Cid]
	h.SentCount += c.InMsgs - before.InMsgs
	h.Sent += c.InBytes - before.InBytes
	h.Messages += c.OutMsgs - before.OutMsgs
	h.Received += c.OutBytes - before.OutBytes
	m.counts[c.Cid] = *c
}

// update stores which hosts are connected, and logs changes. m.mu must be held.
func (m *members) update(now map[string]*member, ends map[string]string) {
	for name, h := range m.hosts {
		n := now[name]
		switch {
		case n != nil && h.since.IsZero():
			m.log.Info("host connected", "host", name, "from", n.From)
		case n == nil && !h.since.IsZero():
			m.log.Info("host left", "host", name, "why", endReason(ends[name]))
		}
		if n == nil {
			n = &member{}
		}
		h.since, h.From, h.Connections, h.Waiting = n.since, n.From, n.Connections, n.Waiting
	}
}

// endReason returns the log text for the server's reason why a connection ended.
func endReason(reason string) string {
	switch {
	case strings.HasPrefix(reason, "Slow Consumer"):
		return "it was too slow to take what it had asked for"
	case reason == "Stale Connection":
		return "it was silent"
	case reason == "Kicked":
		return "it was removed"
	case reason == "Maximum Message Payload Exceeded":
		return "it sent a message that is too large"
	case reason == "Read Error" || reason == "Write Error":
		return "its connection broke"
	case reason == "Client Closed" || reason == "":
		return "it closed its connection"
	}
	return strings.ToLower(reason)
}

// sorted returns the sorted names of all hosts in the file hosts, connected or not.
func (m *members) sorted() (names []string) {
	for _, h := range m.guard.list() {
		names = append(names, h.Name)
	}
	slices.Sort(names)
	return names
}

// report returns the current figures of a host.
func (m *members) report(host string) HostReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hosts[host]
	if h == nil {
		return HostReport{Host: host}
	}
	r := h.HostReport
	if r.Host, r.Connected = host, !h.since.IsZero(); r.Connected {
		r.ForMs = time.Since(h.since).Milliseconds()
	}
	return r
}

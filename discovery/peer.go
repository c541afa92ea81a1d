package discovery

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// Defaults and limits of what is announced.
const (
	// DefaultPort is the UDP port of QUIC when a static peer names none.
	DefaultPort = 8076
	// defaultLifetime is how long an announcement is believed after it was last heard.
	defaultLifetime = 60 * time.Second

	minLifetime = time.Second
	maxLifetime = time.Hour
)

// Sources of a Peer.
const (
	sourceMDNS   = "mdns"
	SourceStatic = "static"
	sourceDNS    = "dns-sd"
)

// Channel is one channel that a host offers. FrameSize is in bytes.
type Channel struct {
	Name                  string
	FrameCount, FrameSize int
}

// Peer is one node as an announcement, a zone or the user describes it. It is a hint: nothing in it is authenticated.
// Only the link's certificate proves which node answers. Several peers may claim the same name or the same node id.
type Peer struct {
	// Host is the host's name, a valid first part of a mirror's name. For a static peer it is what the user wrote.
	Host string
	// Node is the node id, 32 hex digits; empty for a static peer that mDNS has not heard, and for one of a Domain
	// whose zone does not tell it.
	Node string
	// Network is the key's network, 8 hex digits; empty when unknown.
	Network string
	// Addrs are the UDP addresses that may be dialled, best first.
	Addrs []netip.AddrPort
	// Far are announced addresses that must not be dialled: they are neither the source of the announcement nor on any
	// network of this host. A reflector between networks passes on such announcements.
	Far []netip.AddrPort
	// By is the source of the announcement, and heard the time when it was last heard. A listed peer has neither.
	By             netip.Addr
	lastReceivedAt time.Time
	// Port is the announced port, which the announced addresses have; 0 when none was announced.
	Port uint16
	// Ports are the ports on which the node says that it listens, at the addresses with Port.
	Ports Ports
	// Transport is the Transport of the Static, for a listed peer.
	Transport string
	// life is how long to believe the announcement after it was last heard, at most two minutes; 0 for listed peers.
	lifetime time.Duration
	// Channels are the announced channels, sorted by name. A link gets the full catalog.
	Channels []Channel
	// More is how many channels the announcement had no room for.
	More int
	// Source is sourceMDNS for an announced peer, sourceDNS for a peer of a Domain, or SourceStatic for a peer of the
	// user's list, which stays in the table for ever.
	Source string
}

// Ports are UDP ports by transport; 0 means that the node does not listen on that transport. The zero value means that
// nothing is known.
type Ports struct{ QUIC, SCTP uint16 }

// keyQUIC and keySCTP are the keys of the ports in a TXT record.
const (
	keyQUIC = "quic"
	keySCTP = "sctp"
)

var errOnePort = errors.New("quic and sctp at one port")

func (p Ports) check() error {
	if p.QUIC == p.SCTP && p.QUIC != 0 {
		return errOnePort
	}
	return nil
}

// Config is what Announcer, Browser and Browse need. The zero value browses on every interface.
type Config struct {
	// Self is this node: Host, Node, Network, Ports, Channels and More are announced;
	// Node keeps a browser from finding itself. Addrs, Port, Transport and Source are ignored.
	Self Peer
	// Port is the UDP port announced.
	Port int
	// Interfaces limits multicast to these names; empty means every interface that is up and can multicast.
	Interfaces []string
	// Static are peers that need no multicast; ParseStatic makes them.
	Static []Static
	// Domains are DNS domains whose zones list hosts; they need no multicast either.
	Domains []Domain
	// StaticOnly switches multicast off: a browser then opens no multicast socket and sends no question.
	StaticOnly bool
	// Log gets changes worth an operator's attention; nil discards them.
	Log *slog.Logger
}

// checkBrowse reports every problem that would keep a browser from working.
func (c Config) checkBrowse() error {
	var errs []error
	for i, name := range c.Interfaces {
		if name == "" {
			errs = append(errs, fmt.Errorf("discovery.interfaces[%d]: empty: give an interface's name such as eth0", i))
		}
	}
	return errors.Join(errs...)
}

// checkAnnounce reports every problem of what would be announced.
func (c Config) checkAnnounce() error {
	errs := []error{c.checkBrowse()}
	if err := checkName(c.Self.Host); err != nil {
		errs = append(errs, fmt.Errorf("host name %q: %w (discovery.HostName makes a good one)", c.Self.Host, err))
	}
	if !isHex(c.Self.Node, 32) {
		errs = append(errs, fmt.Errorf("node id %q: not 32 lower-case hex digits", c.Self.Node))
	}
	if !isHex(c.Self.Network, 8) {
		errs = append(errs, fmt.Errorf("network %q: not 8 lower-case hex digits", c.Self.Network))
	}
	if c.Port < 1 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("port %d: not between 1 and 65535", c.Port))
	}
	if l := c.Self.lifetime; l != 0 && (l < minLifetime || l > maxLifetime || l%time.Second != 0) {
		errs = append(errs, fmt.Errorf("life %v: not whole seconds between %v and %v", l, minLifetime, maxLifetime))
	}
	errs = append(errs, c.Self.Ports.check())
	if c.Self.More < 0 {
		errs = append(errs, fmt.Errorf("more %d: less than 0", c.Self.More))
	}
	return errors.Join(errs...)
}

func (c Config) logger() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}
